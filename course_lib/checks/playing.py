"""Runs a learner's function on cases, in ranks, and never for long.

The cases are those that a ``Part`` draws; ``judging`` compares what comes back of them.  A marker plays them
in a jail instead (``classroom.player``), with the same ``play_calls`` in its ranks.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import combinations
from typing import Any, NamedTuple

from course_lib import ranks
from course_lib.checks import values
from course_lib.checks.addresses import overlap, span
from course_lib.checks.part import Attempt, Case, Compared, Part, Played
from course_lib.ranks import launch
from course_lib.ranks.fork_server import IMPORTED_LATE

SECONDS_WITHOUT_PROGRESS = 5
SECONDS_FOR_ONE_WORLD_SIZE = 15  # for functions that communicate without end
MOST_PRINTED = 10 << 20  # bytes, for functions that print without end
MOST_HANGS = 2  # then the other world sizes are left out; one function without end is enough
CASE_BEGINS = "\x1f"  # a line that no learner prints
# Where a learner's function is called.
CALLS = ("in <lambda>, playing.py", "in call, training.py", "in call, given.py")
_LATE_SECONDS = 0.02  # long for ranks that begin together; what does not wait is seen by other means, too


class Call(NamedTuple):
    """What one rank needs to know of a case: never what is expected, nor what the others get."""

    arguments: tuple
    is_late: bool


Play = Callable[[Callable, Sequence[Case], launch.Limits], Attempt]


def attempts(part: Part, function: Callable, play: Play) -> Iterable[Attempt]:
    """Play one run after another; after a few hangs the rest is skipped, so that this ends soon."""
    hangs, limits = 0, limits_of(part)
    for size, cases in part.runs():
        skipped = Attempt(size, cases, skipped=True, limits=limits)
        attempt = skipped if hangs >= MOST_HANGS else _first_seen(function, cases, limits, play)
        # What ends the process that starts ranks costs as much time as a hang: torch is imported anew.
        hangs += MOST_HANGS if is_endless(attempt) or is_flood(attempt) else _costs_time(attempt)
        yield attempt


def limits_of(part: Part) -> launch.Limits:
    """A part's own time limits, or those of all parts."""
    every = launch.Limits(SECONDS_WITHOUT_PROGRESS, SECONDS_FOR_ONE_WORLD_SIZE, MOST_PRINTED)
    return part.limits or every


def _first_seen(function: Callable, cases: Sequence[Case], limits: launch.Limits, play: Play) -> Attempt:
    """All cases; or, of those that begin with one by itself, that one alone if it is wrong.

    If one of the others ends the run, the first is played again, since nothing came back of it.
    """
    attempt = play(function, cases, limits)
    if not cases[0].by_itself or (attempt.error and case_reached(attempt) in (None, cases[0])):
        return attempt
    if attempt.error:
        first = play(function, cases[:1], limits)
    else:
        first = replace(attempt, cases=cases[:1], played=attempt.played[:1])
    is_wrong = first.error or Compared(first.ranks, cases[0], first.played[0]).wrong_ranks
    return first if is_wrong else attempt


def play(function: Callable, cases: Sequence[Case], limits: launch.Limits) -> Attempt:
    """Run a learner's function on all cases of one run, in ranks of this process."""
    size = len(cases[0].arguments)
    results, error, printed = run(play_in_rank, size, (function, calls(cases)), limits)
    return Attempt(size, cases, list(zip(*results, strict=True)), error, printed, limits=limits)


def calls(cases: Sequence[Case]) -> list[list[Call]]:
    """Of each rank, its calls, one for each case."""
    return [
        [Call(case.arguments[rank], case.late_rank == rank) for case in cases]
        for rank in range(len(cases[0].arguments))
    ]


