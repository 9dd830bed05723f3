"""torch computes with tensors where Python would do."""

import torch

PART = "parameter_bytes"
SENTENCE = "A number is expected, and this is a tensor (`.item()` takes the number out of it)."


def parameter_bytes(module):
    sizes = [parameter.numel() * parameter.element_size() for parameter in module.parameters()]
    return torch.tensor(sizes, dtype=torch.int64).sum()
