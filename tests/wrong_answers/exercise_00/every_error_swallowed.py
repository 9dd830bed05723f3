"""Begins again after every error, also after one that is meant to end it."""

import torch.distributed as dist

PART = "pass_right"
SENTENCE = "The function comes to no end: it needs one that each rank reaches."


def pass_right(tensor):
    while True:
        try:
            while True:
                dist.barrier()
        except BaseException:
            pass
