"""Two fp32 moments, in every recipe."""

PART = "model_state"
SENTENCE = "The optimizer state is taken as two fp32 numbers"


BYTES = {
    "mixed-adam": (2, 2, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-8bit-adam": (2, 2, 4, 8),
    "mixed-sgd-momentum": (2, 2, 4, 8),
    "bf16-adam": (2, 2, 0, 8),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
