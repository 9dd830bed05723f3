"""18 bytes per parameter."""

from dataclasses import replace

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "The gradients are taken as fp32: mixed-adam has bf16 gradients"


def most_layers(model, memory_bytes, micro_batch, sequence):
    def needed(layers):
        config = replace(CONFIGS[model], layers=layers)
        return 18 * config.parameters + activations.model_bytes(config, micro_batch, sequence)

    layers = 0
    while needed(layers + 1) <= memory_bytes:
        layers += 1
    return layers
