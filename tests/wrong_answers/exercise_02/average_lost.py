"""The name is given to another tensor."""

import torch
import torch.distributed as dist

PART = "average"
SENTENCE = "What was given is as before. `tensor = …` gives the name to another"


def average(gradient, examples):
    total = torch.tensor(examples)
    dist.all_reduce(total)
    share = examples / total.item()
    gradient = (gradient * share if examples else torch.zeros_like(gradient)).contiguous()
    dist.all_reduce(gradient)
