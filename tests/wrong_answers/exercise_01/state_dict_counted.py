"""The checkpoint's size: a tied weight twice, and buffers, too."""

PART = "parameter_bytes"
SENTENCE = "A tied weight is counted twice:"


def parameter_bytes(module):
    return sum(tensor.nbytes for tensor in module.state_dict().values())
