"""The marker of a class's students: each gets a jail of their own, for all of their exercises.

``class_marking`` has one for each worker, and gives it one student after the other.  ``marking`` marks each
exercise, in the jail of the ``player`` that is made here.
"""

from __future__ import annotations

from course_lib.classroom.marking import Player, mark
from course_lib.classroom.marks import StudentMark
from course_lib.classroom.roster import Student

SECONDS = 1800  # of a student; right answers to all exercises take two or three minutes on two cores


class StudentMarker:
    """A marker (``class_marking.Marker``) for one worker.  Inputs are drawn from ``seed``."""

    def __init__(self, number: int, seed: str, is_jailed: bool = True):
        self.number, self._seed, self._is_jailed = number, seed, is_jailed
        self._player: Player | None = None

    def mark(self, student: Student) -> StudentMark:
        """Mark all that there is to mark."""
        player = self._player = Player(self.number, is_jailed=self._is_jailed, seconds=SECONDS)
        try:
            exercises = [mark(filled, file, player, self._seed) for filled, file in student.to_mark]
            return StudentMark(student.name, tuple(exercises))
        finally:
            player.close()

    def close(self) -> None:
        """End the jail that there is: what is being marked ends with NoJail."""
        if self._player is not None:
            self._player.close()
