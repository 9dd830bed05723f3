"""Training steps on replicas, in plain Python: the right way, and each way in which it goes wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from course_lib.checks.exercise_05.problem import MicroBatch, Model, Row

Counts = Sequence[Sequence[int]]  # samples or tokens in the micro-batches of each rank
Trained = tuple[list[Row], Row]  # the gradients with which the optimizer stepped, and the weights at the end
Slower = float | tuple[float, float]  # what a learning rate is divided by: one for all, or weight and bias


@dataclass
class Replica:
    """One rank's model: ``gradient`` is what torch keeps in ``.grad``."""

    model: Model
    rate: float
    weights: Row = field(init=False)
    gradient: Row = field(init=False)
    used: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = self.model.weights
        self.zero_grad()

    def zero_grad(self) -> None:
        self.gradient = [0.0] * len(self.weights)

    def backward(self, micro_batch: MicroBatch, factor: float) -> None:
        """Add the gradient of factor · loss."""
        part = self.model.gradient(self.weights, micro_batch)
        self.gradient = [one + factor * other for one, other in zip(self.gradient, part, strict=True)]

    def step(self, slower: Slower = 1) -> None:
        """With the learning rate divided by ``slower``."""
        self.used.append(self.gradient)
        of_weight, of_bias = slower if isinstance(slower, tuple) else (slower, slower)
        biases = self.model.outputs
        rates = [self.rate / of_weight] * (len(self.weights) - biases) + [self.rate / of_bias] * biases
        self.weights = [w - rate * g for w, rate, g in zip(self.weights, rates, self.gradient, strict=True)]

    @property
    def trained(self) -> Trained:
        return self.used, self.weights


def _sum(rows: Iterable[Row]) -> Row:
    return [sum(column) for column in zip(*rows, strict=True)]


def _last(number: int, of: int) -> bool:
    return number == of - 1


def norm(row: Row) -> float:
    return math.sqrt(sum(number * number for number in row))


def scaled(row: Row, factor: float) -> Row:
    return [factor * number for number in row]


def clipped(row: Row, most: float | None, length: Callable[[Row], float] = norm) -> Row:
    """A row whose norm is ``most`` at the most."""
    return row if most is None or length(row) <= most else scaled(row, most / length(row))


@dataclass(frozen=True)
class Way:
    """A way to make one step on all ranks.  Each of its parts is the right one unless it is given.

    ``factor(counts, rank, k)`` is what the loss of a micro-batch is multiplied by.  Gradients are summed over
    ranks after the micro-batches for which ``sums(k, K)`` is true, and then divided by
    ``divisor(counts, rank)``: those that ``only`` cuts out.  ``clip`` is when and how they are clipped.
    ``averages_weights``: over the ranks, after the step.  ``slower(K, step)`` divides the learning rate of a
    step, counted from 0.  ``count`` is what ``counts`` are numbers of.
    """

    factor: Callable[[Counts, int, int], float] = lambda counts, rank, k: 1 / len(counts[rank])
    divisor: Callable[[Counts, int], float] = lambda counts, rank: len(counts)
    sums: Callable[[int, int], bool] = _last
    steps: Callable[[int, int], bool] = _last
    zeroes: Callable[[int, int], bool] = _last
    clip: str = "after"
    only: Callable[[Model], slice] = lambda model: slice(None)
    averages_weights: bool = False
    slower: Callable[[int, int], Slower] = lambda micro_batches, step: 1
    count: Callable[[MicroBatch], int] = lambda micro_batch: micro_batch.counted

    def step(self, replicas: Sequence[Replica], batches: Sequence[Sequence[MicroBatch]],
             counts: Counts, most: float | None) -> None:  # fmt: skip
        """One call of train_step on all ranks."""
        micro_batches = len(batches[0])
        for k in range(micro_batches):
            for rank, replica in enumerate(replicas):
                replica.backward(batches[rank][k], self.factor(counts, rank, k))
                if self.clip == "each micro-batch":
                    replica.gradient = clipped(replica.gradient, most)
            if self.sums(k, micro_batches):
                self._synchronize(replicas, counts, most)
            if self.steps(k, micro_batches):
                self._update(replicas, most, micro_batches)
            if self.zeroes(k, micro_batches):
                for replica in replicas:
                    replica.zero_grad()
        if self.averages_weights:
            average = scaled(_sum(replica.weights for replica in replicas), 1 / len(replicas))
            for replica in replicas:
                replica.weights = average

    def _synchronize(self, replicas: Sequence[Replica], counts: Counts, most: float | None) -> None:
        if self.clip == "before":
            for replica in replicas:
                replica.gradient = clipped(replica.gradient, most)
        total = _sum(replica.gradient for replica in replicas)
        if self.clip == "sum":
            total = clipped(total, most)
        for rank, replica in enumerate(replicas):
            part = self.only(replica.model)
            replica.gradient = [*replica.gradient]
            replica.gradient[part] = scaled(total[part], 1 / self.divisor(counts, rank))

    def _update(self, replicas: Sequence[Replica], most: float | None, micro_batches: int) -> None:
        for replica in replicas:
            if clip := _CLIP.get(self.clip):
                replica.gradient = clip(replica, most, len(replicas))
            replica.step(self.slower(micro_batches, len(replica.used)))


def _each_parameter(replica: Replica, most: float | None, ranks: int) -> Row:
    biases = len(replica.gradient) - replica.model.outputs
    return clipped(replica.gradient[:biases], most) + clipped(replica.gradient[biases:], most)


_CLIP: dict[str, Callable[[Replica, float | None, int], Row]] = {
    "after": lambda replica, most, ranks: clipped(replica.gradient, most),
    "each parameter": _each_parameter,
    "each element": lambda replica, most, ranks: (
        replica.gradient if most is None else [max(-most, min(most, each)) for each in replica.gradient]
    ),
    "squares of all ranks": lambda replica, most, ranks: clipped(
        replica.gradient, most, lambda row: math.sqrt(ranks) * norm(row)
    ),
    "always": lambda replica, most, ranks: (
        replica.gradient if most is None else scaled(replica.gradient, most / norm(replica.gradient))
    ),
}


def train(
    way: Way, model: Model, rate: float, batches: Sequence[Sequence[Sequence[MicroBatch]]],
    most: float | None = None,
) -> list[Trained]:  # fmt: skip
    """What each rank has after its calls of train_step: ``batches[rank][call][k]``."""
    replicas = [Replica(model, rate) for _ in batches]
    for of_ranks in zip(*batches, strict=True):
        counts = [[*map(way.count, micro_batches)] for micro_batches in of_ranks]
        way.step(replicas, of_ranks, counts, most)
    return [replica.trained for replica in replicas]
