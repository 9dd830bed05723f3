"""Asks for more than it is given."""

PART = "parameter_bytes"
SENTENCE = "The function does not take the arguments that it gets: keep the line with `def` as it was."


def parameter_bytes(module, item_bytes):
    return item_bytes * sum(parameter.numel() for parameter in module.parameters())
