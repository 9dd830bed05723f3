"""What was seen in one run, in lines that a learner reads.  Nothing here decides what is right.

``judging`` asks for these lines, once it has decided.  ``report`` puts them below each other, with the
mistake that explains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from course_lib.checks import values
from course_lib.checks.part import Attempt, Case, Compared, Played
from course_lib.checks.playing import (
    CALLS,
    CASE_BEGINS,
    case_reached,
    is_endless,
    is_hang,
)
from course_lib.ranks.errors import states_of

_RANKS_SHOWN = 3
_LONGEST_LINE = 500


InWords = Callable[[Compared, int], "tuple[str, str] | None"]


def case_by_case(cases: Sequence[Compared], in_words: InWords) -> list[str]:
    """Each case right or wrong; of the first wrong one what was expected and what came."""
    wrong = sum(bool(compared.wrong_ranks) for compared in cases)
    lines, explained = [f"{wrong} of {counted(len(cases), 'case')}"], False
    for compared in cases:
        is_wrong = bool(compared.wrong_ranks)
        lines.append(f"{'WRONG' if is_wrong else 'right'}  {compared.case.title}")
        if is_wrong and not explained:
            lines += [f"       {line}" for line in _differences(compared, in_words)]
            explained = True
    return lines


def _differences(wrong: Compared, in_words: InWords) -> list[str]:
    lines = []
    for rank in wrong.wrong_ranks[:_RANKS_SHOWN]:
        expected, got = expected_and_got(wrong, rank, in_words)
        lines += [f"rank {rank}: {expected}", f"        {got}"]
    left_out = len(wrong.wrong_ranks) - _RANKS_SHOWN
    return lines + ([f"and {counted(left_out, 'more rank')}"] if left_out > 0 else [])


def expected_and_got(wrong: Compared, rank: int, in_words: InWords) -> tuple[str, str]:
    """Two lines."""
    if (words := in_words(wrong, rank)) is not None:
        return f"expected {words[0]}", f"got      {words[1]}"
    apart = rank in wrong.ranks_apart  # then it is rank 0 that it differs from
    reference, tolerance = (wrong.got(0), 0.0) if apart else (wrong.expected(rank), wrong.case.tolerance)
    expected, got = values.texts(reference, wrong.got(rank), tolerance)
    if wrong.case.secret:
        expected = "(not shown in this case)"
    return (
        f"expected {expected}{', as on rank 0' if apart else ''}",
        f"got      {got}{_besides(wrong.case, rank, wrong.played[rank])}",
    )


def _besides(case: Case, rank: int, played: Played) -> str:
    if case.expected_arguments:
        return ", in other memory than before" if played.moved else ""
    if played.arguments != case.arguments[rank]:
        return ", and an argument was altered"
    return f", sharing memory with {played.shares_memory}" if played.shares_memory else ""


def how_ranks_ended(attempt: Attempt) -> list[str]:
    """The title of the case in which a run ended early, since ranks begin a case together; then the report.

    A rank that runs none of the learner's lines has returned and waits for the next case.
    """
    reached = case_reached(attempt)
    title = [reached.title] if reached else []
    report = _lines(str(attempt.error))
    return title + [re.sub(r"was running(\s+line \d+)?$", "had returned", line) for line in report]


def how_it_ended(attempt: Attempt) -> list[str]:
    """The same for one process: no table of ranks."""
    if not (states := states_of(attempt.error)):
        return _lines(str(attempt.error))
    if (limits := attempt.limits) and is_hang(attempt):
        seconds = limits.total if is_endless(attempt) else limits.without_progress
        return [f"did not return within {seconds:g} s; it was in", f"  {states[0].line}"]
    return _lines(re.sub("^Rank 0 ", "", str(attempt.error)))


def _lines(report: str) -> list[str]:
    """None of them endless, and none about the check's own line that called the function."""
    lines = [line for line in report.splitlines() if not line.strip().startswith(CALLS)]
    return [line[:_LONGEST_LINE] for line in lines]


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def printed(attempt: Attempt) -> list[str]:
    """The beginning of what the ranks printed; a rank alone needs no label."""
    lines = attempt.printed.split("\n")
    if attempt.cases[1:] == attempt.cases[:1]:  # the same call twice
        lines = list(takewhile(lambda line: f"{CASE_BEGINS}1" not in line, lines))
    lines = [line for line in lines if line and CASE_BEGINS not in line]
    lines = [line.removeprefix("[rank 0] ") if attempt.ranks == 1 else line for line in lines]
    more = [f"… and {len(lines) - 12} more lines"] if len(lines) > 12 else []
    return ["printed:", *(f"  {line[:100]}" for line in lines[:12]), *more] if lines else []
