"""Who goes backward and averages: the library's loop, or one of the learner's, and whose all-reduce.

Stands on ``averaging`` and ``mine``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist

from course_lib import data_parallel, ranks
from course_lib.all_reduce import ring
from course_lib.overlap.channel import AllReduce
from course_lib.train import averaging, mine
from course_lib.train.errors import TrainingError
from course_lib.train.loss import Loss
from course_lib.train.ranks_agree import from_rank_0
from course_lib.train.settings import Settings
from course_lib.train.steps import Batches, Steps

_LIBRARYS = {
    "buckets": "the library's loop and BucketedDataParallel, in buckets of {} MiB",
    "ddp": "the library's loop and torch's DistributedDataParallel, in buckets of {} MiB",
    "step": "the library's loop, and average_gradients when the backward pass is over",
}


class Way(NamedTuple):
    """``train`` makes all steps; ``by_tokens`` as of ``loss.Weights``; ``whose`` says whose code runs."""

    train: Callable[[Batches, Loss, Steps], object]
    by_tokens: bool
    whose: list[str]


def chosen(settings: Settings, module: torch.nn.Module) -> Way:
    """As the settings have it, with the learner's pieces where they are filled in.

    All ranks get rank 0's weights.  Raises TrainingError for a ring of the learner's that leaves no sums.
    """
    found = from_rank_0(lambda: mine.read(settings.mine))
    all_reduce, whose = _all_reduce(settings, found, list(module.parameters()))
    kind = settings.data_parallel
    if kind == "step" and (own := mine.piece(mine.ACCUMULATION, found)).function:
        way = _learners_step(own, module, all_reduce)
    elif kind == "buckets" and (own := _learners_buckets(settings, found, all_reduce)).function:
        way = _learners_loop(own, module, settings.bucket_mb)
    else:
        train = partial(averaging.loop, averaging.made(module, kind, all_reduce, settings.bucket_mb))
        said = _LIBRARYS[kind].format(f"{settings.bucket_mb:g}")
        way = Way(train, False, [f"gradients: {said}{_why(own) if kind != 'ddp' else ''}"])
        if kind == "buckets" and (loop := mine.piece(mine.ACCUMULATION, found)).function:
            way.whose.append(f"(your {loop.name} of exercise 05 runs with --data-parallel step)")
    return way._replace(whose=[whose, *way.whose])


def _all_reduce(
    settings: Settings, found: dict, parameters: list[torch.nn.Parameter]
) -> tuple[AllReduce, str]:  # fmt: skip
    if settings.all_reduce == "torch":
        return dist.all_reduce, "all-reduce: torch's"
    own = mine.piece(mine.RING, found)
    if own.function is None:
        return ring, f"all-reduce: the library's ring{_why(own)}"
    mine.require_sum(own.function, parameters)
    return own.function, "all-reduce: your ring, from exercise 03"


def _learners_buckets(settings: Settings, found: dict, all_reduce: AllReduce) -> mine.Piece:
    is_torchs = all_reduce is dist.all_reduce
    distributed = dist if is_torchs else mine.SummedBy(all_reduce, ranks.device())
    return mine.piece(mine.BUCKETS, found, distributed)


def _learners_loop(own: mine.Piece, module: torch.nn.Module, bucket_mb: float) -> Way:
    learners = own.filled_in
    data_parallel.broadcast_parameters(module)
    firings = {parameter: 1 for parameter in module.parameters() if parameter.requires_grad}

    def train(batches: Batches, loss_function: Loss, steps: Steps) -> None:
        learners(module, batches, loss_function, steps, bucket_mb * 2**20, firings)
        steps.require_not_ended()
        if steps.done < steps.last:
            raise TrainingError(
                f"Your {own.name} of exercise 06 returned after step {steps.done} of {steps.last}: expected "
                "a step of the optimizer for each of batches."
            )

    said = f"gradients: your {own.name}, from exercise 06, in buckets of {bucket_mb:g} MiB"
    return Way(train, False, [said])


def _learners_step(own: mine.Piece, module: torch.nn.Module, all_reduce: AllReduce) -> Way:
    learners = own.filled_in
    data_parallel.broadcast_parameters(module)
    by_tokens = own.name == "train_step_by_tokens"
    more = () if by_tokens else (None,)  # max_norm: gradients are clipped later, where fp16's scale is gone

    def train(batches: Batches, loss_function: Loss, steps: Steps) -> None:
        for number, micro_batches in enumerate(batches, start=steps.done + 1):
            learners(module, micro_batches, loss_function, steps, all_reduce, *more)
            steps.require_not_ended()
            if steps.done != number:
                raise TrainingError(
                    f"Your {own.name} of exercise 05 has called optimizer.step() {steps.done - number + 1} "
                    f"times in step {number}: expected one call."
                )

    return Way(train, by_tokens, [f"gradients: your {own.name}, from exercise 05"])


def _why(own: mine.Piece) -> str:
    return f" ({own.why_not})" if own.why_not else ""
