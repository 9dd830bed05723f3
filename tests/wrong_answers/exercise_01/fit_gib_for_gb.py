"""What the card has in GiB, what is needed in GB."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "GiB are taken for GB: compare both in bytes."


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        state = memory.model_state(config.parameters).total
        return state + activations.model_bytes(config, micro_batch, sequence)

    layers = 0
    while needed(layers + 1) / 10**9 <= memory_bytes / 2**30:
        layers += 1
    return layers
