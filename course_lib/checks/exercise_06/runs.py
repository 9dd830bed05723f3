"""Part 5: three runs in which something is wrong.  Find out by what they do, before you read on here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from course_lib import ranks
from course_lib.arguments import one_of, whole_number
from course_lib.checks.exercise_06 import problem

if TYPE_CHECKING:
    import torch

RUNS = ("A", "B", "C")
_RANKS, _STEPS, _SAMPLES = 2, 3, 2
_SHAPES = ((2, 3), (4,), (3,), (2, 2), (5,), (1,))
_BUCKET_BYTES = 56

Look = Callable[["torch.nn.Module", int], object]


def broken_run(name: str, look: Look | None = None, micro_batches: int = 2) -> None:
    """Train on two ranks for three steps, and print the order of what happened in the last, on rank 0.

    ``name``: "A", "B" or "C".  ``look(module, step)`` is called on both ranks after each optimizer step.
    ``micro_batches``: in a step, on each rank.  All ranks begin with the same weights.
    """
    one_of("name", name, RUNS)
    whole_number("micro_batches", micro_batches, least=1)
    buckets, log = ranks.run(_train, _RANKS, name, look, micro_batches, device="cpu")[0]
    print(f"Run {name}: {_RANKS} ranks, K = {micro_batches}. Buckets:")
    for number, (names, size) in enumerate(buckets):
        print(f"  {number}  {', '.join(names)} ({size} bytes)")
    print(f"Step {_STEPS} on rank 0, in this order:")
    for line in log:
        print(f"  {line}")


def _train(name: str, look: Look | None, micro_batches: int) -> tuple:
    import torch.distributed as dist

    from course_lib.checks import values
    from course_lib.checks.exercise_06 import running, training

    several = (_STEPS, micro_batches, _SAMPLES)
    described = problem.arguments(f"run {name}", dist.get_rank(), _SHAPES, several, _BUCKET_BYTES)
    arguments = values.build(described, ranks.device())
    trained = training.Training(arguments)
    with trained.watch:
        running.train(name, trained, arguments, look or (lambda module, step: None))
    names = [f"weights.{number}" for number in problem.trained(arguments)]
    sizes = problem.sizes(arguments)
    buckets = [
        ([names[place] for place in bucket], sum(sizes[place] for place in bucket))
        for bucket in problem.filled(arguments)
    ]
    return buckets, _shortened(trained.watch.log)


def _shortened(log: Sequence[str]) -> list[str]:
    """Gradients that come one after another are put into one line."""
    lines: list[Any] = []
    for is_gradient, group in groupby(log, key=lambda line: line.startswith("gradient ")):
        if is_gradient:
            names = ", ".join(f"weights.{line.removeprefix('gradient ')}" for line in group)
            lines.append(f"hooks of {names}")
        else:
            lines += group
    return lines
