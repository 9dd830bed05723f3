"""Compares what came back with what was expected, and says it.  Nothing here runs a learner's code."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.checks import values
from course_lib.checks.part import Attempt, Case, Compared, Part, Played, Recognizer
from course_lib.checks.playing import (
    CASE_BEGINS,
    SECONDS_FOR_ONE_WORLD_SIZE,
    SECONDS_WITHOUT_PROGRESS,
    is_endless,
    is_hang,
)

_RANKS_SHOWN = 3
_SHOWN_IN_FULL = 2  # wrong runs


@dataclass(frozen=True)
class Judgement:
    """Whether one run is right; if not, what was seen, and what the mistake is, if it is known."""

    ranks: int
    right: bool
    seen: tuple[str, ...]
    mistake: str | None = None
    skipped: bool = False


def is_not_yet(attempt: Attempt) -> bool:
    """Whether the function is still the stub that the learner found."""
    states = getattr(attempt.error, "states", [])
    return any(state.doing.startswith("raised NotImplementedError") for state in states)


def judge(part: Part, attempt: Attempt) -> Judgement:
    """Compare what came back with what was expected."""
    judgement = _judged(part, attempt)
    title = (attempt.cases[0].title,) if part.one_process else ()
    return replace(judgement, seen=(*title, *judgement.seen))


def _judged(part: Part, attempt: Attempt) -> Judgement:
    if attempt.skipped:
        seen = ("left out, since others did not end",)
        return Judgement(attempt.ranks, False, seen, skipped=True)
    if attempt.error is not None:
        lines = _how_it_ended(attempt) if part.one_process else _how_ranks_ended(attempt)
        seen = (*lines, *_printed(attempt))
        return Judgement(attempt.ranks, False, seen, part.recognize_error(attempt))
    pairs = zip(attempt.cases, attempt.played, strict=True)
    cases = [Compared(attempt.ranks, case, played) for case, played in pairs]
    wrong = [compared for compared in cases if compared.wrong_ranks]
    if wrong:
        lines = _expected_and_got(wrong[0], 0) if part.one_process else _case_by_case(cases)
        seen = (*lines, *_printed(attempt))
        return Judgement(attempt.ranks, False, seen, _first(part.recognizers, wrong[0]))
    fault = next(filter(None, map(part.accept, cases)), None)
    if fault:
        return Judgement(attempt.ranks, False, ("the right result, but not in the right way",), fault)
    return Judgement(attempt.ranks, True, (_counted(len(cases), "case"),))


def share(part: Part, judgements: Sequence[Judgement]) -> float:
    """The share that is right, rounded down.

    Where world sizes are counted, one rank alone, which sends no message, earns nothing.
    """
    right = [judgement.ranks for judgement in judgements if judgement.right]
    if not part.one_process and not any(ranks > 1 for ranks in right):
        return 0.0
    return math.floor(100 * len(right) / len(judgements)) / 100


def report(part: Part, judgements: Sequence[Judgement]) -> str:
    """What was found, run by run, and the mistake that explains most."""
    lines = [f"{part.example} (a run without progress is ended after {SECONDS_WITHOUT_PROGRESS} s)"]
    counted = "cases" if part.one_process else "world sizes"
    wrong = [judgement for judgement in judgements if not judgement.right]
    for judgement in judgements:
        first, *rest = judgement.seen
        name = "  " if part.one_process else f"  N={judgement.ranks}  "
        lines.append(f"{name}{'right' if judgement.right else 'WRONG'}  {first}")
        if judgement in wrong[:_SHOWN_IN_FULL]:
            indent = " " * len(f"{name}WRONG  ")
            lines += [f"{indent}{line}".rstrip() for line in rest]
    mistake = main_mistake(judgements)
    right = len(judgements) - len(wrong)
    lines += ["", *([mistake, ""] if mistake else []), f"{right} of {len(judgements)} {counted} are right."]
    return "\n".join(lines)


def main_mistake(judgements: Sequence[Judgement]) -> str | None:
    """The mistake that was recognized most often, with the world sizes where they tell more."""
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
        return "Only two ranks, where both neighbors are the same rank, are wrong."
    if wrong == [1] and right:
        return "Only one rank alone, which is its own neighbor, is wrong."
    return None


def _case_by_case(cases: Sequence[Compared]) -> list[str]:
    """Each case right or wrong; of the first wrong one what was expected and what came."""
    wrong = sum(bool(compared.wrong_ranks) for compared in cases)
    lines, explained = [f"{wrong} of {_counted(len(cases), 'case')}"], False
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
        expected, got = _expected_and_got(wrong, rank)
        lines += [f"rank {rank}: {expected}", f"        {got}"]
    left_out = len(wrong.wrong_ranks) - _RANKS_SHOWN
    return lines + ([f"and {_counted(left_out, 'more rank')}"] if left_out > 0 else [])


def _expected_and_got(wrong: Compared, rank: int) -> tuple[str, str]:
    played = wrong.played[rank]
    return (
        f"expected {values.text(wrong.case.expected[rank])}",
        f"got      {values.text(played.value)}{_besides(wrong.case, rank, played)}",
    )


def _besides(case: Case, rank: int, played: Played) -> str:
    if played.arguments != case.arguments[rank]:
        return ", and an argument was altered"
    return f", sharing memory with {played.shares_memory}" if played.shares_memory else ""


def _how_ranks_ended(attempt: Attempt) -> list[str]:
    """The title of the case in which a run ended early, since ranks begin a case together; then the report.

    A rank that runs none of the learner's lines has returned and waits for the next case.
    """
    numbers = re.findall(f"{CASE_BEGINS}(\\d+)", attempt.printed)
    title = [attempt.cases[max(map(int, numbers))].title] if numbers else []
    report = str(attempt.error).splitlines()
    return title + [re.sub(r"was running(\s+line \d+)?$", "had returned", line) for line in report]


def _how_it_ended(attempt: Attempt) -> list[str]:
    """The same for one process: no table of ranks."""
    if not (states := getattr(attempt.error, "states", [])):
        return str(attempt.error).splitlines()
    if is_hang(attempt):
        seconds = SECONDS_FOR_ONE_WORLD_SIZE if is_endless(attempt) else SECONDS_WITHOUT_PROGRESS
        return [f"did not return within {seconds} s; it was in", f"  {states[0].line}"]
    return re.sub("^Rank 0 ", "", str(attempt.error)).splitlines()


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _printed(attempt: Attempt) -> list[str]:
    """The beginning of what the ranks printed; a rank alone needs no label."""
    lines = [line for line in attempt.printed.split("\n") if line and CASE_BEGINS not in line]
    lines = [line.removeprefix("[rank 0] ") if attempt.ranks == 1 else line for line in lines]
    more = [f"… and {len(lines) - 12} more lines"] if len(lines) > 12 else []
    return ["printed:", *(f"  {line[:100]}" for line in lines[:12]), *more] if lines else []


def _first(recognizers: Sequence[Recognizer], wrong: Compared) -> str | None:
    return next(filter(None, (recognize(wrong) for recognize in recognizers)), None)
