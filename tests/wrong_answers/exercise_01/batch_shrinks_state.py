"""As if model state grew with the micro-batch."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "A smaller micro-batch leaves the model state as it is:"


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": all_of_them - activations.model_bytes(config, micro_batch, sequence, "full"),
        "micro-batch 1": (16 * config.parameters + all_of_them) * (micro_batch - 1) // micro_batch,
    }
    return max(freed.items(), key=lambda change: change[1])
