"""Compares what came back with what was expected.  Nothing here runs a learner's code.

It gets the attempts of ``playing``, with words from ``wording``.  ``report`` explains its judgements, and
``checking`` and the marker of a class count them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.checks import wording
from course_lib.checks.part import Attempt, Compared, Fault, Part
from course_lib.ranks.errors import states_of

_KEPT = (
    "Only the first call is right, and a second one with the same arguments is not: something is kept from "
    "call to call, in a global or in a default argument."
)


@dataclass(frozen=True)
class Judgement:
    """Whether one run is right; if not, what was seen, and the mistake if it shows without a look at values.

    ``cases`` are those that came to an end; what the values of a wrong one look like is left to ``report``.
    ``error``: what ended the run before its end.
    """

    ranks: int
    right: bool
    seen: tuple[str, ...]
    mistake: str | None = None
    cases: tuple[Compared, ...] = ()
    secret: bool = False
    skipped: bool = False
    error: Exception | None = None

    @property
    def wrong_case(self) -> Compared | None:
        """The first of the wrong cases."""
        return next((compared for compared in self.cases if compared.wrong_ranks), None)


def is_not_yet(attempt: Attempt) -> bool:
    """Whether the function is still the stub that the learner found."""
    return any(state.doing.startswith("raised NotImplementedError") for state in states_of(attempt.error))


def judge(part: Part, attempt: Attempt) -> Judgement:
    """Compare what came back with what was expected."""
    judgement = _judged(part, attempt)
    title = (attempt.cases[0].title,) if part.one_process else ()
    secret = any(case.secret for case in attempt.cases)
    return replace(judgement, seen=(*title, *judgement.seen), secret=secret)


def _judged(part: Part, attempt: Attempt) -> Judgement:
    if attempt.skipped:
        return Judgement(attempt.ranks, False, ("left out, since others did not end",), skipped=True)
    if attempt.error is not None:
        lines: Sequence[str]
        lines = wording.how_it_ended(attempt) if part.one_process else wording.how_ranks_ended(attempt)
        said = (*lines, *wording.printed(attempt))
        return Judgement(attempt.ranks, False, said, part.recognize_error(attempt), error=attempt.error)
    pairs = zip(attempt.cases, attempt.played, strict=True)
    cases = tuple(Compared(attempt.ranks, case, played) for case, played in pairs)
    wrong = [compared for compared in cases if compared.wrong_ranks]
    if wrong:
        if part.one_process:
            lines = wording.expected_and_got(wrong[0], 0, part.in_words)
        else:
            lines = wording.case_by_case(cases, part.in_words)
        mistake = _KEPT if part.one_process and wrong[0] is not cases[0] else None
        return Judgement(attempt.ranks, False, (*lines, *wording.printed(attempt)), mistake, cases)
    fault = next((found for case in cases if (found := part.accept(case))), None)
    if fault:
        found = fault if isinstance(fault, Fault) else Fault(fault, "")
        seen = "the right result, but not in the right way" + (f": {found.seen}" if found.seen else "")
        return Judgement(attempt.ranks, False, (seen,), found.sentence, cases)
    return Judgement(attempt.ranks, True, (wording.counted(len(cases), "case"),), cases=cases)


def share(part: Part, judgements: Sequence[Judgement]) -> float:
    """The share that is right, rounded down.

    Where world sizes are counted, one rank alone, which sends no message, earns nothing.
    """
    right = sum(judgement.right for judgement in judgements)
    if is_right_alone(part, judgements):
        return 0.0
    return math.floor(100 * right / len(judgements)) / 100


def is_right_alone(part: Part, judgements: Sequence[Judgement]) -> bool:
    """Whether one rank alone is right, and no other world size."""
    return not part.one_process and [each.ranks for each in judgements if each.right] == [1]
