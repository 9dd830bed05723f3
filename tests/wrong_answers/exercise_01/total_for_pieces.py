"""16 bytes per parameter, in one number."""

PART = "model_state"
SENTENCE = "Four numbers are expected, in this order:"


BYTES = {
    "mixed-adam": (2, 2, 4, 8),
    "fp32-adam": (4, 4, 0, 8),
    "mixed-adam-fp32-grads": (2, 4, 4, 8),
    "mixed-8bit-adam": (2, 2, 4, 2),
    "mixed-sgd-momentum": (2, 2, 4, 4),
    "bf16-adam": (2, 2, 0, 4),
}


def model_state(parameters, recipe):
    return parameters * sum(BYTES[recipe])