def run(
    in_rank: Callable, size: int, arguments: tuple, limits: launch.Limits, plain: bool = False
) -> tuple[list, ranks.RanksError | ValueError | None, str]:
    """What ranks return, [] after an error; the error; and what they print."""
    launch.import_beforehand(_needed_in_ranks())
    printed = io.StringIO()  # what the learner's function prints is shown only when it is wrong
    try:
        with contextlib.redirect_stdout(printed):
            # On the CPU: the same everywhere, and a class need not queue for GPUs.
            results = launch.call(in_rank, size, arguments, {}, device="cpu", limits=limits, plain=plain)
    except (ranks.RanksError, ValueError) as error:
        return [], error, printed.getvalue()
    return results, None, printed.getvalue()


def _needed_in_ranks() -> list[str]:
    """The checks' modules that are here, and those that are not, since they import torch: the recorder, and
    the training of an exercise, if it has any.

    With these, what each rank that trains would import by itself.
    """
    here = [name for name in list(sys.modules) if name.startswith("course_lib.checks.")]
    exercises = [name for name in here if re.fullmatch(r".*\.exercise_\d\d", name)]
    packages = [name for name in exercises if hasattr(sys.modules[name], "__path__")]
    training = [module for name in packages if find_spec(module := f"{name}.training")]
    return [*here, "course_lib.checks.recorder", *training, *(IMPORTED_LATE if training else [])]


def play_in_rank(function: Callable, calls: Sequence[Sequence[Call]]) -> list[Played]:
    """What one rank does: find its calls, and play them."""
    import torch.distributed as dist

    return play_calls(function, calls[dist.get_rank()])


def play_calls(function: Callable, calls: Sequence[Call]) -> list[Played]:
    """Call the function on the arguments of each case, and note what happened."""
    import torch.distributed as dist

    from course_lib.checks.recorder import Recorder

    recorder = Recorder()
    results = []
    for number, call in enumerate(calls):
        print(f"{CASE_BEGINS}{number}")  # tells in which case a run failed or hung
        results.append(_call(function, call, recorder))
        wait_for_others(dist.distributed_c10d._get_default_store(), f"case {number}")
    return results


def wait_for_others(store, name: str) -> None:
    """So that no message of one case is taken for one of the next.

    Through the store and not by a barrier, which the report of a hang would show as if it were the learner's.
    """
    import torch.distributed as dist

    if store.add(name, 1) == dist.get_world_size():
        store.set(f"{name} done", "")
    while not store.check([f"{name} done"]):
        time.sleep(0.001)


def _call(function: Callable, call: Call, recorder) -> Played:
    built = values.build(call.arguments, ranks.device())
    before = [span(tensor) for tensor in values.tensors(built)]
    if call.is_late:
        time.sleep(_LATE_SECONDS)
    value, messages, collectives, sizes = recorder.record(lambda: function(*built))
    # At once, so that a message which arrives late is not in it.
    described = values.describe(value)
    moved = before != [span(tensor) for tensor in values.tensors(built)]
    shared = _shared(value, built)
    return Played(described, values.describe(built), shared, messages, collectives, moved, sizes)


def _shared(value: Any, arguments: tuple) -> str:
    returned = [span(tensor) for tensor in values.tensors(value)]
    given = [span(tensor) for tensor in values.tensors(arguments)]
    if any(overlap(one, other) for one in returned for other in given):
        return "an argument"
    return "each other" if any(overlap(*pair) for pair in combinations(returned, 2)) else ""


def _costs_time(attempt: Attempt) -> bool:
    return isinstance(attempt.error, ranks.RanksError) and (is_hang(attempt) or not attempt.error.states)


def case_reached(attempt: Attempt) -> Case | None:
    """The last case that began."""
    numbers = re.findall(f"{CASE_BEGINS}(\\d+)", attempt.printed)
    return attempt.cases[max(map(int, numbers))] if numbers else None


def is_hang(attempt: Attempt) -> bool:
    """Whether a time limit ended it."""
    return isinstance(attempt.error, ranks.RanksHung)


def is_endless(attempt: Attempt) -> bool:
    """Whether it made progress and came to no end."""
    return is_hang(attempt) and str(attempt.error).startswith("The ranks did not end within")


def is_flood(attempt: Attempt) -> bool:
    """Whether it was ended because it printed so much."""
    return str(attempt.error).startswith("The ranks printed more than")
