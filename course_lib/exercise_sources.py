"""Make the learners' notebooks from the solutions: ``python -m course_lib.exercise_sources``.

``exercises/solutions/NN_name.ipynb`` is the only source.  From it come

* ``exercises/NN_name.ipynb``, what a learner fills in: stubs, no outputs;
* ``exercises/masters/NN_name.ipynb``, what ``course check`` puts a learner's answers into: stubs, check
  cells and the outputs of a right answer, but no solutions.

nbgrader's own preprocessors do it, so nbgrader makes the same from the same source.  It is needed here only,
not by learners.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.working_copy import COURSE_ROOT, write_atomically

if TYPE_CHECKING:
    from nbformat import NotebookNode

SOLUTIONS, MASTERS = Path("solutions"), Path("masters")
# nbgrader's preprocessors, in the order in which generate_assignment uses them
_STUBS = ("ClearSolutions", "ClearHiddenTests", "LockCells")
_SEALS = ("CheckCellMetadata", "ComputeChecksums")


def learners(solution: NotebookNode) -> NotebookNode:
    """The notebook that a learner fills in.  Raises ValueError when the source breaks a rule."""
    _refuse_bad_source(solution)
    return _preprocessed(solution, *_STUBS, "ClearOutput", *_SEALS)


def master(solution: NotebookNode) -> NotebookNode:
    """The learner's notebook with the outputs of a right answer, to check others against."""
    _refuse_bad_source(solution)
    return _preprocessed(solution, *_STUBS, *_SEALS)


def generate(exercises: Path) -> dict[Path, bytes]:
    """All files that are made from the solutions in a folder of exercises: path and content."""
    import nbformat

    files = {}
    for source in sorted((exercises / SOLUTIONS).glob("*.ipynb")):
        solution = nbformat.read(source, as_version=4)
        for target, make in ((exercises, learners), (exercises / MASTERS, master)):
            files[target / source.name] = (nbformat.writes(make(solution)) + "\n").encode()
    return files


def _preprocessed(solution: NotebookNode, *names: str) -> NotebookNode:
    """A copy of the notebook after nbgrader's preprocessors of these names."""
    from copy import deepcopy

    from nbgrader import preprocessors
    from traitlets.config import Config

    notebook, resources = deepcopy(solution), dict[str, Any]()
    for name in names:
        preprocessor = getattr(preprocessors, name)(config=Config())
        notebook, resources = preprocessor.preprocess(notebook, resources)
    return notebook


def _refuse_bad_source(solution: NotebookNode) -> None:
    for cell in solution.cells:
        grading = cell.metadata.get("nbgrader", {})
        if grading and cell.id != grading["grade_id"]:
            raise ValueError(f"cell {cell.id}: expected the grade_id {grading['grade_id']} as its id, too")
        # A check's value is a share, and nbgrader takes it as points.
        if grading.get("grade") and grading.get("points") != 1:
            raise ValueError(f"cell {cell.id}: expected 1 point for a check, got {grading.get('points')}")
        if grading.get("solution") and "### BEGIN SOLUTION" not in cell.source:
            raise ValueError(f"cell {cell.id}: expected a region that begins with ### BEGIN SOLUTION")


def main() -> int:
    """Write what has changed, and say it; with --check write nothing, and fail if something would change."""
    parser = argparse.ArgumentParser(description="Make the learners' notebooks from the solutions.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    arguments = parser.parse_args()
    changed = {
        path: content
        for path, content in generate(COURSE_ROOT / "exercises").items()
        if not path.exists() or path.read_bytes() != content
    }
    for path, content in changed.items():
        print(f"{'differs' if arguments.check else 'written'}: {path.relative_to(COURSE_ROOT)}")
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
    return 1 if changed and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
