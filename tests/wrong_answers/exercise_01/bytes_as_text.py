"""Made for people to read."""

PART = "parameter_bytes"
SENTENCE = "A number is expected, and this is text."


def parameter_bytes(module):
    return f"{sum(parameter.nbytes for parameter in module.parameters())} bytes"
