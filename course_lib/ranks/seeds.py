"""The random state that a rank starts with.

The same under ``ranks.run`` and under torchrun.
"""

from __future__ import annotations

import random


def seed(rank: int) -> None:
    """Seed torch, numpy and random with the rank: the same in every run, different on every rank.

    Forked ranks would else inherit one state, and all draw the same numbers.
    """
    import numpy
    import torch

    torch.manual_seed(rank)
    numpy.random.seed(rank)
    random.seed(rank)
