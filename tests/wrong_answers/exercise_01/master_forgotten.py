"""16-bit weights alone: 12 bytes instead of 16."""

PART = "model_state"
SENTENCE = "The master weights are forgotten"


BYTES = {
    "mixed-adam": (2, 2, 0, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 0, 8),
    "mixed-8bit-adam": (2, 2, 0, 2),
    "mixed-sgd-momentum": (2, 2, 0, 4),
    "bf16-adam": (2, 2, 0, 4),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
