"""Learners' notebooks for tests of marking."""

import json

from course_lib.classroom import marking
from course_lib.classroom.submission import MASTERS, answer_cells, check_cells, fill_master
from course_lib.working_copy import COURSE_ROOT

NEIGHBORS = "def neighbors(rank, ranks):\n    return (rank - 1) % ranks, (rank + 1) % ranks"


class Learner:
    """A learner's notebook of an exercise, made from the solution."""

    def __init__(self, folder, exercise):
        [self.solution] = (COURSE_ROOT / "exercises" / "solutions").glob(f"{exercise}_*.ipynb")
        self.notebook = json.loads(self.solution.read_text())
        self.path = folder / self.solution.name

    @property
    def master(self):
        return json.loads((MASTERS / self.solution.name).read_text())

    def cell(self, grade_id):
        return next(cell for cell in self.notebook["cells"] if cell["id"] == grade_id)

    def answer(self, **texts):
        """Other text for some answer cells."""
        for name, text in texts.items():
            self.cell(name)["source"] = text
        return self

    def untouched(self):
        """As it is given out."""
        stubs = answer_cells(self.master)
        return self.answer(**stubs)

    def save(self):
        self.path.write_text(json.dumps(self.notebook))
        return self.path

    def marked(self, player, *parts, seed="a class"):
        """The mark, of some parts only where these are enough."""
        filled = fill_master(self.save())
        checks = {f"check_{part}" for part in parts} or set(check_cells(filled.notebook))
        cells = filled.notebook["cells"]
        filled.notebook["cells"] = [cell for cell in cells if cell["id"] in checks or not is_check(cell)]
        return marking.mark(filled, self.path.name, player, seed)

    def part(self, player, name, seed="a class"):
        """The mark of one part."""
        return part_of(self.marked(player, name, seed=seed), name)


def is_check(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade", False)


def statuses(mark):
    """The status of each part of an exercise."""
    return {part.name.removeprefix("check_"): part.status for part in mark.parts}


def part_of(mark, name):
    return next(part for part in mark.parts if part.name == f"check_{name}")
