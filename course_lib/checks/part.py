"""The mechanism behind every check: draw cases, play them in ranks, compare, name the mistake.

A check runs in three steps that know nothing of each other:

* ``draw(N)`` of a Part gives the cases for a world size: what each rank gets, and what it must return;
* ``play`` runs a learner's function on all of them, in one call of ``ranks.run``, and hands back what each
  rank returned as plain data (``values``), with the messages that it posted (``recorder``);
* ``judge`` compares the two in this process and asks the part's recognisers what a mistake looks like.

A check's value is the share of its world sizes that are right, a float from 0.0 to 1.0.  Every check cell is
worth one point in nbgrader, which takes a float as the points earned.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from course_lib.checks import values

if TYPE_CHECKING:
    from course_lib.checks.messages import Message

WORLD_SIZES = (1, 2, 3, 4, 5, 8)
SECONDS_WITHOUT_PROGRESS = 5
SECONDS_FOR_ONE_WORLD_SIZE = 15  # for functions that communicate without end
MOST_HANGS = 2  # then the other world sizes are left out; one function without end is enough
_LATE_SECONDS = 0.1
_RANKS_SHOWN = 3
_CASE_BEGINS = "\x1f"  # a line that no learner prints
_ENDLESS = "kept communicating and did not return"
_SHOWN_IN_FULL = 2  # wrong world sizes


@dataclass(frozen=True)
class Case:
    """One call on every rank: ``arguments[r]`` is what rank r gets and ``expected[r]`` what it must return.

    All is plain data as in ``values``.  ``late_rank`` calls the function a moment after the others, so that
    a rank that does not wait for its message has not got it by luck.
    """

    title: str
    arguments: tuple[tuple, ...]
    expected: tuple[Any, ...]
    late_rank: int | None = None


@dataclass(frozen=True)
class Played:
    """What came back from one rank in one case, as plain data.

    ``arguments`` are the arguments after the call.  ``shares_memory`` names what the returned tensors share
    their memory with: "an argument" or "each other", "" if with nothing.
    """

    value: Any
    arguments: tuple
    shares_memory: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Attempt:
    """All that came back for one world size: a list by rank for each case, or the error that ended it."""

    ranks: int
    cases: Sequence[Case]
    played: Sequence[Sequence[Played]] = ()  # played[case][rank]
    error: Exception | None = None
    printed: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class Compared:
    """One case, what was expected and what came back: what recognisers see."""

    ranks: int
    case: Case
    played: Sequence[Played]

    @property
    def wrong_ranks(self) -> list[int]:
        return [rank for rank in range(self.ranks) if not _is_right(self.case, rank, self.played[rank])]


Recogniser = Callable[[Compared], str | None]


@dataclass(frozen=True)
class Part:
    """One part of an exercise.

    ``example`` is how the learner's function is called.  ``draw`` gives the cases for a world size.
    ``recognisers`` say in one sentence what a wrong result looks like; the first that knows it is heard.
    ``recognise_error`` does the same for a run that failed or hung.  ``accept`` may find fault with a right
    result, for example with the way its messages were posted.
    """

    example: str
    draw: Callable[[int], Sequence[Case]]
    recognisers: Sequence[Recogniser] = ()
    recognise_error: Callable[[Attempt], str | None] = lambda attempt: None
    accept: Recogniser = lambda compared: None
    world_sizes: Sequence[int] = WORLD_SIZES


@dataclass(frozen=True)
class Judgement:
    """Whether one world size is right; if not, what was seen, and what the mistake is, if it is known."""

    ranks: int
    right: bool
    seen: tuple[str, ...]
    mistake: str | None = None
    skipped: bool = False


def check(part: Part, function: Callable) -> float:
    """Run all three steps, print what was found, and return the share of world sizes that are right."""
    if not callable(function):
        print(f"{part.example}: expected a function to check, got {function!r:.60}")
        return 0.0
    judgements = []
    for attempt in attempts(part, function):
        if is_not_yet(attempt):
            print(f"{part.example}: not yet. Replace `raise NotImplementedError()` by your code.")
            return 0.0
        judgements.append(judge(part, attempt))
    print(report(part, judgements))
    return share(judgements)


def attempts(part: Part, function: Callable) -> Iterable[Attempt]:
    """Play one world size after another; after a few hangs the rest is skipped, so that this ends soon."""
    hangs = 0
    for ranks in part.world_sizes:
        cases = part.draw(ranks)
        attempt = Attempt(ranks, cases, skipped=True) if hangs >= MOST_HANGS else play(function, cases)
        hangs += MOST_HANGS if is_endless(attempt) else is_hang(attempt)
        yield attempt


def play(function: Callable, cases: Sequence[Case]) -> Attempt:
    """Run a learner's function on all cases of one world size."""
    from course_lib import ranks

    size = len(cases[0].arguments)
    printed = io.StringIO()  # what the learner's function prints is shown only when it is wrong
    try:
        with contextlib.redirect_stdout(printed):
            results = ranks.run(
                play_in_rank,
                size,
                function,
                cases,
                SECONDS_FOR_ONE_WORLD_SIZE,
                timeout=SECONDS_WITHOUT_PROGRESS,
                device="cpu",  # the same everywhere, and a class need not queue for GPUs
            )
    except (ranks.RanksError, ValueError) as error:
        return Attempt(size, cases, error=error, printed=printed.getvalue())
    return Attempt(size, cases, list(zip(*results, strict=True)), printed=printed.getvalue())


