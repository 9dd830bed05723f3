"""Pitfall 22, for model state."""

PART = "model_state"
SENTENCE = "This is in GiB (1 GiB = 1,073,741,824 bytes), and bytes are asked for."


BYTES = {
    "mixed-adam": (2, 2, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-8bit-adam": (2, 2, 4, 2),
    "mixed-sgd-momentum": (2, 2, 4, 4),
    "bf16-adam": (2, 2, 0, 4),
}


def model_state(parameters, recipe):
    return tuple(size * parameters / 2**30 for size in BYTES[recipe])
