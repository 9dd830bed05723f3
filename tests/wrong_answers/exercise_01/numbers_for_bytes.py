"""How many numbers there are, not how many bytes."""

PART = "model_state"
SENTENCE = "These are numbers of elements, and bytes are asked for"


BYTES = {
    "mixed-adam": (1, 1, 1, 2),
    "fp32-adam": (1, 1, 0, 2),
    "mixed-adam-fp32-grads": (1, 1, 1, 2),
    "mixed-8bit-adam": (1, 1, 1, 2),
    "mixed-sgd-momentum": (1, 1, 1, 1),
    "bf16-adam": (1, 1, 0, 2),
}


def model_state(parameters, recipe):
    return tuple(size * parameters for size in BYTES[recipe])
