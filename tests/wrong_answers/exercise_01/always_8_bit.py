"""Always the same change."""

from course_lib import activations
from course_lib.transformer import CONFIGS

PART = "frees_most"
SENTENCE = "The change that is named frees that much, but another one frees more."


def frees_most(model, micro_batch, sequence):
    config = CONFIGS[model]
    all_of_them = activations.model_bytes(config, micro_batch, sequence)
    freed = {
        "8-bit Adam": 6 * config.parameters,
        "recomputation": all_of_them - activations.model_bytes(config, micro_batch, sequence, "full"),
        "micro-batch 1": all_of_them - activations.model_bytes(config, 1, sequence),
    }
    return "8-bit Adam", freed["8-bit Adam"]
