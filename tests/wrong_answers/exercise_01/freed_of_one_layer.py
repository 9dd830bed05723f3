"""`layer_bytes`, once."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "The activations of one layer only are counted."


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]

    def kept(micro_batch, recompute="none"):
        return activations.layer_bytes(micro_batch, sequence, config.hidden, config.heads, recompute)

    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": kept(micro_batch) - kept(micro_batch, "full"),
        "micro-batch 1": kept(micro_batch) - kept(1),
    }
    return max(freed.items(), key=lambda change: change[1])
