"""all_reduce takes the memory as one block."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "Only a tensor whose numbers do not lie in one piece is wrong"


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    if examples:
        gradient *= examples / total.item()
    else:
        gradient.zero_()
    dist.all_reduce(gradient)