def play_in_rank(function: Callable, cases: Sequence[Case], seconds: float) -> list[Played]:
    """What one rank does: call the function on its arguments of each case, and note what happened."""
    import torch.distributed as dist

    from course_lib.checks.recorder import Recorder

    _end_after(seconds)
    recorder = Recorder()
    rank = dist.get_rank()
    results = []
    for number, case in enumerate(cases):
        print(f"{_CASE_BEGINS}{number}")  # tells in which case a run failed or hung
        results.append(_call(function, case.arguments[rank], case.late_rank == rank, recorder))
        _wait_for_others(dist.distributed_c10d._get_default_store(), f"case {number}")
    return results


def _wait_for_others(store, name: str) -> None:
    """So that no message of one case is taken for one of the next.

    Through the store and not by a barrier, which the report of a hang would show as if it were the learner's.
    """
    import time

    import torch.distributed as dist

    if store.add(name, 1) == dist.get_world_size():
        store.set(f"{name} done", "")
    while not store.check([f"{name} done"]):
        time.sleep(0.001)


def _call(function: Callable, arguments: tuple, late: bool, recorder) -> Played:
    import time

    from course_lib import ranks

    built = values.build(arguments, ranks.device())
    if late:
        time.sleep(_LATE_SECONDS)
    value, messages = recorder.messages_of(lambda: function(*built))
    # At once, so that a message which arrives late is not in it.
    described = values.describe(value)
    return Played(described, values.describe(built), _shared(value, built), messages)


def _shared(value: Any, arguments: tuple) -> str:
    returned = [_memory(tensor) for tensor in values.tensors(value)]
    given = [_memory(tensor) for tensor in values.tensors(arguments)]
    if any(_overlap(one, other) for one in returned for other in given):
        return "an argument"
    return "each other" if any(_overlap(*pair) for pair in combinations(returned, 2)) else ""


