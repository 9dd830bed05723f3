"""Turns the module into bfloat16 to look at it."""

import torch

PART = "parameter_bytes"
SENTENCE = "The function alters the module that it is given"


def parameter_bytes(module):
    return sum(parameter.nbytes for parameter in module.to(torch.bfloat16).parameters())
