"""What is still needed afterwards."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "This is what is still needed after the change."


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": all_of_them - activations.model_bytes(config, micro_batch, sequence, "full"),
        "micro-batch 1": all_of_them - activations.model_bytes(config, 1, sequence),
    }
    before = 16 * config.parameters + all_of_them
    left = {change: before - size for change, size in freed.items()}
    return min(left.items(), key=lambda change: change[1])
