"""Many cases in one run of ranks: to start the ranks takes longer than most cases."""

import torch
import torch.distributed as dist

from course_lib import ranks


def run_cases(function, count, cases, timeout=60):
    """For each case what ``function(*case)`` returned on each rank; each starts with the same seeds."""
    by_rank = ranks.run(_in_turn, count, function, cases, device="cpu", timeout=timeout)
    return list(zip(*by_rank, strict=True))


def _in_turn(function, cases):
    results = []
    for case in cases:
        torch.manual_seed(dist.get_rank())
        try:
            results.append(function(*case))
        except Exception as error:
            error.add_note(f"in the case {case}")
            raise
    return results
