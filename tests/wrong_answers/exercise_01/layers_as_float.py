"""The right formula, not rounded down."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "A number of layers is whole, and this is a float:"


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, micro_batch, sequence)

    one_layer = needed(2) - needed(1)
    return max((memory_bytes - needed(1) + one_layer) / one_layer, 0.0)
