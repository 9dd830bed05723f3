"""The gradient noise scale: up to which batch more samples still pay.

    meter = Meter(window=100)
    for step in ...:                              # while training
        meter.update(small_norm_sq, big_norm_sq, small_batch, big_batch)
    meter.value().scale, meter.interval()         # in samples, if the batches are
    tradeoff(batch, critical_batch)               # what a batch costs in steps, and in examples

The gradient of a batch is the true gradient G plus noise.  On average its squared norm is |G|² + tr(Σ)/B,
where Σ is the covariance of one sample's gradient and B the batch.  So squared norms at two batch sizes tell
|G|² and tr(Σ), and tr(Σ)/|G|² is the noise scale.  Data parallelism has both norms for free: of one rank's
gradient before the all-reduce, and of all ranks' mean after it.

Assumed: samples are independent, and the true gradient is the same for both batches and, where steps are
averaged, at all of these steps.

Sources: McCandlish et al. 2018, arXiv 1812.06162, for the estimate its appendix A; Kaplan et al. 2020, arXiv
2001.08361, for the critical batch of language models.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isclose, isfinite, nan
from typing import Any

import numpy as np

from course_lib.arguments import number, whole_number

_RESAMPLES = 1000
_FEWEST_STEPS = 10  # resampled, fewer would promise more than they know
_IN_SIGHT = 1e-6  # of the least measured: a smaller minimum is rounding
_CRITICAL_TOKENS, _CRITICAL_EXPONENT = 2e8, 1 / 0.21  # Kaplan et al. 2020, equation 1.4


@dataclass(frozen=True)
class Estimate:
    """What squared norms at two batch sizes say.

    ``gradient_sq``: |G|², the squared norm of the true gradient.  ``noise_trace``: tr(Σ), the variance of one
    sample's gradient, summed over parameters.  ``scale``: tr(Σ)/|G|², a number of samples (tokens, if batches
    are counted in tokens).  Noise can make either of the first two negative; then ``scale`` is None and
    ``note`` says why.
    """

    gradient_sq: float
    noise_trace: float
    scale: float | None
    note: str = ""


def estimate(
    small_norm_sq: float, big_norm_sq: float, small_batch: float, big_batch: float
) -> Estimate:
    """|G|², tr(Σ) and the noise scale from squared gradient norms at two batch sizes.

    ``small_norm_sq`` and ``big_norm_sq``: squared norm, over all parameters, of the *mean* gradient of
    ``small_batch`` and of ``big_batch`` samples; of several small batches, the mean of their squared norms.
    For small batches of different sizes whose gradients are averaged in proportion to these, give their
    harmonic mean.  The first two results are unbiased; their ratio is not, so average steps with a Meter.

    Tensors and arrays without a dimension are numbers here.

    Raises ValueError when both batches are of one size, when they are swapped, for norms below 0 and batches
    of 0 or less, and for what is not a finite number.
    """
    small_norm_sq = number("small_norm_sq", _scalar(small_norm_sq), least=0)
    big_norm_sq = number("big_norm_sq", _scalar(big_norm_sq), least=0)
    small_batch = number("small_batch", _scalar(small_batch))
    big_batch = number("big_batch", _scalar(big_batch))
    _require_two_sizes(small_batch, big_batch)
    gradient_sq = (big_batch * big_norm_sq - small_batch * small_norm_sq) / (big_batch - small_batch)
    noise_trace = (small_norm_sq - big_norm_sq) / (1 / small_batch - 1 / big_batch)
    if not (isfinite(gradient_sq) and isfinite(noise_trace)):
        raise ValueError(
            f"small_norm_sq={small_norm_sq!r}, big_norm_sq={big_norm_sq!r}: expected smaller numbers")
    return _estimate(gradient_sq, noise_trace)


def _scalar(value: Any) -> Any:
    """Python's own number, for a number of numpy and for a tensor or an array without a dimension."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _require_two_sizes(small_batch: float, big_batch: float) -> None:
    if small_batch > big_batch:
        raise ValueError(
            f"small_batch={small_batch:g}, big_batch={big_batch:g}: expected the smaller one first; are they "
            "swapped?")
    if 1 / small_batch == 1 / big_batch:
        raise ValueError(
            f"small_batch={small_batch:g}, big_batch={big_batch:g}: the noise scale is undefined for one "
            "batch size; expected two, from two or more ranks or micro-batches")


