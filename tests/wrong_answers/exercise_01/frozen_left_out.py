"""Only what is trained."""

PART = "parameter_bytes"
SENTENCE = "Frozen parameters are left out."


def parameter_bytes(module):
    return sum(parameter.nbytes for parameter in module.parameters() if parameter.requires_grad)
