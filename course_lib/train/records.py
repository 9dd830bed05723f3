"""What is known of each step, and of a run.

Plain data: made by ``steps``, written by ``lines``, returned by ``run``.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from course_lib import measurements
from course_lib.noise_scale import Estimate


@dataclass(frozen=True)
class Record:
    """One step.

    ``loss``: the mean over all tokens of all ranks, in nats, before the step.  ``gradient_norm``: of the mean
    gradient, before it was clipped.  ``seconds``: from the end of one step to that of the next, without
    checkpoints and lines.  ``tokens_per_second``: of all ranks; None where ranks share cores, since it would
    mean nothing.  ``is_skipped``: fp16's loss was scaled too much, and no weight was changed.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens: int
    seconds: float
    tokens_per_second: float | None
    is_skipped: bool

    def as_json(self) -> str:
        """A line of a log; what is not finite is null, for which JSON has no numbers."""
        return json.dumps({
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        })  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A run, or the part of it since it was resumed.

    ``resumed_from``: the step of the checkpoint, 0 without one.  ``is_stopped``: whether it was asked to end
    before its last step.  ``peak_flops``: measured, of all ranks together; None if it was not.  ``noise``:
    the noise scale, in sequences, from ``noise_steps`` steps; ``noise_interval`` at 90%.  ``checkpoint``: the
    file that was written last.
    """

    records: list[Record]
    resumed_from: int
    is_stopped: bool
    peak_flops: float | None
    noise: Estimate
    noise_interval: tuple[float, float]
    noise_steps: int
    checkpoint: Path | None

    @property
    def tokens_per_second(self) -> float | None:
        """Of the median step, without the first one, in which buffers are made."""
        return tokens_per_second(self.records[1:])

    def as_json(self) -> dict:
        """What a program may want to know, without the single steps."""
        low, high = self.noise_interval
        return {
            "step": self.records[-1].step if self.records else self.resumed_from,
            "loss": self.records[-1].loss if self.records else None,
            "resumed_from": self.resumed_from,
            "stopped": self.is_stopped,
            "tokens_per_second": self.tokens_per_second,
            "peak_flops": self.peak_flops,
            "noise_scale": self.noise.scale,
            "noise_interval": None if math.isinf(high) else [low, high],
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
        }

    @property
    def spread(self) -> float:
        """How much the steps' seconds differ, as ``measurements.spread``; the slowest tenth is left out."""
        seconds = sorted(record.seconds for record in self.records[1:])
        return measurements.spread(seconds[: -(len(seconds) // 10) or None]) if seconds else 0.0


def tokens_per_second(records: list[Record]) -> float | None:
    """Of the median of these steps; None where ranks share cores, and without steps."""
    if not records or records[0].tokens_per_second is None:
        return None
    return records[0].tokens / median(record.seconds for record in records)
