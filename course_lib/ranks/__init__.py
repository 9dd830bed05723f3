"""Run a function on several ranks from a notebook, and explain what goes wrong.

    def add_up():
        tensor = torch.ones(3) * dist.get_rank()
        dist.all_reduce(tensor)
        return tensor

    ranks.run(add_up, ranks=4)

Ranks are fresh processes, forked for each call from a server that has torch imported (fork_server), or
started one by one where forking is not safe (fresh_processes).  Slow links between them are real (network)
or paced in software (pacing).  Their communication is noted in logbooks (logbook, operations); the notebook
watches them (watching) and explains what went wrong (diagnosis, report).  Importing this package does not
import torch.
"""

from course_lib.ranks.current import device, log, progress
from course_lib.ranks.devices import device_kind
from course_lib.ranks.display import output
from course_lib.ranks.errors import NeedsLinks, NeedsRanks, RankFailed, RanksError, RanksHung, RankState
from course_lib.ranks.launch import run
from course_lib.ranks.traffic import Traffic, traffic

__all__ = [
    "NeedsLinks",
    "NeedsRanks",
    "RankFailed",
    "RankState",
    "RanksError",
    "RanksHung",
    "Traffic",
    "device",
    "device_kind",
    "log",
    "output",
    "progress",
    "run",
    "traffic",
]
