"""The course's all-reduces, or the learner's, inside torch's own DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.all_reduce import ring
from course_lib.data_parallel.gradients import real
from course_lib.overlap import channel

CommHook = Callable[[object, dist.GradBucket], torch.futures.Future]


def comm_hook(all_reduce: Callable[[torch.Tensor], object] | None = None) -> CommHook:
    """For ``DistributedDataParallel.register_comm_hook(None, comm_hook(all_reduce))``.

    DDP then fills its buckets and calls the hook for each; ``all_reduce(tensor)``, which sums in place and is
    the course's ring by default, runs beside the backward pass as it does in ``BucketedDataParallel``.
    """
    running: list[channel.Channel] = []  # made at the first bucket, which shows the device

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future:
        row = bucket.buffer()
        if not running:
            running.append(channel.beside(row.device))
        averaged = torch.futures.Future(devices=[row.device] if row.is_cuda else [])
        running[0].follow()
        running[0].start(lambda: _average(row, all_reduce or ring, averaged))
        return averaged

    return hook


def _average(row: torch.Tensor, all_reduce: Callable[[torch.Tensor], object], averaged) -> None:
    try:
        numbers = real(row)
        numbers /= dist.get_world_size()
        all_reduce(numbers)
        averaged.set_result(row)
    except BaseException as error:  # else DDP would wait for ever
        averaged.set_exception(error)
