"""What is trained in a case, in plain Python: a second way to the numbers that torch computes in the ranks.

The model is linear, ``outputs = weight · inputs + bias``.  Its weights, and its gradient, are one row each:
the rows of ``weight``, then ``bias``.  So each gradient can be written down, and no torch is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from course_lib.checks import draws
from course_lib.checks.values import Tensor

MSE, CROSS_ENTROPY = "mse_loss", "cross_entropy"  # as in torch.nn.functional
IGNORED = -100  # a target that counts for nothing: torch's own number for it

Row = list[float]


@dataclass(frozen=True)
class MicroBatch:
    """Rows of inputs, and for each of them a row of targets, or the number of a class."""

    inputs: Sequence[Row]
    targets: Sequence

    @property
    def counted(self) -> int:
        """Samples, or tokens that are not ignored."""
        return sum(target != IGNORED for target in self.targets)

    @cached_property
    def different(self) -> Counter:
        """How often each pair of inputs and target is there that counts."""
        pairs = zip(map(tuple, self.inputs), self.targets, strict=True)
        return Counter(
            (inputs, tuple(target) if isinstance(target, list) else target)
            for inputs, target in pairs
            if target != IGNORED
        )


@dataclass(frozen=True)
class Model:
    """Weights to begin with, and what its loss is.

    ``frozen`` is multiplied with the inputs, feature by feature, and is not trained.
    """

    weights: Row
    outputs: int
    loss: str
    frozen: Row

    def gradient(self, weights: Row, micro_batch: MicroBatch) -> Row:
        """The gradient of the loss, which is a mean over what counts; 0 if nothing does, as in torch."""
        total, counted = [0.0] * len(weights), micro_batch.counted
        # Of thousands of tokens many are equal, and this is too slow to compute them all.
        for (features, target), times in micro_batch.different.items():
            inputs = [x * factor for x, factor in zip(features, self.frozen, strict=True)]
            slopes = self._slopes(self.predicted(weights, inputs), target)
            sample = [slope * x for slope in slopes for x in inputs] + slopes
            total = [one + times * other for one, other in zip(total, sample, strict=True)]
        return [number / (counted or 1) for number in total]

    def predicted(self, weights: Row, inputs: Row) -> Row:
        """The outputs for one sample's inputs."""
        rows = cut(weights, len(inputs))[: self.outputs]
        biases = weights[-self.outputs :]
        products = [[weight * x for weight, x in zip(row, inputs, strict=True)] for row in rows]
        return [sum(product) + bias for product, bias in zip(products, biases, strict=True)]

    def _slopes(self, outputs: Row, target: Any) -> Row:
        """How fast the loss of one sample grows with each of its outputs.

        ``target``: a number for each of them, or for cross-entropy that of a class.
        """
        if self.loss == MSE:
            return [2 * (got - aim) / self.outputs for got, aim in zip(outputs, target, strict=True)]
        likely = [math.exp(output - max(outputs)) for output in outputs]
        return [each / sum(likely) - (number == target) for number, each in enumerate(likely)]


# --- as arguments: weight, bias, frozen, inputs, targets, learning rate, and what a part adds ---

WEIGHT, BIAS, FROZEN, INPUTS, TARGETS, RATE, MORE = range(7)


def model(arguments: tuple, loss: str) -> Model:
    """The model that is in the arguments of a rank."""
    weight, bias, frozen = arguments[:INPUTS]
    outputs, features = weight.shape
    ones = (1.0,) * features
    return Model([*weight.numbers, *bias.numbers], outputs, loss, [*(frozen.numbers if frozen else ones)])


def micro_batches(arguments: tuple) -> list[MicroBatch]:
    """All micro-batches of a rank, in order.  Inputs have the shape … × samples × features."""
    inputs, targets = arguments[INPUTS], arguments[TARGETS]
    samples, features = inputs.shape[-2:]
    several = len(targets.shape) == len(inputs.shape)  # numbers for each sample
    aims = cut(targets.numbers, targets.shape[-1]) if several else list(targets.numbers)
    rows = cut(inputs.numbers, features)
    return [MicroBatch(*pair) for pair in zip(cut(rows, samples), cut(aims, samples), strict=True)]


def cut(items: Sequence, length: int) -> list[list]:
    """A sequence in pieces of this length; the last one may be shorter."""
    return [list(items[start : start + length]) for start in range(0, len(items), length)]


# --- drawing ---


def draw_model(dtype: str, shape: tuple[int, int], with_frozen: bool, seed: str) -> tuple:
    """Weight, bias and the frozen factors, or None: the same on all ranks."""
    random, (outputs, features) = draws.random(f"model {seed}"), shape
    weight, bias = draw(random, dtype, shape), draw(random, dtype, (outputs,))
    return weight, bias, draw(random, dtype, (features,)) if with_frozen else None


def draw(random: Random, dtype: str, shape: tuple[int, ...], step: float = 1 / 8) -> Tensor:
    """Multiples of ``step``, a power of 2, from -2 to 2: no dtype rounds them."""
    most = round(2 / step)
    return Tensor(dtype, shape, tuple(random.randint(-most, most) * step for _ in range(math.prod(shape))))
