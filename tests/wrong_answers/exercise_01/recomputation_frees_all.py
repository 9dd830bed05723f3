"""The inputs of the layers, and the logits, would be free, too."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "Recomputation does not free all activations:"


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": all_of_them,
        "micro-batch 1": all_of_them - activations.model_bytes(config, 1, sequence),
    }
    return max(freed.items(), key=lambda change: change[1])
