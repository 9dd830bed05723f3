"""Marks a class: students one after the other, on several threads, each with a marker of its own.

What a marker does is none of this module's business.  A student whose marking fails gets a line that says so,
and the others are marked.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from course_lib.classroom.mark_store import MarkStore
from course_lib.classroom.marks import CRASH, ExerciseMark, PartMark, StudentMark, from_plain, to_plain
from course_lib.classroom.roster import HandedIn, Student, Work, gather
from course_lib.classroom.student_names import readable
from course_lib.classroom.submission import check_cells, master

SECONDS_FOR_A_STUDENT = 3600
_SECONDS_TO_END = 15


class Marker(Protocol):
    """Marks students, one at a time."""

    def mark(self, student: Student) -> StudentMark:
        """The marks of all of ``student.to_mark``."""

    def close(self) -> None:
        """End for good, from any thread: a ``mark`` that is under way raises soon."""


@dataclass(frozen=True)
class Plan:
    """What to mark, and how.  ``make_marker`` gets the worker's number, from 0.

    ``course`` stands for all that marks depend on but the student's work (``digest_of_course``).  With
    ``again`` nothing is taken from the store.
    """

    exercises: tuple[str, ...]
    masters: Path
    course: str
    store: MarkStore
    make_marker: Callable[[int], Marker]
    again: bool = False


@dataclass(frozen=True)
class Marked:
    """One student's mark.  ``problem``: what went wrong with marking itself, "" if nothing did."""

    mark: StudentMark
    problem: str = ""


class Watcher(Protocol):
    """Told in the calling thread how marking goes on."""

    def begins(self, student: str) -> None: ...

    def ends(self, student: str, marked: Marked) -> None: ...


class Stopped(Exception):
    """Marking ended before all were marked; str() says why."""


def mark_class(students: Sequence[HandedIn], plan: Plan, jobs: int, watcher: Watcher) -> list[Marked]:
    """Mark all students, ``jobs`` at a time; marks are in the students' order.

    Raises Stopped, when all markers have been told to end, after Ctrl-C and when a student takes too long.
    """
    workers = _Workers(students, plan)
    workers.start(min(jobs, len(students)))
    try:
        return workers.wait(watcher)
    except KeyboardInterrupt:
        raise Stopped("Stopped.") from None
    finally:
        workers.stop()


class _Workers:
    """Threads, since a marker waits for processes.  They report in a queue: (number of a student, news)."""

    def __init__(self, students: Sequence[HandedIn], plan: Plan):
        self._students, self._plan = students, plan
        self._waiting = iter(enumerate(students))
        self._lock = threading.Lock()
        self._news: queue.Queue[tuple[int, Marked | None]] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._markers: list[Marker] = []
        self._is_stopped = False

    def start(self, jobs: int) -> None:
        # Daemons, so that one which does not end keeps nobody from leaving.
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(jobs)]
        for thread in self._threads:
            thread.start()

    def wait(self, watcher: Watcher) -> list[Marked]:
        marked: dict[int, Marked] = {}
        while len(marked) < len(self._students):
            try:
                number, news = self._news.get(timeout=SECONDS_FOR_A_STUDENT)
            except queue.Empty:
                raise Stopped(f"No student was marked for {SECONDS_FOR_A_STUDENT} s.") from None
            name = self._students[number].name
            if news is None:
                watcher.begins(name)
            else:
                marked[number] = news
                watcher.ends(name, news)
        return [marked[number] for number in range(len(self._students))]

    def stop(self) -> None:
        """End all that is under way."""
        with self._lock:
            self._is_stopped = True
            markers = list(self._markers)
        for marker in markers:
            marker.close()
        until = time.monotonic() + _SECONDS_TO_END
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, worker: int) -> None:
        marker = None
        while (taken := self._next()) is not None:
            number, handed_in = taken
            self._news.put((number, None))
            try:
                marker = marker or self._marker(worker)
                news = Marked(_mark(handed_in, self._plan, marker))
            except Exception as error:
                problem = readable("".join(traceback.format_exception_only(error)).strip())
                news = Marked(_crashed(handed_in.name, self._plan, problem), problem)
            self._news.put((number, news))

    def _next(self) -> tuple[int, HandedIn] | None:
        with self._lock:
            return None if self._is_stopped else next(self._waiting, None)

    def _marker(self, worker: int) -> Marker:
        marker = self._plan.make_marker(worker)
        with self._lock:
            self._markers.append(marker)
        return marker


def _mark(handed_in: HandedIn, plan: Plan, marker: Marker) -> StudentMark:
    """A student's mark, from the store if nothing has changed."""
    student = gather(handed_in, plan.exercises, plan.masters)
    key = f"{plan.course} {student.digest()}"
    kept = None if plan.again else plan.store.get(student.name, key)
    if kept is not None:
        return kept
    marks = marker.mark(student).exercises if student.to_mark else ()
    by_name = {mark.exercise: mark for mark in marks}
    exercises = tuple(_exercise(work, by_name, plan.masters) for work in student.work)
    mark = _readable(StudentMark(student.name, exercises, student.remarks))
    plan.store.put(student.name, key, mark)
    return mark


def _readable(mark: StudentMark) -> StudentMark:
    """What learners' code has printed is in marks, and may hold anything."""
    return replace(from_plain(_readable_texts(to_plain(mark))), student=mark.student)


def _readable_texts(data: Any) -> Any:
    if isinstance(data, str):
        return readable(data)
    if isinstance(data, dict):
        return {name: _readable_texts(value) for name, value in data.items()}
    return [_readable_texts(value) for value in data] if isinstance(data, list | tuple) else data


def _exercise(work: Work, marks: dict[str, ExerciseMark], masters: Path) -> ExerciseMark:
    if work.filled is None:
        return _unmarked(work.exercise, masters, work.status, work.message, work.file, work.remarks)
    mark = marks[work.exercise]
    remarks = dict.fromkeys((*work.remarks, *mark.remarks))
    return replace(mark, file=work.file, remarks=tuple(remarks))


def _unmarked(
    exercise: str, masters: Path, status: str, message: str, file: str = "", remarks: tuple[str, ...] = ()
) -> ExerciseMark:
    """An exercise of which all parts have the same status, and no points."""
    parts = check_cells(master(exercise, masters)).items()
    marks = (PartMark(name, 0.0, most, status, message) for name, most in parts)
    return ExerciseMark(exercise, file, tuple(marks), remarks)


def _crashed(name: str, plan: Plan, problem: str) -> StudentMark:
    message = f"Marking failed, which is not the student's fault: {problem}"
    exercises = (_unmarked(exercise, plan.masters, CRASH, message) for exercise in plan.exercises)
    return _readable(StudentMark(name, tuple(exercises)))
