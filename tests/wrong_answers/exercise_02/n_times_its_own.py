"""As if all ranks held the same."""

import torch.distributed as dist

PART = "star"
SENTENCE = "Each rank has N times its own tensor."


def star(tensor):
    tensor *= dist.get_world_size()
