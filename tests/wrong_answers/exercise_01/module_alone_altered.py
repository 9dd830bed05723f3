"""The right number, and the module is in another dtype afterwards."""

PART = "parameter_bytes"
SENTENCE = "The function alters the module that it is given"


def parameter_bytes(module):
    total = sum(parameter.nbytes for parameter in module.parameters())
    module.half()
    return total
