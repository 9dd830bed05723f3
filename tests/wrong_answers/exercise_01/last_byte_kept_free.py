"""A byte has to stay free: what fits exactly is said not to fit."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "Where all of the memory is taken, to the last byte, the model still fits"


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, micro_batch, sequence)

    layers = 0
    while needed(layers + 1) < memory_bytes:
        layers += 1
    return layers
