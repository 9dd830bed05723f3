"""Every rank counts the same, those without examples as well."""

import torch.distributed as dist

PART = "average"
SENTENCE = "This is the mean of the ranks' means"


def average(gradient, examples):
    mean = gradient.contiguous() / dist.get_world_size()
    dist.all_reduce(mean)
    gradient.copy_(mean)
