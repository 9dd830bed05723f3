"""The optimizer and the learning rate of each step.

Stands on torch alone: AdamW, a warmup, and a cosine down to a tenth.
"""

from __future__ import annotations

import math

import torch

_BETAS = (0.9, 0.95)  # as GPT-3's; 0.999 would remember longer than a short run lasts
_WEIGHT_DECAY = 0.1
_LEAST = 0.1  # of the highest learning rate, at the end


def adamw(module: torch.nn.Module) -> torch.optim.AdamW:
    """AdamW, which lets matrices decay and leaves biases and norms alone."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [each for each in trained if each.dim() >= 2], "weight_decay": _WEIGHT_DECAY},
        {"params": [each for each in trained if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=_BETAS)


def learning_rate(step: int, steps: int, highest: float, warmup: int) -> float:
    """Of a step from 1 to ``steps``: up in a straight line to ``highest``, then down a cosine to a tenth."""
    if step <= warmup:
        return highest * step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return highest * (_LEAST + (1 - _LEAST) * (1 + math.cos(math.pi * done)) / 2)
