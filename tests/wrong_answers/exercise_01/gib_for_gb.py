"""Pitfall 22: divided by 1024 three times, and called GB."""

PART = "parameter_bytes"
SENTENCE = "This is in GiB (1 GiB = 1,073,741,824 bytes), and bytes are asked for."


def parameter_bytes(module):
    return sum(parameter.nbytes for parameter in module.parameters()) / 1024**3
