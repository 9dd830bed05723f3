"""Has a mutant checked as a learner's answer is: by the check cells of its exercise, in one process."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from course_lib.checks import judging, playing
from course_lib.checks.part import Attempt, Case, Part
from course_lib.ranks.watching import Limits
from course_lib.working_copy import COURSE_ROOT

SOLUTIONS = COURSE_ROOT / "exercises" / "solutions"
# A learner's run may take longer: a mutant that hangs does so in each of its runs, and there are many.
_LIMITS = Limits(without_progress=2, total=10, printed=playing.MOST_PRINTED)


@dataclass(frozen=True)
class Exercise:
    """What counts of a solution notebook: its imports, its answers, and which checks follow each of them."""

    name: str
    imports: str
    answers: Mapping[str, str]  # cell id: source
    checks: Mapping[str, tuple[str, str]]  # check cell id: the answer before it, and its source

    def of(self, answer: str) -> list[str]:
        """The checks of an answer, and then those of the answers after it, which may call it."""
        order = [*self.answers]
        first = order.index(answer)
        return [check for check, (cell, _) in self.checks.items() if order.index(cell) >= first]

    def namespace(self, changed: Mapping[str, str]) -> dict[str, Any]:
        """The names that a kernel has when all answers have been run, some of them ``changed``."""
        names: dict[str, Any] = {"__name__": "__main__"}  # so functions are sent to the ranks by value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            for cell, source in {"imports": self.imports, **self.answers, **changed}.items():
                exec(compile(source, f"<{cell}>", "exec"), names)
        return names


def exercises() -> dict[str, Exercise]:
    """All exercises by their numbers, such as "00"."""
    return {path.name[:2]: read(path) for path in sorted(SOLUTIONS.glob("*.ipynb"))}


def read(path: Path) -> Exercise:
    import nbformat

    imports, answers, checks, last = "", {}, {}, ""
    for cell in nbformat.read(path, as_version=4).cells:
        grading = cell.metadata.get("nbgrader", {})
        if cell.id == "imports":
            imports = cell.source
        elif grading.get("solution"):
            answers[cell.id], last = cell.source, cell.id
        elif grading.get("grade"):
            checks[cell.id] = last, cell.source
    return Exercise(path.stem, imports, answers, checks)


@dataclass(frozen=True)
class Rejected(Exception):
    """The first run that a check finds wrong: how ("wrong", "way", "error" or "hang"), and of how many ranks.

    "way" is a right result that came about in a way the exercise does not allow.
    """

    how: str
    ranks: int


def check(exercise: Exercise, check_cell: str, names: dict[str, Any]) -> Rejected | None:
    """What a check cell says; it stops at the first wrong run, which is enough to be rejected."""
    _, source = exercise.checks[check_cell]
    judge = judging.judge

    def judged(part: Part, attempt: Attempt) -> judging.Judgement:
        judgement = judge(part, attempt)
        if not judgement.right:
            raise Rejected(_how(attempt, judgement), attempt.ranks)
        return judgement

    with mock.patch.object(judging, "judge", judged), _quietly():
        try:
            share = eval(source, names)
        except Rejected as rejected:
            return rejected
    return None if share == 1.0 else Rejected("wrong", 0)


def _how(attempt: Attempt, judgement: judging.Judgement) -> str:
    if playing.is_hang(attempt):
        return "hang"
    if attempt.error is not None:
        return "error"
    return "wrong" if judgement.wrong_case else "way"


class _Played(Exception):
    """All is played, and nothing is to be judged."""


def play(
    exercise: Exercise, check_cell: str, names: dict[str, Any], runs: Sequence[Sequence[Case]]
) -> tuple[Part, list[Attempt]]:
    """What comes back from other cases than those of the check, with all that it does around a function."""
    _, source = exercise.checks[check_cell]
    found: list[tuple[Part, list[Attempt]]] = []

    def attempts(part: Part, function: Any, play: playing.Play) -> Iterator[Attempt]:
        found.append((part, [play(function, cases, _LIMITS) for cases in runs]))
        raise _Played

    with mock.patch.object(playing, "attempts", attempts), _quietly(), contextlib.suppress(_Played):
        eval(source, names)
    return found[0]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with mock.patch.object(playing, "limits_of", lambda part: _LIMITS):
        with contextlib.redirect_stdout(io.StringIO()):
            yield
