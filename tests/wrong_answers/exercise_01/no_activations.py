"""Model state fills the card to the last byte."""

from dataclasses import replace

from course_lib import memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "The activations are forgotten:"


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state

    layers = 0
    while needed(layers + 1) <= memory_bytes:
        layers += 1
    return layers