def _estimate(gradient_sq: float, noise_trace: float) -> Estimate:
    note = _note(gradient_sq, noise_trace)
    return Estimate(gradient_sq, noise_trace, None if note else noise_trace / gradient_sq, note)


def _note(gradient_sq: float, noise_trace: float) -> str:
    """Why there is no noise scale, if so."""
    if not gradient_sq > 0 or noise_trace / gradient_sq == inf:
        return "|G|² came out as 0 or less: noise hides the gradient. More steps, or bigger batches, show it."
    if noise_trace < 0:
        return "tr(Σ) came out negative: the noise is too small to be seen. More steps would show it."
    return ""


class Meter:
    """The noise scale over the last ``window`` steps: |G|² and tr(Σ) are averaged over steps, then divided.

    The mean of the steps' own ratios would be worthless: on single steps |G|² often comes out near 0, or
    below.  The true gradient changes as a model learns, and what is measured is the window's mean: a short
    window follows it, a long one is quieter.  ``window=None`` keeps all steps.
    """

    def __init__(self, window: int | None = 100):
        self._steps: deque[tuple[float, float]] = deque(
            maxlen=None if window is None else min(whole_number("window", window), sys.maxsize))
        self._why_empty = "No step was measured yet."

    def __len__(self) -> int:
        """How many steps are averaged now."""
        return len(self._steps)

    def update(
        self, small_norm_sq: float, big_norm_sq: float, small_batch: float, big_batch: float
    ) -> None:
        """Add one step, whose numbers are those of ``estimate``; batches may differ from step to step.

        Left out are steps that tell nothing: with one batch size, as when one rank has one micro-batch only,
        and with a norm that is infinite or NaN, as after an overflow.  Raises ValueError for what else
        estimate refuses.
        """
        small_norm_sq, big_norm_sq = _scalar(small_norm_sq), _scalar(big_norm_sq)
        if any(isinstance(norm, float) and not isfinite(norm) for norm in (small_norm_sq, big_norm_sq)):
            self._why_empty = "No gradient was finite."
            return
        small_batch = number("small_batch", _scalar(small_batch))
        big_batch = number("big_batch", _scalar(big_batch))
        if isclose(small_batch, big_batch):  # a harmonic mean is rounded
            self._why_empty = "The noise scale is undefined for one batch size, and no step had two."
            return
        step = estimate(small_norm_sq, big_norm_sq, small_batch, big_batch)
        self._steps.append((step.gradient_sq, step.noise_trace))

    def value(self) -> Estimate:
        """The estimate from all steps in the window.  Before the first step, NaN with a note."""
        if not self._steps:
            return Estimate(nan, nan, None, self._why_empty)
        return _estimate(*np.mean(self._steps, axis=0).tolist())

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """From where to where the noise scale is, at this level of confidence.

        A bootstrap: steps are drawn from the window with replacement, 1,000 times, always by the same seed,
        and each draw gives a noise scale; inf where noise hides the gradient.  A little too narrow: on a
        problem whose noise scale is known, intervals at 0.9 held it in 84 of 100 trials with 10 steps, and
        in 85 to 91 with 20 and more.  (0, inf), which says nothing, for fewer than 10 steps and where
        ``value().scale`` is None.

        Raises ValueError for a level that is not between 0 and 1.
        """
        outside = (1 - _level(level)) / 2
        if len(self) < _FEWEST_STEPS or self.value().scale is None:
            return 0.0, inf
        # As it stands on the list of draws: between a number and inf there is nothing to interpolate.
        ends = np.quantile(self._redrawn(), [outside, 1 - outside], method="inverted_cdf")
        return tuple(ends.tolist())

    def _redrawn(self) -> list[float]:
        """The noise scale of each draw."""
        steps, random = np.array(self._steps), np.random.default_rng(0)
        draws = (steps[random.integers(len(steps), size=len(steps))] for _ in range(_RESAMPLES))
        means = (draw.mean(axis=0) for draw in draws)
        return [max(noise, 0.0) / gradient if gradient > 0 else inf for gradient, noise in means]


