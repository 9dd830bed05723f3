"""What became of each mutant: found once, kept in a file for each exercise, so that a run can go on later."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from course_lib.checks.part import Attempt, Part
from tools.mutation import comparing, inputs, trial
from tools.mutation.operators import Mutant
from tools.mutation.trial import Exercise


@dataclass(frozen=True)
class Result:
    """A mutant, and what the checks said.

    ``how`` is as in ``trial.Rejected``, or "" for a survivor; then ``differs`` is the first input that tells
    it from the solution, "" where none does.  ``check``: whose verdict it is.
    """

    exercise: str  # such as "03_ring_all_reduce"
    answer: str
    operator: str
    before: str
    after: str
    key: str
    how: str
    check: str
    ranks: int
    differs: str
    seconds: float

    @property
    def survived(self) -> bool:
        return not self.how

    @property
    def is_missed(self) -> bool:
        return self.survived and bool(self.differs)


def key(mutant: Mutant) -> str:
    """Of the mutated text: the same mutant has the same one, in whatever run."""
    return hashlib.sha256(mutant.source.encode()).hexdigest()[:16]


def judge(number: str, answer: str, mutant: Mutant) -> Result:
    """Have a mutant checked; a survivor is compared with the solution."""
    exercise, began = _exercises()[number], time.monotonic()
    names = exercise.namespace({answer: mutant.source})
    how, by, ranks, differs = "", "", 0, ""
    checks = list(_checks(exercise, answer))
    for check in checks:
        if rejected := trial.check(exercise, check, names):
            how, by, ranks = rejected.how, check, rejected.ranks
            break
    else:
        differs = next(filter(None, (_difference(number, check, names) for check in checks)), "")
    return Result(
        exercise.name, answer, mutant.operator, mutant.before, mutant.after, key(mutant), how, by, ranks,
        differs, round(time.monotonic() - began, 2),
    )  # fmt: skip


_exercises = cache(trial.exercises)


def _checks(exercise: Exercise, answer: str) -> Iterable[str]:
    """Of the answer itself, and of later ones that call it."""
    defined = {
        node.name
        for node in ast.walk(ast.parse(exercise.answers[answer]))
        if isinstance(node, ast.FunctionDef)
    }
    for check in exercise.of(answer):
        cell, _ = exercise.checks[check]
        if cell == answer:
            yield check
        elif defined & set(re.findall(r"\w+", exercise.answers[cell])):
            defined |= {cell}
            yield check


def _difference(number: str, check: str, names: dict) -> str:
    part, right = _of_solution(number, check)
    _, attempts = trial.play(_exercises()[number], check, names, inputs.runs(number, check))
    return comparing.difference(part, right, attempts, inputs.allowed(number, check))


@cache
def _of_solution(number: str, check: str) -> tuple[Part, list[Attempt]]:
    exercise = _exercises()[number]
    return trial.play(exercise, check, exercise.namespace({}), inputs.runs(number, check))


# --- files ---


def load(folder: Path) -> list[Result]:
    """All results of a folder; of a mutant that was judged again the last one."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            result = Result(**json.loads(line))
            found[result.exercise, result.answer, result.key] = result
    return [*found.values()]


def add(folder: Path, result: Result) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{result.exercise}.jsonl").open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")
