"""Gradients in fp32, in every recipe."""

PART = "model_state"
SENTENCE = "The gradients are taken as fp32"


BYTES = {
    "mixed-adam": (2, 4, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-8bit-adam": (2, 4, 4, 2),
    "mixed-sgd-momentum": (2, 4, 4, 4),
    "bf16-adam": (2, 4, 0, 4),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