def _level(level: float) -> float:
    if number("level", level) >= 1:
        raise ValueError(f"level={level!r}: expected a number between 0 and 1")
    return float(level)


def tradeoff(batch: float, critical_batch: float) -> tuple[float, float]:
    """Steps and examples until a loss is reached, each relative to the least that it can be.

    1 + critical_batch/batch and 1 + batch/critical_batch, so that (steps - 1)(examples - 1) = 1: at the
    critical batch both are twice their minimum (McCandlish et al., section 2.3).  The noise scale tells the
    critical batch to an order of magnitude.  Both batches in the same unit.  Raises ValueError for numbers
    that are not above 0.
    """
    batch, critical_batch = number("batch", batch), number("critical_batch", critical_batch)
    return 1 + critical_batch / batch, 1 + batch / critical_batch


@dataclass(frozen=True)
class TradeoffFit:
    """The hyperbola that fits measured steps: what no batch can go below."""

    least_steps: float
    least_examples: float

    @property
    def critical_batch(self) -> float:
        """The batch that takes twice the least steps and twice the least examples."""
        return self.least_examples / self.least_steps

    def relative(self, batch: float, steps: float) -> tuple[float, float, float]:
        """The batch, its steps and its examples, each of these two in times of the least that it can be."""
        return batch, steps / self.least_steps, batch * steps / self.least_examples


def fit_tradeoff(batches: Sequence[float], steps: Sequence[float]) -> TradeoffFit:
    """Fit steps = least_steps + least_examples/batch to steps measured at several batch sizes.

    That is ``tradeoff`` with the minima unknown.  Least squares of *relative* distances; absolute ones would
    leave big batches, which tell the least steps, no weight.  Each batch needs the learning rate that is best
    for it, else this compares learning rates.

    Raises ValueError for fewer than 3 batch sizes, when there are not as many steps as batches, for numbers
    that are not above 0, and when batches are so small, or so big, that one of the minima is not in sight.
    """
    sizes = [number("batches", batch) for batch in batches]
    counts = [number("steps", count) for count in steps]
    if len(sizes) != len(counts):
        raise ValueError(f"{len(sizes)} batches, {len(counts)} steps: expected as many of each")
    if len(set(sizes)) < 3:
        raise ValueError(f"batches={sorted(set(sizes))}: expected 3 sizes or more, since 2 fit any curve")
    # A row for each batch: least_steps/steps + least_examples/(batch·steps) = 1, if it were on the curve.
    rows = [(1 / count, 1 / (batch * count)) for batch, count in zip(sizes, counts, strict=True)]
    (least_steps, least_examples), *_ = np.linalg.lstsq(rows, np.ones(len(rows)))
    if least_steps <= _IN_SIGHT * min(counts):
        raise ValueError("steps shrink as fast as batches grow: expected bigger batches as well")
    if least_examples <= _IN_SIGHT * min(map(operator.mul, sizes, counts)):
        raise ValueError("steps do not shrink as batches grow: expected smaller batches as well")
    return TradeoffFit(float(least_steps), float(least_examples))


def critical_batch_tokens(loss: float) -> float:
    """The critical batch of a language model, in tokens, when its loss is ``loss`` nats per token.

    2e8 / loss**(1/0.21), whatever the model's size (Kaplan et al. 2020, equation 1.4).  Fitted to
    transformers on web text, whose tokens have about 4 bytes; elsewhere, as with bytes for tokens, it is a
    guess.
    Raises ValueError for a loss that is not from 0.01 to 100.
    """
    return _CRITICAL_TOKENS / number("loss", loss, least=0.01, most=100) ** _CRITICAL_EXPONENT


def learning_rate(batch: float, noise_scale: float, largest: float) -> float:
    """The best learning rate of plain SGD at ``batch``: largest / (1 + noise_scale/batch).

    ``largest``: the best one where there is no noise.  Small batches want it in proportion to the batch; far
    above the noise scale it stays (McCandlish et al., section 2.2).  Raises ValueError for a batch or a
    largest rate that is not above 0, and a noise scale below 0.
    """
    noise_scale = number("noise_scale", noise_scale, least=0)
    return number("largest", largest) / (1 + noise_scale / number("batch", batch))
