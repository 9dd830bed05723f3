"""Marks one learner's answers to an exercise: they run in a jail, and are judged here.

A check works as in a notebook, but for two things: it plays its cases in the jail's ranks, and its findings
come here in place of being printed.  Nothing that the learner's code prints, or changes in its process, can
be a mark: what counts is what its ranks return, on inputs that are drawn here, and the messages they post.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from course_lib import ranks
from course_lib.checks import checking, draws
from course_lib.checks.checking import Findings
from course_lib.checks.judging import Judgement
from course_lib.checks.part import Attempt, Case
from course_lib.checks.report import main_mistake
from course_lib.classroom import marks
from course_lib.classroom.jail import NoJail
from course_lib.classroom.jailed import Cells, Learners
from course_lib.classroom.marks import CaseMark, ExerciseMark, PartMark
from course_lib.classroom.player import Player
from course_lib.classroom.submission import Filled, answer_cells, check_cells, check_texts, imports
from course_lib.classroom.wire import Looked
from course_lib.ranks.errors import states_of
from course_lib.ranks.watching import Limits

_LONGEST_MESSAGE = 20_000  # characters
# What no answer needs, and what one does that looks for the check that runs it.  No pattern here may look
# twice at the same long text, which a learner chooses.
_SUSPICIOUS = re.compile(
    r"course_lib\.(?:checks|classroom)|\b__\w+__\b|"
    r"\b(?:ctypes|subprocess|socket|gc|inspect|importlib|pickle|builtins|_getframe|os\.\w+|sys\.\w+|"
    r"from (?:os|sys)|import (?:os|sys) as|torch\.(?:os|sys)|\w+\.modules|_get_default_store|"
    r"(?:File|TCP|Hash)Store)\b|\bcheck\.\w+|"
    r"(?<![.\w])(?:exec|eval|open|compile|setattr|globals|vars|__import__)(?=\()"
)
_HARMLESS = ("__future__", "__init__", "__name__", "__main__", "__call__", "__repr__", "__str__", "__len__",
             "__iter__", "__getitem__", "__setitem__", "__enter__", "__exit__", "__post_init__")  # fmt: skip
_AROUND_CELL = re.compile(r"\A\s*(%%(?:time|capture|prun)\b)")  # what is below it is run all the same
# IPython reads a cell again for each magic in it.
_MAGIC = re.compile(r"^[^\S\n]*[%!?]|\?$|=[^\S\n]*[%!]", re.MULTILINE)
_MOST_MAGICS, _LONGEST_WITH_MAGICS = 30, 50_000


def mark(filled: Filled, file: str, player: Player, seed: str) -> ExerciseMark:
    """Mark an exercise's master that holds a learner's answers; inputs are drawn from the seed."""
    most = check_cells(filled.notebook)
    checks = [_Check(name, text, most[name]) for name, text in check_texts(filled.notebook).items()]
    cells = _cells(filled.notebook)
    remarks = list(filled.remarks)
    try:
        looked = player.look(cells, sorted({check.function for check in checks}))
    except ranks.RanksError as error:  # a cell that stops them all; each part then says so
        looked = Looked({}, {}, ())
        first, *_ = str(error).split("\n")
        remarks.append(f"The answer cells do not come to an end: {first}")
    remarks += _errors(looked)
    with draws.salted(seed):
        parts = [_part(filled, check, cells, looked, player) for check in checks]
    return ExerciseMark(filled.exercise, file, tuple(parts), tuple(remarks), tuple(_to_read(cells)))


class _Check(NamedTuple):
    """A check cell: its name, its text, such as ``check.ready_for_nccl(ring)``, and what it is worth."""

    name: str
    text: str
    most: float

    @property
    def function(self) -> str:
        """``ring`` of ``check.ready_for_nccl(ring)``."""
        match ast.parse(self.text).body[-1]:
            case ast.Expr(ast.Call(args=[ast.Name(name)])):
                return name
        raise ValueError(f"the check cell {self.name}: expected check.part(function), got {self.text!r}")


def _errors(looked: Looked) -> list[str]:
    return [f"The answer cell {name} does not run: {error}" for name, error in looked.errors.items()]


def _cells(notebook: dict) -> Cells:
    """As IPython would run them; magics do nothing there, since a rank has no IPython."""
    texts = {name: _python(text) for name, text in answer_cells(notebook).items()}
    imported = imports(notebook).splitlines()
    if not any("check" in text for text in texts.values()):  # it takes its time in each rank
        imported = [line for line in imported if not line.startswith("from course_lib.checks ")]
    return Cells("\n".join(imported), texts)


def _python(text: str) -> str:
    """IPython's way of writing as Python's; text in which there is too much of it fails in the jail."""
    text = _AROUND_CELL.sub(r"# \1", text)
    if len(text) > _LONGEST_WITH_MAGICS or len(_MAGIC.findall(text)) > _MOST_MAGICS:
        return text
    with contextlib.suppress(SyntaxError, RuntimeError):  # the latter: so many that it gives up
        return TransformerManager().transform_cell(text)
    return text


def _to_read(cells: Cells) -> list[str]:
    found = {
        name: sorted(set(_SUSPICIOUS.findall(text)).difference(_HARMLESS))
        for name, text in cells.answers.items()
    }
    return [f"The answer cell {name} says {', '.join(said)}." for name, said in found.items() if said]


class _Part:
    """The marker of one check cell (``checking.Marker``)."""

    def __init__(self, player: Player, cells: Cells):
        self._player, self._cells = player, cells
        self.heard: list[Findings] = []

    def play(self, function: Callable, cases: Sequence[Case], limits: Limits) -> Attempt:
        return self._player.play(self._cells, function, cases, limits)

    def hear(self, findings: Findings) -> None:
        self.heard.append(findings)


def _part(filled: Filled, check: _Check, cells: Cells, looked: Looked, player: Player) -> PartMark:
    function = check.function
    if function in looked.missing:
        message = "\n".join([f"No answer cell defines {function}.", *_errors(looked)])
        status = marks.MISSING if filled.missing or not looked.errors else marks.ERROR
        return PartMark(check.name, 0.0, check.most, status, message)
    if function in looked.others:
        message = f"{function} is {looked.others[function]}: expected a function."
        return PartMark(check.name, 0.0, check.most, marks.ERROR, message)
    return _checked(filled, check, _Part(player, cells))


def _checked(filled: Filled, check: _Check, marker: _Part) -> PartMark:
    """Run the master's line, with the check's module as ``check`` and the learner's function as itself."""
    checks = importlib.import_module(f"course_lib.checks.exercise_{filled.exercise[:2]}")
    try:
        with checking.marked_by(marker):
            exec(check.text, {"check": checks, check.function: Learners(check.function)})
        marked = _marked(check.name, marker.heard[-1], check.most)
    except NoJail:
        raise
    except Exception as error:  # what came back is the learner's, and may be like nothing a check expects
        why = f"The check itself failed on what came back: {type(error).__name__}: {error}. Mark it by hand."
        return PartMark(check.name, 0.0, check.most, marks.ERROR, why[:_LONGEST_MESSAGE])
    if check.name not in filled.changed:
        return marked
    message = f"The check cell was changed. The original one says: {marked.status}.\n{marked.message}"
    return replace(marked, status=marks.TAMPERED, message=message)


