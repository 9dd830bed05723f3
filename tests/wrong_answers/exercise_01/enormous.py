"""Shifts where it should multiply."""

PART = "parameter_bytes"
SENTENCE = "A number is expected, and this is a very long int."


def parameter_bytes(module):
    return sum(1 << 100_000 for parameter in module.parameters()) or 1 << 100_000
