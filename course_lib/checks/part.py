"""What a check is made of, and what comes back from it.  All of it is plain data.

A check runs in three steps that know nothing of each other:

* ``draw(N)`` of a Part gives the cases for a world size: what each rank gets, and what it must return;
* ``playing`` runs a learner's function on all of them, in one call of ``ranks.run``, and hands back what each
  rank returned as plain data (``values``), with the messages that it posted (``recorder``);
* ``judging`` compares the two in the notebook's process, ``wording`` puts into lines what was seen, and
  ``report`` asks the part's recognizers which mistake explains most of it.

``checking`` puts the three together.  A check's value is the share of its world sizes that are right, a float
from 0.0 to 1.0.  Every check cell is worth one point in nbgrader, which takes a float as the points earned.

A function that talks to nobody, such as a formula, has a part with ``world_sizes=ONE_PROCESS``.  It is played
in the same way, one fresh process for each case, and the value is the share of the cases.  There it is called
twice, since what a function keeps from its first call shows in its second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.checks.messages import Message

WORLD_SIZES = (1, 2, 3, 4, 5, 8)
ONE_PROCESS = (1,)


@dataclass(frozen=True)
class Case:
    """One call on every rank: ``arguments[r]`` is what rank r gets and ``expected[r]`` what it must return.

    All is plain data as in ``values``.  ``late_rank`` calls the function a moment after the others, so that
    a rank that does not wait for its message has not got it by luck.  What is expected in a ``secret`` case
    is never printed, so that a table of what was printed earns less than a function that computes.
    """

    title: str
    arguments: tuple[tuple, ...]
    expected: tuple[Any, ...]
    late_rank: int | None = None
    secret: bool = False

    @classmethod
    def alone(cls, title: str, arguments: tuple, expected: Any, secret: bool = False) -> Case:
        """A call in one process."""
        return cls(title, (arguments,), (expected,), secret=secret)


@dataclass(frozen=True)
class Played:
    """What came back from one rank in one case, as plain data.

    ``arguments`` are the arguments after the call.  ``shares_memory`` names what the returned tensors share
    their memory with: "an argument" or "each other", "" if with nothing.
    """

    value: Any
    arguments: tuple
    shares_memory: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Attempt:
    """All that came back from one run: a list by rank for each case, or the error that ended it."""

    ranks: int
    cases: Sequence[Case]
    played: Sequence[Sequence[Played]] = ()  # played[case][rank]
    error: Exception | None = None
    printed: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class Compared:
    """One case, what was expected and what came back: what recognizers see."""

    ranks: int
    case: Case
    played: Sequence[Played]

    @property
    def wrong_ranks(self) -> list[int]:
        return [rank for rank in range(self.ranks) if not is_right(self.case, rank, self.played[rank])]


Recognizer = Callable[[Compared], str | None]


@dataclass(frozen=True)
class Part:
    """One part of an exercise.

    ``example`` is how the learner's function is called.  ``draw`` gives the cases for a world size.
    ``recognizers`` say in one sentence what a wrong result looks like; the first that knows it is heard, and
    of the formulas before it (``mistakes.AsIf``) all that fit.
    ``recognize_error`` does the same for a run that failed or hung.  ``accept`` may find fault with a right
    result, for example with the way its messages were posted.
    """

    example: str
    draw: Callable[[int], Sequence[Case]]
    recognizers: Sequence[Recognizer] = ()
    recognize_error: Callable[[Attempt], str | None] = lambda attempt: None
    accept: Recognizer = lambda compared: None
    world_sizes: Sequence[int] = WORLD_SIZES

    @property
    def one_process(self) -> bool:
        """Whether the function runs alone, and each case by itself."""
        return tuple(self.world_sizes) == ONE_PROCESS

    def runs(self) -> list[tuple[int, Sequence[Case]]]:
        """World size and cases of each run."""
        if self.one_process:
            return [(1, [case, case]) for case in self.draw(1)]
        return [(size, self.draw(size)) for size in self.world_sizes]


def is_right(case: Case, rank: int, played: Played) -> bool:
    """Whether a rank returned what was expected, in memory of its own, and left its arguments alone."""
    unchanged = played.arguments == case.arguments[rank]
    return _same(played.value, case.expected[rank]) and unchanged and not played.shares_memory


def _same(value: Any, expected: Any) -> bool:
    """Equal, and of the same type: True is not 1, and 2.0 is not 2; but 2 will do for 2.0."""
    if (type(value), type(expected)) == (int, float):
        return value == expected
    if type(value) is not type(expected):
        return False
    if isinstance(expected, tuple):
        return len(value) == len(expected) and all(map(_same, value, expected))
    return value == expected