def _marked(name: str, findings: Findings, most: float) -> PartMark:
    text = findings.text[:_LONGEST_MESSAGE]
    if not findings.judgements:
        return PartMark(name, 0.0, most, marks.MISSING if findings.is_not_yet else marks.ERROR, text)
    worth = most / len(findings.judgements) if findings.share else 0.0
    cases = tuple(
        _case(judgement, findings, worth, seconds)
        for judgement, seconds in zip(findings.judgements, findings.seconds, strict=True)
    )
    status = next((case.status for case in cases if case.status != marks.PASS), marks.PASS)
    mistake = main_mistake(findings.part, findings.judgements) or ""
    return PartMark(name, most * findings.share, most, status, text, mistake, cases)


def _case(judgement: Judgement, findings: Findings, worth: float, seconds: float) -> CaseMark:
    title, seen = f"N={judgement.ranks}", judgement.seen
    if findings.part.one_process:
        title, seen = seen[0], seen[1:]
    points = round(worth, 4) if judgement.right else 0.0
    return CaseMark(title, points, _status(judgement), seconds, "\n".join(seen)[:_LONGEST_MESSAGE])


def _status(judgement: Judgement) -> str:
    if judgement.right:
        return marks.PASS
    if judgement.skipped or isinstance(judgement.error, ranks.RanksHung):
        return marks.HANG
    if judgement.error is None:
        return marks.WRONG
    states = states_of(judgement.error)  # none of a run that was ended from outside
    ended = not states or any(state.status == "died" for state in states)
    return marks.CRASH if ended else marks.ERROR
