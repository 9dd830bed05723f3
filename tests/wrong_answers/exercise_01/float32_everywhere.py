"""Four bytes for each element, whatever its dtype."""

PART = "parameter_bytes"
SENTENCE = "Every element is taken as four bytes"


def parameter_bytes(module):
    return 4 * sum(parameter.numel() for parameter in module.parameters())
