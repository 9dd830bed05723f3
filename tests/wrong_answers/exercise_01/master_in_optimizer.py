"""ZeRO's K = 12: the master weights are part of the optimizer state."""

PART = "model_state"
SENTENCE = "The master weights stand among the optimizer state"


BYTES = {
    "mixed-adam": (2, 2, 0, 12),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 0, 12),
    "mixed-8bit-adam": (2, 2, 0, 6),
    "mixed-sgd-momentum": (2, 2, 0, 8),
    "bf16-adam": (2, 2, 0, 4),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
