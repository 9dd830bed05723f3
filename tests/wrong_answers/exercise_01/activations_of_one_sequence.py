"""The micro-batch makes no difference."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "The activations are those of one sequence:"


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, 1, sequence)

    layers = 0
    while needed(layers + 1) <= memory_bytes:
        layers += 1
    return layers
