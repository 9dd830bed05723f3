"""A bucket: the gradients of some parameters, side by side in one row of memory.

It knows its own row and places, and leaves when and where to reduce to ``bucketed`` and ``channel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from course_lib.data_parallel.gradients import real
from course_lib.overlap.channel import AllReduce, Channel, Started


@dataclass(eq=False)
class Place:
    """A parameter's part of its bucket, and how often a backward pass has reached it."""

    name: str
    parameter: torch.nn.Parameter
    bucket: Bucket
    part: torch.Tensor  # of the row
    expected: int = 1  # gradients in a step, as many as in the last one
    arrived: int = 0
    had_gradient: bool = False  # when the bucket's reduction started
    version: int | None = None  # of the view then, or before that when a gradient arrived

    def __post_init__(self) -> None:
        self.view = _shaped(self.part, self.parameter)  # what .grad is
        # Not a hook of the parameter: that is called for torch.autograd.grad, too, which adds nothing.
        self.accumulation = torch.autograd.graph.get_gradient_edge(self.parameter).node

    def before_gradient(self, gradients: tuple[torch.Tensor, ...]) -> None:
        """A hook: autograd is about to add to the gradient."""
        if self.bucket.is_started:  # and would add to what is being reduced
            self.bucket.reopen()

    @property
    def is_cleared(self) -> bool:
        """Whether the gradient was dropped since then, or set to zero, as by ``zero_grad()``."""
        return self.had_gradient and (self.parameter.grad is None or self.is_changed)

    @property
    def is_changed(self) -> bool:
        """Whether anybody has written into the gradient since then, or put another in its place.

        (The reduction goes by another view.)
        """
        if self.parameter.grad is None or self.version is None:
            return False
        is_other = self.parameter.grad is not self.view or not self._is_in_row
        return is_other or self.view._version != self.version

    @property
    def _is_in_row(self) -> bool:
        """False after ``.grad.data = ...``, and after ``module.double()`` and its like."""
        return self.view.data_ptr() == self.part.data_ptr() and self.view.dtype == self.part.dtype

    def collect(self) -> None:
        """Move a gradient that is elsewhere into the bucket, and note that it has arrived as it is."""
        gradient = self.parameter.grad
        if not self._is_in_row:
            self.view = _shaped(self.part, self.parameter)
        if gradient is not None and gradient is not self.view:
            self._move(gradient)
        self.version = self.view._version

    def _move(self, gradient: torch.Tensor) -> None:
        if gradient.layout != torch.strided:
            raise ValueError(
                f"{self.name} has a gradient of layout {gradient.layout}: expected a dense one, since a "
                "bucket holds every element. An embedding's is dense with sparse=False."
            )
        if gradient.requires_grad:
            raise ValueError(
                f"{self.name} has a gradient with a graph: expected backward() without create_graph=True, "
                "since an average over ranks has none"
            )
        if gradient.dtype != self.part.dtype:
            raise ValueError(
                f"{self.name} has a gradient of {gradient.dtype}: expected {self.part.dtype}, as when the "
                "buckets were made; wrap the module again"
            )
        self.view.copy_(gradient)
        self.parameter.grad = self.view


class Bucket:
    """One row: gradients, then a flag for each parameter (is there a gradient?), then flags of the step.

    A parameter without a gradient counts as zero.  After the reduction a flag above 0 says that some rank had
    one.
    """

    def __init__(self, named: Sequence[tuple[str, torch.nn.Parameter]], flags_of_step: int):
        like = named[0][1]
        self.numel = sum(parameter.numel() for _, parameter in named)
        lengths = [self.numel, len(named), flags_of_step]
        self.row = torch.zeros(sum(lengths), dtype=dtype_of(like), device=like.device)
        gradients, self.used, self.flags_of_step = self.row.split(lengths)
        parts = gradients.split([parameter.numel() for _, parameter in named])
        self.places = [
            Place(name, parameter, self, part)
            for part, (name, parameter) in zip(parts, named, strict=True)
        ]
        self.local_norm_sq: torch.Tensor | None = None  # none before the first step, or of two pieces
        self.begin()

    def begin(self) -> None:
        """For the next step."""
        for place in self.places:
            place.expected, place.arrived, place.version = max(1, place.arrived), 0, None
        self.has_cleared = False  # a gradient that was on its way already
        self.missing = len(self.places)  # that have fewer gradients than expected
        self._reduction: Started | None = None
        self._mean_so_far: torch.Tensor | None = None

    @property
    def is_started(self) -> bool:
        return self._reduction is not None

    @property
    def is_reopened(self) -> bool:
        return self._mean_so_far is not None

    def start(self, channel: Channel, all_reduce: AllReduce) -> None:
        """Let the channel average the row over all ranks."""
        self.require_not_changed()
        for place in self.places:
            place.collect()
            place.had_gradient = place.parameter.grad is not None
            if not place.had_gradient:
                place.view.zero_()
                place.version = place.view._version
        self.used.copy_(torch.tensor([float(place.had_gradient) for place in self.places]))
        self.local_norm_sq = None if self.is_reopened else self.norm_sq()
        self.row *= 1 / dist.get_world_size()  # before the sum: in float16 the sum would overflow
        channel.follow()
        self._reduction = channel.start(real(self.row), all_reduce)

    def norm_sq(self) -> torch.Tensor:
        """Of the gradients as they are; float32 at least, since squares of half types overflow or vanish."""
        precise = torch.promote_types(self.row.dtype, torch.float32)
        return torch.linalg.vector_norm(self.row[: self.numel], dtype=precise).real.square()

    def wait(self) -> None:
        if self._reduction is not None:
            self._reduction.wait()

    def require_not_changed(self) -> None:
        """Gradients that have arrived are as they were, or all zero, as ``zero_grad()`` may leave them."""
        for place in self.places:
            gradient = place.parameter.grad
            if gradient is not None and place.is_changed and (self.is_started or gradient.any()):
                raise RuntimeError(
                    f"the gradient of {place.name} was changed before it was averaged: call finish() before "
                    "gradients are clipped, scaled or set to zero"
                )

    def reopen(self) -> None:
        """Put the mean so far aside, so that what comes later can be averaged by itself."""
        self.wait()
        for place, used in zip(self.places, self.used, strict=True):
            if place.is_cleared:
                self.has_cleared = True
                place.view.zero_()
                used.zero_()
            place.version = None
        self._mean_so_far = self.row.clone()
        self.row.zero_()
        self._reduction = None

    def close(self) -> None:
        """Add what was put aside."""
        if self._mean_so_far is not None:
            self.row += self._mean_so_far

    def hand_out(self, used: Sequence[float]) -> None:
        """Give every parameter its mean gradient, or None if no rank had one."""
        for place, is_used in zip(self.places, used, strict=True):
            place.parameter.grad = place.view if is_used else None


def dtype_of(parameter: torch.nn.Parameter) -> torch.dtype:
    """The type of its gradients."""
    return parameter.grad_dtype or parameter.dtype


def _shaped(part: torch.Tensor, parameter: torch.nn.Parameter) -> torch.Tensor:
    """A row's part with the parameter's shape and, where it has no gaps, its layout."""
    strides = torch.empty_like(parameter, device="meta").stride()
    # data: with a version of its own, that only counts who writes into this gradient.
    return part.data.as_strided(parameter.shape, strides)