def _memory(tensor) -> range:
    """The addresses between a tensor's first and last element."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    length = (steps + 1) * tensor.element_size() if tensor.numel() else 0
    return range(tensor.data_ptr(), tensor.data_ptr() + length)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _end_after(seconds: float) -> None:
    import signal

    def stop(*_):
        raise TimeoutError(f"the function {_ENDLESS} within {seconds:g} s")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)


# --- Judging: nothing from here on runs a learner's code ---


def is_not_yet(attempt: Attempt) -> bool:
    """Whether the function is still the stub that the learner found."""
    states = getattr(attempt.error, "states", [])
    return any(state.doing.startswith("raised NotImplementedError") for state in states)


def is_hang(attempt: Attempt) -> bool:
    """Whether the time limit ended it."""
    from course_lib import ranks

    return isinstance(attempt.error, ranks.RanksHung)


def is_endless(attempt: Attempt) -> bool:
    """Whether it would have gone on for ever, with progress."""
    return _ENDLESS in str(attempt.error)


def judge(part: Part, attempt: Attempt) -> Judgement:
    """Compare what came back with what was expected."""
    if attempt.skipped:
        seen = ("left out, since others did not end",)
        return Judgement(attempt.ranks, False, seen, skipped=True)
    if attempt.error is not None:
        seen = (*_case_reached(attempt), *_error_lines(attempt.error), *_printed(attempt))
        return Judgement(attempt.ranks, False, seen, part.recognise_error(attempt))
    pairs = zip(attempt.cases, attempt.played, strict=True)
    cases = [Compared(attempt.ranks, case, played) for case, played in pairs]
    wrong = [compared for compared in cases if compared.wrong_ranks]
    if wrong:
        seen = (f"{len(wrong)} of {_counted(len(cases), 'case')}", *_case_by_case(cases), *_printed(attempt))
        return Judgement(attempt.ranks, False, seen, _first(part.recognisers, wrong[0]))
    fault = next(filter(None, map(part.accept, cases)), None)
    if fault:
        return Judgement(attempt.ranks, False, ("the right result, but not in the right way",), fault)
    return Judgement(attempt.ranks, True, (_counted(len(cases), "case"),))


def share(judgements: Sequence[Judgement]) -> float:
    """The share that is right, rounded down; one rank alone, which sends no message, earns nothing."""
    right = [judgement.ranks for judgement in judgements if judgement.right]
    if not any(ranks > 1 for ranks in right):
        return 0.0
    return math.floor(100 * len(right) / len(judgements)) / 100


def report(part: Part, judgements: Sequence[Judgement]) -> str:
    """What was found, world size by world size, and the mistake that explains most."""
    lines = [f"{part.example} (a run without progress is ended after {SECONDS_WITHOUT_PROGRESS} s)"]
    wrong = [judgement for judgement in judgements if not judgement.right]
    for judgement in judgements:
        first, *rest = judgement.seen
        lines.append(f"  N={judgement.ranks}  {'right' if judgement.right else 'WRONG'}  {first}")
        if judgement in wrong[:_SHOWN_IN_FULL]:
            lines += [f"{' ' * 14}{line}".rstrip() for line in rest]
    mistake = main_mistake(judgements)
    right = len(judgements) - len(wrong)
    lines += ["", *([mistake, ""] if mistake else []), f"{right} of {len(judgements)} world sizes are right."]
    return "\n".join(lines)


def main_mistake(judgements: Sequence[Judgement]) -> str | None:
    """The mistake that was recognised most often, with the world sizes where they tell more."""
    mistakes = Counter(judgement.mistake for judgement in judgements if judgement.mistake)
    found = mistakes.most_common(1)[0][0] if mistakes else None
    wrong = [judgement.ranks for judgement in judgements if not judgement.right and not judgement.skipped]
    pattern = _pattern(wrong, [judgement.ranks for judgement in judgements if judgement.right])
    return " ".join(filter(None, (found, pattern))) or None


def _pattern(wrong: list[int], right: list[int]) -> str | None:
    right = [ranks for ranks in right if ranks > 1]
    if right and {3, 5} <= set(wrong) and all(ranks % 2 == 0 for ranks in right):
        return "It works only for an even number of ranks."
    if wrong == [2] and len(right) > 1:
        return "Only two ranks, where both neighbours are the same rank, are wrong."
    if wrong == [1] and right:
        return "Only one rank alone, which is its own neighbour, is wrong."
    return None


def _is_right(case: Case, rank: int, played: Played) -> bool:
    unchanged = played.arguments == case.arguments[rank]
    return type(played.value) is type(case.expected[rank]) and (
        played.value == case.expected[rank] and unchanged and not played.shares_memory
    )


def _case_by_case(cases: Sequence[Compared]) -> list[str]:
    """Each case right or wrong; of the first wrong one what was expected and what came."""
    lines, explained = [], False
    for compared in cases:
        is_wrong = bool(compared.wrong_ranks)
        lines.append(f"{'WRONG' if is_wrong else 'right'}  {compared.case.title}")
        if is_wrong and not explained:
            lines += [f"       {line}" for line in _differences(compared)]
            explained = True
    return lines


def _differences(wrong: Compared) -> list[str]:
    lines = []
    for rank in wrong.wrong_ranks[:_RANKS_SHOWN]:
        played = wrong.played[rank]
        lines.append(f"rank {rank}: expected {values.text(wrong.case.expected[rank])}")
        lines.append(f"        got      {values.text(played.value)}{_besides(wrong.case, rank, played)}")
    left_out = len(wrong.wrong_ranks) - _RANKS_SHOWN
    return lines + ([f"and {_counted(left_out, 'more rank')}"] if left_out > 0 else [])


def _besides(case: Case, rank: int, played: Played) -> str:
    if played.arguments != case.arguments[rank]:
        return ", and an argument was altered"
    return f", sharing memory with {played.shares_memory}" if played.shares_memory else ""


def _case_reached(attempt: Attempt) -> list[str]:
    """The title of the case in which a run ended early; ranks begin a case together."""
    numbers = re.findall(f"{_CASE_BEGINS}(\\d+)", attempt.printed)
    return [attempt.cases[max(map(int, numbers))].title] if numbers else []


def _error_lines(error: Exception) -> list[str]:
    """The report; a rank that runs none of the learner's lines has returned and waits for the next case."""
    return [re.sub(r"was running(\s+line \d+)?$", "had returned", line) for line in str(error).splitlines()]


def returned_ranks(attempt: Attempt) -> list[int]:
    """The ranks whose function had returned when the others hung."""
    states = getattr(attempt.error, "states", [])
    return [state.rank for state in states if state.status == "running" and ":" not in state.line]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _printed(attempt: Attempt) -> list[str]:
    """The beginning of what the ranks printed."""
    lines = [line for line in attempt.printed.split("\n") if line and _CASE_BEGINS not in line]
    more = [f"… and {len(lines) - 12} more lines"] if len(lines) > 12 else []
    return ["printed:", *(f"  {line[:100]}" for line in lines[:12]), *more] if lines else []


def _first(recognisers: Sequence[Recogniser], wrong: Compared) -> str | None:
    return next(filter(None, (recognise(wrong) for recognise in recognisers)), None)
