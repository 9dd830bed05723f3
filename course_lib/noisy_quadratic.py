"""A problem whose noise scale, best learning rate and critical batch are known, to try the theory on.

    problem = NoisyQuadratic(noise_scale=200)
    runs = measure(problem, batches=[25, 50, 100, 200, 400, 800, 1600])
    fit_tradeoff([run.batch for run in runs], [run.steps for run in runs]).critical_batch     # about 200

The loss is ½ Σ hᵢxᵢ², so the true gradient is Gᵢ = hᵢxᵢ.  One sample's gradient is Gᵢ(1 + √B₀·z), with z a
standard normal number of its own for each sample and direction.  Its covariance Σ is diagonal, B₀·Gᵢ², so
tr(Σ)/|G|² is B₀ everywhere, and so is tr(HΣ)/(GᵀHG), which weights directions by their curvature.  In real
training the noise hardly shrinks while the gradient does, and the noise scale grows; here it stays, so that
one number can be compared with one number.

What follows.  A step at rate ε with the mean gradient of B samples multiplies the mean of xᵢ² by
1 − 2εhᵢ + (εhᵢ)²(1 + B₀/B).  The steepest and the flattest direction are the slowest to shrink, and both are
as fast as they can be at ε = largest/(1 + B₀/B) with largest = 2/(steepest + flattest), the textbook's best
rate without noise.  Then every multiplier is 1 − cᵢ/(1 + B₀/B), where cᵢ does not depend on B: steps to a
target are those of an endless batch, times 1 + B₀/B, when they are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from statistics import fmean

import numpy as np

from course_lib.arguments import number, whole_number
from course_lib.noise_scale import learning_rate

_DIVERGED = 1e6  # times the loss at the start
_MOST_STEPS = 100_000
_RATES = np.geomspace(1e-4, 2, 450).tolist()  # each 2.2% above the one before it


@dataclass(frozen=True)
class NoisyQuadratic:
    """``noise_scale``: B₀, in samples.  Curvatures go from 1 down to ``flattest``, evenly on a log scale.

    Raises ValueError for numbers that can't be.
    """

    noise_scale: float = 200.0
    directions: int = 300
    flattest: float = 0.01

    def __post_init__(self) -> None:
        number("noise_scale", self.noise_scale, least=0)
        whole_number("directions", self.directions, least=2)
        number("flattest", self.flattest, most=1)

    @cached_property
    def curvatures(self) -> np.ndarray:
        """The Hessian's diagonal h: one number for each direction."""
        curvatures = np.geomspace(1, self.flattest, self.directions)
        curvatures.flags.writeable = False  # it is kept
        return curvatures

    @property
    def start(self) -> np.ndarray:
        """Where training begins: each direction has the same part of the loss, which is 1."""
        return np.sqrt(2 / (self.directions * self.curvatures))

    def loss(self, position: np.ndarray) -> float:
        return float(self.curvatures @ position**2) / 2

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """The true gradient, one number for each direction."""
        return self.curvatures * position

    def noise_covariance(self, position: np.ndarray) -> np.ndarray:
        """The diagonal of Σ, the covariance of one sample's gradient."""
        return self.noise_scale * self.gradient(position) ** 2

    def batch_gradient(self, position: np.ndarray, batch: int, random: np.random.Generator) -> np.ndarray:
        """The mean gradient of ``batch`` samples: normal noise of covariance Σ/batch around the true one."""
        spread = np.sqrt(self.noise_covariance(position) / batch)
        return self.gradient(position) + spread * random.standard_normal(self.directions)

    def best_rate(self, batch: int) -> float:
        """The learning rate that shrinks the slowest direction fastest, in the mean over all noises."""
        largest = 2 / (self.curvatures.max() + self.curvatures.min())
        return learning_rate(batch, self.noise_scale, largest)

    def expected_loss(self, steps: float, batch: int, rate: float) -> float:
        """The mean of the loss over all possible noises, after so many steps from the start."""
        moves = rate * self.curvatures
        multipliers = 1 - 2 * moves + moves**2 * (1 + self.noise_scale / batch)
        with np.errstate(over="ignore"):  # where it diverges
            return float(np.mean(multipliers**steps))

    def swept_rate(self, batch: int, target: float = 0.03) -> float:
        """Of 450 learning rates, the one whose mean loss over all noises is at the target first.

        Single trainings often get there sooner at bolder rates, until one of them explodes.  Raises
        ValueError for a batch or a target that can't be, and when no rate gets there in 100,000 steps.
        """
        batch, target = whole_number("batch", batch), number("target", target, most=1)
        steps = {rate: self._expected_steps(batch, rate, target) for rate in _RATES}
        best = min(steps, key=steps.__getitem__)
        if steps[best] > _MOST_STEPS:
            raise ValueError(f"batch={batch}: expected a bigger one; {_MOST_STEPS:,} steps are not enough")
        return best

    def _expected_steps(self, batch: int, rate: float, target: float) -> float:
        """Steps until ``expected_loss`` is the target, with a fraction, to tell near rates apart."""
        if self.expected_loss(_MOST_STEPS, batch, rate) > target:
            return inf
        few, many = 0.0, float(_MOST_STEPS)
        while many - few > 1e-3:
            middle = (few + many) / 2
            few, many = (middle, many) if self.expected_loss(middle, batch, rate) > target else (few, middle)
        return many

    def losses(self, batch: int, rate: float | None = None, seed: int = 0) -> Iterator[float]:
        """The loss after each step of SGD from the start, without end.  ``rate``: the best one by default.

        Raises ValueError for a batch that is no positive whole number, and a rate that is not above 0.
        """
        batch = whole_number("batch", batch)
        rate = self.best_rate(batch) if rate is None else number("rate", rate)
        return self._descend(batch, rate, np.random.default_rng(seed))

    def _descend(self, batch: int, rate: float, random: np.random.Generator) -> Iterator[float]:
        position = self.start
        while True:
            position = position - rate * self.batch_gradient(position, batch, random)
            yield self.loss(position)

    def steps_to(self, target: float, batch: int, rate: float | None = None, seed: int = 0) -> int | None:
        """How many steps until the loss, 1 at the start, is ``target`` or less.

        None where it never is: the loss grows a million times, or 100,000 steps are not enough.  Raises
        ValueError as ``losses`` does, and for a target that is not above 0 and at most 1.
        """
        target = number("target", target, most=1)
        for step, loss in enumerate(self.losses(batch, rate, seed), start=1):
            if loss <= target:
                return step
            if not loss < _DIVERGED or step == _MOST_STEPS:
                return None
        raise AssertionError("losses have no end")


@dataclass(frozen=True)
class Run:
    """What training to the target took at one batch size: means over the seeds."""

    batch: int
    rate: float
    steps: float

    @property
    def examples(self) -> float:
        return self.batch * self.steps


def measure(
    problem: NoisyQuadratic, batches: Iterable[int], target: float = 0.03, seeds: int = 3
) -> list[Run]:
    """Train to the target at each batch size, with the ``swept_rate`` of each, and count.

    The sweep is told nothing of the noise scale, so the steps may be compared with it.

    Raises ValueError for batches, a target or a number of seeds that can't be, and when 100,000 steps are not
    enough.
    """
    each_seed = range(whole_number("seeds", seeds))
    return [_run(problem, batch, target, each_seed) for batch in batches]


def _run(problem: NoisyQuadratic, batch: int, target: float, seeds: Iterable[int]) -> Run:
    rate = problem.swept_rate(batch, target)
    steps: list[int] = []
    for seed in seeds:
        needed = problem.steps_to(target, batch, rate, seed)
        if needed is None:
            raise ValueError(f"batch={batch}: expected a bigger one; {_MOST_STEPS:,} steps are not enough")
        steps.append(needed)
    return Run(batch, rate, fmean(steps))
