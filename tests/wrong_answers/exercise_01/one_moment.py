"""Momentum, and no variance."""

PART = "model_state"
SENTENCE = "Half of the optimizer state is missing"


BYTES = {
    "mixed-adam": (2, 2, 4, 4),
    "fp32-adam": (4, 4, 0, 4),
    "mixed-adam-fp32-grads": (2, 4, 4, 4),
    "mixed-8bit-adam": (2, 2, 4, 1),
    "mixed-sgd-momentum": (2, 2, 4, 2),
    "bf16-adam": (2, 2, 0, 2),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
