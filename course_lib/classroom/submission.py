"""A learner's notebook as a file: reading its answers, whatever state it is in, into the exercise's master.

Nothing of a learner's notebook is used but the text of its answer cells, found by their grade_id.  Its
check cells and stored outputs have no effect.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path

from course_lib.working_copy import COURSE_ROOT

MASTERS = COURSE_ROOT / "exercises" / "masters"
LARGEST = 20 * 2**20  # bytes


class Unusable(Exception):
    """No answers can be read from a file; str() says why and what to do."""


class NoExercise(Unusable):
    """A notebook that holds no answer cell of any exercise."""


@dataclass(frozen=True)
class Filled:
    """An exercise's master with a learner's answers in it, and what was odd about their notebook.

    ``missing``: the grade_ids of answer cells that it lacks; ``changed``: those of check cells that differ.
    """

    exercise: str  # such as 00_exchange
    notebook: dict
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """In sentences."""
        return [
            *(f"The answer cell {name} is missing: take it from a fresh copy." for name in self.missing),
            *(f"The check cell {name} has been changed; the original one is used." for name in self.changed),
        ]


def fill_master(path: Path, masters: Path = MASTERS) -> Filled:
    """Put the answers of the notebook at ``path`` into the master of its exercise.

    Raises Unusable when the file is no notebook, or NoExercise when it holds no exercise's answer cells.
    """
    return fill(_content(path), path.name, masters)


def fill(content: bytes, name: str, masters: Path = MASTERS) -> Filled:
    """The same for what is in a file of this name; more than ``LARGEST`` bytes are refused."""
    learners = _graded_cells(_notebook(content))
    exercise, master = _master_of(name, learners, masters)
    missing, changed = [], []
    for cell in master["cells"]:
        grade_id, grading = _grading(cell)
        if grading.get("solution"):
            if grade_id in learners and learners[grade_id]["cell_type"] == cell["cell_type"]:
                cell["source"] = _source(learners[grade_id])
            else:
                missing.append(grade_id)
        elif grading.get("grade") and _source(learners.get(grade_id, cell)) != _source(cell):
            changed.append(grade_id)
    return Filled(exercise, master, tuple(missing), tuple(changed))


def exercises(masters: Path = MASTERS) -> list[str]:
    """The names of all exercises, such as 00_exchange, in order."""
    return sorted(path.stem for path in masters.glob("*.ipynb"))


def master(exercise: str, masters: Path = MASTERS) -> dict:
    """The master of an exercise, as plain data."""
    return json.loads((masters / f"{exercise}.ipynb").read_bytes())


def check_cells(notebook: dict) -> dict[str, float]:
    """The grade_ids of a notebook's check cells and the points that each is worth, in order."""
    found = (_grading(cell) for cell in notebook["cells"])
    return {grade_id: float(grading["points"]) for grade_id, grading in found if grading.get("grade")}


def check_texts(notebook: dict) -> dict[str, str]:
    """The text of a notebook's check cells by grade_id, in order."""
    graded = [(cell, *_grading(cell)) for cell in notebook["cells"]]
    return {grade_id: _source(cell) for cell, grade_id, grading in graded if grading.get("grade")}


def imports(notebook: dict) -> str:
    """What a notebook's other code cells import."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not _grading(cell)[1]]
    statements = [statement for cell in cells for statement in ast.parse(_source(cell)).body]
    kinds = ast.Import | ast.ImportFrom
    return "\n".join(ast.unparse(statement) for statement in statements if isinstance(statement, kinds))


def answer_cells(notebook: dict) -> dict[str, str]:
    """The text of a notebook's answer cells by grade_id, in order."""
    return {
        _grading(cell)[0]: _source(cell) for cell in notebook["cells"] if _grading(cell)[1].get("solution")
    }


def _content(path: Path) -> bytes:
    """What is in a file; of one that is too large, no more than shows it."""
    try:
        if not path.is_file():
            raise Unusable("There is no such file." if not path.exists() else "This is not a file.")
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise Unusable(f"It can't be read: {error.strerror}.") from None


def _notebook(content: bytes) -> dict:
    """A notebook of format 4 as plain data."""
    if len(content) > LARGEST:
        raise Unusable(f"It is larger than {LARGEST >> 20} MB. Clear its outputs, and save it.")
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError):
        raise Unusable("It is not a notebook: its text is not JSON.") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unusable("It is not a notebook: it does not say its nbformat.")
    if notebook["nbformat"] != 4:
        raise Unusable(f"Its nbformat is {notebook['nbformat']!r:.20}, not 4. Save it in JupyterLab.")
    if not _has_cells(notebook):
        raise Unusable("It is not a notebook: its cells can't be read.")
    return notebook


def _has_cells(notebook: dict) -> bool:
    cells = notebook.get("cells")
    return isinstance(cells, list) and all(
        isinstance(cell, dict)
        and isinstance(cell.get("metadata"), dict)
        and isinstance(cell.get("cell_type"), str)
        and _is_text(cell.get("source"))
        for cell in cells
    )


def _is_text(source: object) -> bool:
    lines = source if isinstance(source, list) else [source]
    return all(isinstance(line, str) for line in lines)


def _graded_cells(notebook: dict) -> dict[str, dict]:
    """All cells with a grade_id, by it."""
    cells: dict[str, dict] = {}
    for cell in notebook["cells"]:
        grade_id, _ = _grading(cell)
        if grade_id in cells:
            raise Unusable(f"Two cells have the grade_id {grade_id:.60}: delete one of them.")
        if grade_id:
            cells[grade_id] = cell
    return cells


def _grading(cell: dict) -> tuple[str, dict]:
    """A cell's grade_id and what nbgrader knows of it; "" and nothing without one."""
    grading = cell["metadata"].get("nbgrader")
    if not isinstance(grading, dict) or not isinstance(grading.get("grade_id"), str):
        return "", {}
    return grading["grade_id"], grading


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _master_of(file_name: str, learners: dict[str, dict], masters: Path) -> tuple[str, dict]:
    """The exercise that a notebook is an answer to: by its name, else by its cells."""
    candidates = {name: master(name, masters) for name in exercises(masters)}
    common = {name: len(set(learners) & set(answer_cells(each))) for name, each in candidates.items()}
    named = [name for name in candidates if file_name.startswith(name) and common[name]]
    best = named or sorted(candidates, key=lambda name: -common[name])[:1]
    if not best or not common[best[0]]:
        raise NoExercise("It holds no answer cell of any exercise. Begin from a fresh copy of the exercise.")
    return best[0], candidates[best[0]]
