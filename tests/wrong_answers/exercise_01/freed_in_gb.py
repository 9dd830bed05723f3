"""The right choice, in GB."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "This is in GB (1 GB = 1,000,000,000 bytes), and bytes are asked for."


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": all_of_them - activations.model_bytes(config, micro_batch, sequence, "full"),
        "micro-batch 1": all_of_them - activations.model_bytes(config, 1, sequence),
    }
    best = max(freed, key=freed.get)
    return best, freed[best] / 10**9
