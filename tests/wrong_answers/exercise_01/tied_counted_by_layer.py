"""Goes from module to module, and counts a shared weight in each."""

PART = "parameter_bytes"
SENTENCE = "A tied weight is counted twice:"


def parameter_bytes(module):
    total = 0
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            total += parameter.nbytes
    return total
