"""What is trained in a case, in plain Python: a second way to the numbers and to the order of gradients.

The model adds up products layer by layer, ``total = total + (weight · inputs of the layer)``, and its loss is
the mean of ``total · target``.  So each gradient can be written down, and it depends on no weight.  A weight
may be used by several layers, and a layer may be checkpointed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from course_lib import buckets
from course_lib.checks import draws
from course_lib.checks.exercise_05.problem import cut, draw
from course_lib.checks.values import Tensor

Row = list[float]
Rows = list[Row]

# Arguments of a rank: the weights; the numbers of those that are frozen; the layers, each as the number of
# its weight and whether it is checkpointed; inputs (steps × micro-batches × samples × all layers' columns);
# targets (steps × micro-batches × samples); the size of a bucket in bytes; the learning rate.
WEIGHTS, FROZEN, LAYERS, INPUTS, TARGETS, BUCKET_BYTES, RATE = range(7)


def arguments(
    seed: str, rank: int, shapes: Sequence[tuple[int, ...]], several: tuple[int, int, int],
    bucket_bytes: int, layers: Sequence[tuple[int, bool]] | None = None, frozen: tuple[int, ...] = (),
    dtype: str = "float64", rate: float = 0.125,
) -> tuple:  # fmt: skip
    """One rank's, with weights that are the same on all ranks.  ``several``: steps, micro-batches, samples.

    Without ``layers`` each weight has one, in their order.
    """
    layers = tuple(layers or ((number, False) for number in range(len(shapes))))
    random = draws.random(f"weights {seed}")
    weights = tuple(draw(random, dtype, shape) for shape in shapes)
    random = draws.random(f"{seed} {rank}")
    columns = sum(math.prod(shapes[number]) for number, _ in layers)
    inputs = draw(random, dtype, (*several, columns))
    targets = Tensor(dtype, several, tuple(random.randint(1, 8) / 2 for _ in range(math.prod(several))))
    return weights, frozen, layers, inputs, targets, bucket_bytes, rate


def trained(arguments: tuple) -> list[int]:
    """The numbers of the weights that are not frozen."""
    return [number for number in range(len(arguments[WEIGHTS])) if number not in arguments[FROZEN]]


def gradients(arguments: tuple) -> list[list[Rows]]:
    """For each step and micro-batch the gradient of each trained weight, as one row."""
    steps, micro_batches, samples, columns = arguments[INPUTS].shape
    targets = cut(arguments[TARGETS].numbers, samples)
    inputs = cut(cut(arguments[INPUTS].numbers, columns), samples)
    return cut([_gradient(arguments, *pair) for pair in zip(inputs, targets, strict=True)], micro_batches)


def _gradient(arguments: tuple, inputs: Rows, targets: Row) -> Rows:
    rows = [[0.0] * len(weight.numbers) for weight in arguments[WEIGHTS]]
    for sample, target in zip(inputs, targets, strict=True):
        begin = 0
        for number, _ in arguments[LAYERS]:
            end = begin + len(rows[number])
            added = [target * x / len(targets) for x in sample[begin:end]]
            rows[number] = [one + other for one, other in zip(rows[number], added, strict=True)]
            begin = end
    return [rows[number] for number in trained(arguments)]


def sizes(arguments: tuple) -> list[int]:
    """Bytes of the trained weights; in a rank, too, where they are torch's own tensors."""
    return [arguments[WEIGHTS][number].nbytes for number in trained(arguments)]


def filled(arguments: tuple) -> list[list[int]]:
    """The places of the trained weights, among each other, in buckets."""
    return buckets.assign(sizes(arguments), arguments[BUCKET_BYTES])


def firing(arguments: tuple) -> list[int]:
    """The places of the trained weights in the order in which a backward pass fires their hooks.

    It goes through the layers in reverse.  The uses of a weight add up before its hook fires, but for
    checkpointed ones: each of those has a backward pass of its own.
    """
    layers, places = arguments[LAYERS], {number: place for place, number in enumerate(trained(arguments))}
    first_use = {number: index for index, (number, apart) in reversed([*enumerate(layers)]) if not apart}
    return [
        places[number]
        for index, (number, apart) in reversed([*enumerate(layers)])
        if number in places and (apart or first_use[number] == index)
    ]


def firings(arguments: tuple) -> Counter[int]:
    """How often the hook of each trained weight, by its place, fires in a backward pass."""
    return Counter(firing(arguments))


def full_after(arguments: tuple) -> list[int]:
    """For each bucket, after how many hooks of a backward pass it has all of its gradients."""
    last = {place: count for count, place in enumerate(firing(arguments), start=1)}
    return [max(last[place] for place in bucket) for bucket in filled(arguments)]
