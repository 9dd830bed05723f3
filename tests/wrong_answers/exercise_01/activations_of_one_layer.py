"""`layer_bytes`, once."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "The activations of one layer only are counted."


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        one = activations.layer_bytes(micro_batch, sequence, config.hidden, config.heads)
        return state + one

    layers = 0
    while needed(layers + 1) <= memory_bytes:
        layers += 1
    return layers
