"""A run as a loop sees it: batches to go through, and an optimizer to call when gradients are averaged.

Stands on ``loss``, ``optimizing``, ``keeping`` and ``lines``, in the place of a learner's optimizer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from course_lib import ranks
from course_lib.noise_scale import Meter
from course_lib.train.data import MicroBatch
from course_lib.train.errors import Stopped, TrainingError
from course_lib.train.keeping import Keeper, Trained
from course_lib.train.lines import Journal
from course_lib.train.loss import Loss
from course_lib.train.optimizing import learning_rate
from course_lib.train.records import Record
from course_lib.train.settings import Settings

NOISE_WINDOW = 100  # steps


class Batches(Sequence):
    """For each step that is left a list of this rank's micro-batches, made when it is asked for."""

    def __init__(
        self, make: Callable[[int], list[MicroBatch]], steps: Steps, quiet: bool
    ):  # fmt: skip
        self._make, self._of, self._quiet = make, steps, quiet
        self._steps = range(steps.done + 1, steps.last + 1)

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, index: int | slice) -> list:
        found = self._steps[index]
        return self._make(found) if isinstance(found, int) else [self._make(step) for step in found]

    def __iter__(self) -> Iterator[list[MicroBatch]]:
        for step in self._steps if self._quiet else ranks.progress(self._steps, description="training"):
            if self._of.end is not None:  # a learner's `except Exception` may have caught it
                return
            yield self._make(step)


class Steps:
    """The optimizer of a loop.  ``step()`` expects averaged gradients, and does all that follows.

    That is: unscale and clip the gradient, update the weights, tell all ranks of the loss and of who wants to
    stop, and write lines and checkpoints.  Raises on all ranks alike: Stopped, after a step, where one was
    asked to; TrainingError where the loss is not finite any more, or a checkpoint can't be kept.  ``end``
    is what it has raised.
    """

    def __init__(
        self, settings: Settings, trained: Trained, loss: Loss, keeper: Keeper, journal: Journal | None,
        resumed_from: int, has_speed: bool, should_stop: Callable[[], bool],
    ):  # fmt: skip
        self._settings, self._trained, self._loss = settings, trained, loss
        self._keeper, self._journal = keeper, journal
        self._has_speed, self._should_stop = has_speed, should_stop
        self._parameters = list(trained.module.parameters())
        self._first = resumed_from
        self.meter = Meter(window=NOISE_WINDOW)
        self.records: list[Record] = []
        self.is_stopped = False
        self.end: Stopped | TrainingError | None = None
        self._began = time.perf_counter()

    @property
    def last(self) -> int:
        return self._settings.steps

    @property
    def done(self) -> int:
        """Steps, with those before the run was resumed."""
        return self._first + len(self.records)

    def zero_grad(self) -> None:
        self._trained.optimizer.zero_grad()

    def step(self) -> None:
        self.require_not_ended()
        try:
            self._step()
        except (Stopped, TrainingError) as end:
            self.end = end
            raise

    def require_not_ended(self) -> None:
        """Raises ``end`` again, once there is one: whoever caught it does not go on."""
        if self.end is not None:
            raise self.end

    def _step(self) -> None:
        step, settings = self.done + 1, self._settings
        rate = learning_rate(step, settings.steps, settings.learning_rate, settings.warmup)
        norm, is_skipped = self._update(rate)
        loss, stop = self._of_all_ranks(norm)
        seconds = time.perf_counter() - self._began
        speed = settings.tokens / seconds if self._has_speed else None
        record = Record(step, loss, rate, norm, settings.tokens, seconds, speed, is_skipped)
        self.records.append(record)
        self._loss.begin()
        if self._journal is not None:
            self._journal.step(record)
        self._require_finite(record)
        self._end_step(step, stop)
        self._began = time.perf_counter()

    def _update(self, rate: float) -> tuple[float, bool]:
        """The norm of the mean gradient, and whether nothing was changed for it was not finite in fp16."""
        optimizer, scaler = self._trained.optimizer, self._trained.scaler
        for group in optimizer.param_groups:
            group["lr"] = rate
        scaler.unscale_(optimizer)
        norm = float(self._clip())
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        return norm, scaler.get_scale() < scale

    def _clip(self) -> torch.Tensor:
        """Returns the norm before."""
        if self._settings.max_norm is not None:
            return torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.max_norm)
        gradients = [each.grad for each in self._parameters if each.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def _of_all_ranks(self, norm: float) -> tuple[float, bool]:
        """The mean loss, and whether any rank should stop; in one small message, with the noise meter's."""
        small = self._loss.small
        noise = [0.0, 0.0, 0.0] if small is None else [float(small.norm_sq), 1 / small.sequences, 1.0]
        own = [self._loss.sum, self._loss.tokens, float(self._should_stop()), *noise]
        sums = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(sums)
        loss, tokens, stop, norm_sq, reciprocals, count = sums.tolist()
        self._require_all(int(tokens))
        if count:
            # Ranks' parts may be unequal, and then the harmonic mean stands for them.
            self.meter.update(norm_sq / count, norm * norm, count / reciprocals, self._settings.batch)
        return loss / tokens, stop > 0

    def _require_all(self, tokens: int) -> None:
        step, expected = self.done + 1, self._settings.tokens
        if tokens != expected or step > self.last:
            raise TrainingError(
                f"optimizer.step() was called in step {step} of {self.last} for {tokens:,} of {expected:,} "
                "tokens: expected one call in each step, after all micro-batches."
            )

    def _require_finite(self, record: Record) -> None:
        if not math.isfinite(record.loss):
            raise self._keeper.diverged(f"The loss of step {record.step} is {record.loss}")

    def _end_step(self, step: int, stop: bool) -> None:
        settings = self._settings
        is_last = step == settings.steps
        stop = stop or len(self.records) == settings.stop_after
        if is_last or stop or step % settings.checkpoint_every == 0:
            self._keeper.keep(step)
        if stop and not is_last:
            self.is_stopped = True
            raise Stopped
