"""Parameters and buffers."""

PART = "parameter_bytes"
SENTENCE = "Buffers are counted, too"


def parameter_bytes(module):
    return sum(tensor.nbytes for tensor in [*module.parameters(), *module.buffers()])
