"""The loss of a micro-batch, in the form in which a loop needs it, and what a step has seen of it.

Stands on torch alone; ranks are only counted here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F


class Small(NamedTuple):
    """A gradient of fewer samples than the whole batch, for the noise scale: of their mean, squared norms."""

    norm_sq: float | torch.Tensor
    sequences: int


class Weights(NamedTuple):
    """What a loop does with the losses of a step's micro-batches, so that all tokens count the same.

    ``total``: tokens of the step, on all ranks.  ``by_tokens``: whether the loop itself multiplies each loss
    by its share of them, and adds gradients over ranks.  Else it takes means, over its micro-batches and over
    ranks, as if all were equally long.
    """

    total: int
    ranks: int
    micro_batches: int
    by_tokens: bool = False

    def of_loss(self, tokens: int) -> float:
        """What a loss of so many tokens is multiplied by for the loop: 1 where all are equally long."""
        return 1.0 if self.by_tokens else tokens * self.ranks * self.micro_batches / self.total

    def in_gradient(self, tokens: int) -> float:
        """What the mean gradient of a rank's so many tokens is then multiplied by, before ranks meet."""
        return tokens * (1 if self.by_tokens else self.ranks) / self.total


class Loss:
    """``loss(outputs, targets)``: cross-entropy, the mean over a micro-batch's tokens, weighted and scaled.

    Outputs are (sequences, sequence, vocab), targets (sequences, sequence).  It adds up what the step's
    record needs.  Between the first two micro-batches, when ``.grad`` has one micro-batch's gradient alone,
    it takes that one's norm for the noise scale.
    """

    def __init__(self, weights: Weights, scaler: torch.amp.GradScaler, parameters: list[torch.nn.Parameter]):
        self._weights, self._scaler, self._parameters = weights, scaler, parameters
        self.begin()

    def begin(self) -> None:
        """For the next step."""
        self._sum: float | torch.Tensor = 0.0
        self._targets: list[torch.Tensor] = []
        self.small: Small | None = None

    @property
    def sum(self) -> float:
        """Over the tokens so far."""
        return float(self._sum)

    @property
    def tokens(self) -> int:
        return sum(targets.numel() for targets in self._targets)

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if len(self._targets) == 1:
            self.note_gradient(squared_norm(self._parameters))
        self._targets.append(targets)
        precise = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        loss = F.cross_entropy(precise.flatten(0, 1), targets.flatten())
        self._sum = self._sum + loss.detach().double() * targets.numel()
        return self._scaler.scale(loss * self._weights.of_loss(targets.numel()))

    def note_gradient(self, norm_sq: torch.Tensor | None) -> None:
        """The squared norm of this rank's gradient of its micro-batches so far; only the first one counts."""
        if norm_sq is not None and self.small is None:
            # As a tensor: get_scale() would wait for a GPU in the middle of the step.
            factor = self._scaler.scale(torch.full_like(norm_sq, self._weights.in_gradient(self.tokens)))
            self.small = Small(norm_sq / factor**2, sum(len(targets) for targets in self._targets))


def squared_norm(parameters: list[torch.nn.Parameter]) -> torch.Tensor | None:
    """Of the gradients as they are, all parameters together; None if there are none."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return torch.nn.utils.get_total_norm(gradients).double().square() if gradients else None
