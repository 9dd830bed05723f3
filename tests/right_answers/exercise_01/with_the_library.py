"""As short as the library allows."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS


def parameter_bytes(module):
    return sum(parameter.nbytes for parameter in module.parameters())


def model_state(parameters, recipe):
    state = memory.model_state(parameters, recipe)
    return state.weights, state.gradients, state.master, state.optimizer


def read_data_sheet(memory_mib, tflops, sparse, has_bf16):
    return memory_mib << 20, tflops * (5e11 if sparse else 1e12) if has_bf16 else None


def most_layers(model, memory_bytes, micro_batch, sequence):
    """Both parts grow by the same number of bytes with each layer."""

    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, micro_batch, sequence)

    one_layer = needed(2) - needed(1)
    without_layers = needed(1) - one_layer
    return max((memory_bytes - without_layers) // one_layer, 0)


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]

    def needed(recipe="mixed-adam", micro_batch=micro_batch, recompute="none"):
        state = memory.model_state(config.parameters, recipe).total
        return state + activations.model_bytes(config, micro_batch, sequence, recompute)

    changes = {
        "8-bit Adam": {"recipe": "mixed-8bit-adam"},
        "recomputation": {"recompute": "full"},
        "micro-batch 1": {"micro_batch": 1},
    }
    freed = {name: needed() - needed(**change) for name, change in changes.items()}
    best = max(freed, key=freed.get)
    return best, freed[best]
