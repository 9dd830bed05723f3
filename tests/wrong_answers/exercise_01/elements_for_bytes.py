"""The number of parameters."""

PART = "parameter_bytes"
SENTENCE = "This is the number of elements, and bytes are asked for"


def parameter_bytes(module):
    return sum(parameter.numel() for parameter in module.parameters())
