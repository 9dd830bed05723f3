"""Prints and does not return."""

PART = "parameter_bytes"
SENTENCE = "The function returns None: it needs a `return`."


def parameter_bytes(module):
    print(sum(parameter.nbytes for parameter in module.parameters()))
