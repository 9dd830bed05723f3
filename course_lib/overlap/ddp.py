"""The course's all-reduces, or the learner's, inside torch's own DistributedDataParallel.

Stands on ``channel``; DDP itself fills the buckets.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.data_parallel.gradients import real
from course_lib.overlap import channel

Averaged = torch.futures.Future[torch.Tensor]
CommHook = Callable[[object, dist.GradBucket], Averaged]


def comm_hook(all_reduce: channel.AllReduce | None = None) -> CommHook:
    """For ``DistributedDataParallel.register_comm_hook(None, comm_hook(all_reduce))``.

    DDP then fills its buckets and calls the hook for each; ``all_reduce(tensor)``, which sums in place and is
    the course's ring by default, runs beside the backward pass as it does in ``BucketedDataParallel``.
    Called by all ranks at the same time.
    """
    assert dist.group.WORLD is not None, "comm_hook is called in a process group"
    # Now, while all ranks are here: which device DDP's buckets are on is not known before the first one.
    reduce = {device.type: channel.apart(all_reduce, device) for device in dist.group.WORLD._device_types}

    # DDP reads these annotations, so they must not be texts as in modules with annotations from __future__.
    def hook(state: object, bucket: dist.GradBucket) -> Averaged:
        row = bucket.buffer()
        averaged: Averaged = torch.futures.Future(devices=[row.device] if row.is_cuda else [])

        def sum_and_tell(numbers: torch.Tensor) -> None:
            try:
                channel.sum_in_place(reduce[row.device.type], numbers)
                averaged.set_result(row)
            except BaseException as error:  # else DDP would wait for ever
                averaged.set_exception(error)  # type: ignore[arg-type]  # torch's hint asks for a result

        beside = channel.beside(row.device, sum_and_tell)
        row *= 1 / dist.get_world_size()
        beside.follow()
        beside.start(real(row), sum_and_tell)
        return averaged

    return hook
