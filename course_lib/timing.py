"""How long a rank takes for something that all ranks do at the same time.

Runs in the rank; a barrier comes first, and a GPU is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib import ranks


def seconds_of(do: Callable[[], object], streams: str = "all") -> float:
    """This rank's seconds, from when all ranks have met until its device has done the work.

    ``streams="current"``: on a GPU, what other streams got meanwhile, as communication, may be under way yet.
    """
    dist.barrier()
    _finish_device_work()
    began = time.perf_counter()
    do()
    _finish_device_work(streams)
    return time.perf_counter() - began


def _finish_device_work(streams: str = "all") -> None:
    if ranks.device().type == "cuda":
        (torch.cuda.synchronize if streams == "all" else torch.cuda.current_stream().synchronize)()
