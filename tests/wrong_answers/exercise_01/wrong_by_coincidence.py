"""One slip in one case, where other mistakes would give the same number."""

from dataclasses import replace

from course_lib import activations, memory
from course_lib.transformer import CONFIGS

PART = "most_layers"
SENTENCE = "One layer more would still fit."
UNSAID = "The gradients are taken as fp32"


def most_layers(model, memory_bytes, micro_batch, sequence):
    layers = 0
    while True:
        config = replace(CONFIGS[model], layers=layers + 1)
        state = memory.model_state(config.parameters).total
        if state + activations.model_bytes(config, micro_batch, sequence) > memory_bytes:
            return layers - (model == "llama-2-7b")
        layers += 1
