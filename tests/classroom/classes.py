"""A class's folder for tests, and a marker that stands in for the real one: it runs nothing."""

import json
import threading

from course_lib.classroom.marks import PASS, WRONG, CaseMark, ExerciseMark, PartMark, StudentMark
from course_lib.classroom.submission import MASTERS, answer_cells, check_cells, master

MISTAKE = "Left and right are swapped: rank 0 has what rank 1 should have."


def notebook(exercise, answer="right"):
    """A learner's notebook whose answer cells all have this text, as bytes."""
    [path] = MASTERS.glob(f"{exercise}_*.ipynb")
    content = json.loads(path.read_bytes())
    for cell in content["cells"]:
        cell["outputs"] = []
        if cell["id"] in answer_cells(content):
            cell["source"] = [answer]
    return json.dumps(content).encode()


class StandIn:
    """Marks an exercise right if "right" is in its answers.  "boom" raises, "wait" waits until closed."""

    seen = []  # the students who were marked, by all of them

    def __init__(self, number=0):
        self.number = number
        self.closed = threading.Event()

    def mark(self, student):
        StandIn.seen.append(student.name)
        return StudentMark("of no account", tuple(self._exercise(filled) for filled, _ in student.to_mark))

    def _exercise(self, filled):
        text = " ".join(answer_cells(filled.notebook).values())
        if "boom" in text:
            raise RuntimeError("the jail\x1b[31m is gone")
        if "wait" in text:
            assert self.closed.wait(60)
            raise RuntimeError("closed")
        names = check_cells(master(filled.exercise))
        parts = tuple(_part(name, "right" in text, text) for name in names)
        return ExerciseMark(filled.exercise, "of no account", parts, tuple(filled.remarks))

    def close(self):
        self.closed.set()


def _part(name, is_right, text):
    if is_right:
        return PartMark(name, 1.0, 1.0, PASS, "all right", "", (CaseMark("N=2", 1.0, PASS, 0.25),))
    cases = (CaseMark("N=1", 0.0, PASS, 0.1), CaseMark("N=2", 0.0, WRONG, 0.2, f"got {text}"))
    return PartMark(name, 1 / 3, 1.0, WRONG, "1 of 2", MISTAKE, cases)
