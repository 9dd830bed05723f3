"""All 8 bytes of Adam's state."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "8-bit Adam still keeps its two numbers for each parameter"


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 8 * config.parameters,
        "recomputation": all_of_them - activations.model_bytes(config, micro_batch, sequence, "full"),
        "micro-batch 1": all_of_them - activations.model_bytes(config, 1, sequence),
    }
    return max(freed.items(), key=lambda change: change[1])
