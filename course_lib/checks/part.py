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
from functools import cached_property
from typing import TYPE_CHECKING, Any

from course_lib.checks.values import agree
from course_lib.ranks.watching import Limits

if TYPE_CHECKING:
    from course_lib.checks.messages import Message
    from course_lib.ring_table import State

WORLD_SIZES = (1, 2, 3, 4, 5, 8)
ONE_PROCESS = (1,)


@dataclass(frozen=True)
class Case:
    """One call on every rank: ``arguments[r]`` is what rank r gets and ``expected[r]`` what it must return.

    All is plain data as in ``values``.  ``late_rank`` calls the function a moment after the others, so that
    a rank that does not wait for its message has not got it by luck.  What is expected in a ``secret`` case
    is never printed, so that a table of what was printed earns less than a function that computes.

    A function that works *in place* is judged by what its arguments are afterwards, ``expected_arguments[r]``
    on rank r, and may return what it likes; make such a case with ``in_place``.  The elements of tensors may
    be off by ``tolerance``, an absolute number, for sums that round; with ``same_on_all_ranks`` what a rank
    has must then be equal to what rank 0 has, bit by bit.

    The first case may come ``by_itself``: it is seen whatever happens in the others, and alone if wrong.
    """

    title: str
    arguments: tuple[tuple, ...]
    expected: tuple[Any, ...]
    late_rank: int | None = None
    secret: bool = False
    expected_arguments: tuple[tuple, ...] = ()  # where nothing is done in place
    tolerance: float = 0.0
    same_on_all_ranks: bool = False
    by_itself: bool = False

    @classmethod
    def in_place(
        cls, title: str, arguments: tuple[tuple, ...], afterwards: tuple[tuple, ...], **more: Any
    ) -> Case:
        """A call that is to leave ``afterwards[r]`` in the arguments of rank r."""
        return cls(title, arguments, (None,) * len(arguments), expected_arguments=afterwards, **more)

    @classmethod
    def alone(cls, title: str, arguments: tuple, expected: Any, secret: bool = False) -> Case:
        """A call in one process."""
        return cls(title, (arguments,), (expected,), secret=secret)


@dataclass(frozen=True)
class Played:
    """What came back from one rank in one case, as plain data.

    ``arguments`` are the arguments after the call.  ``shares_memory`` names what the returned tensors share
    their memory with: "an argument" or "each other", "" if with nothing.  ``collectives`` are the names of
    torch.distributed's operations that were called beside messages, such as "all_reduce", and
    ``collective_bytes`` are those of the tensors that each fills.  ``moved``: whether an argument lies in
    other memory than before, as after ``tensor.data = …``; whoever shares the memory that it had does not see
    what it holds now.
    """

    value: Any
    arguments: tuple
    shares_memory: str
    messages: tuple[Message, ...]
    collectives: tuple[str, ...] = ()
    moved: bool = False
    collective_bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """All that came back from one run: a list by rank for each case, or the error that ended it."""

    ranks: int
    cases: Sequence[Case]
    played: Sequence[Sequence[Played]] = ()  # played[case][rank]
    error: Exception | None = None
    printed: str = ""
    skipped: bool = False
    limits: Limits | None = None  # under which it ran


@dataclass(frozen=True)
class Compared:
    """One case, what was expected and what came back: what recognizers see."""

    ranks: int
    case: Case
    played: Sequence[Played]

    @cached_property
    def wrong_ranks(self) -> list[int]:
        """Ranks that have not what is expected; if all have, those that differ from rank 0 and should not."""
        wrong = [rank for rank in range(self.ranks) if not is_right(self.case, rank, self.played[rank])]
        return wrong or self.ranks_apart

    @cached_property
    def ranks_apart(self) -> list[int]:
        """Ranks that have not the same bits as rank 0, in a case where all should have the same."""
        if not self.case.same_on_all_ranks:
            return []
        return [rank for rank in range(self.ranks) if self.got(rank) != self.got(0)]

    @property
    def is_right_but_apart(self) -> bool:
        """Whether each rank is right, and only their last bits are not the same."""
        right = all(is_right(self.case, rank, self.played[rank]) for rank in range(self.ranks))
        return right and bool(self.ranks_apart)

    def got(self, rank: int) -> Any:
        """What is looked at: the result, or the arguments after a call in place (the only one by itself)."""
        if not self.case.expected_arguments:
            return self.played[rank].value
        return _only(self.played[rank].arguments)

    def expected(self, rank: int) -> Any:
        """What ``got`` should be."""
        if not self.case.expected_arguments:
            return self.case.expected[rank]
        return _only(self.case.expected_arguments[rank])


@dataclass(frozen=True)
class Fault:
    """What is wrong with a right result: a sentence, the same for all runs, and what was seen in this one."""

    sentence: str
    seen: str


Recognizer = Callable[[Compared], str | None]
Accept = Callable[[Compared], Fault | str | None]


@dataclass(frozen=True)
class Part:
    """One part of an exercise.

    ``example`` is how the learner's function is called.  ``draw`` gives the cases for a world size.
    ``recognizers`` say in one sentence what a wrong result looks like; the first that knows it is heard, and
    of the formulas before it (``mistakes.AsIf``) all that fit.
    ``recognize_error`` does the same for a run that failed or hung.  ``accept`` may find fault with a right
    result, for example with the way its messages were posted.  ``limits`` are the time limits of a run, where
    they are not those of all parts.

    ``draw_left`` gives the title and the state (``ring_table``) of the picture of one case, and None for a
    case that has none; ``in_words`` what was expected and got on one rank, where numbers do not say it.
    """

    example: str
    draw: Callable[[int], Sequence[Case]]
    recognizers: Sequence[Recognizer] = ()
    recognize_error: Callable[[Attempt], str | None] = lambda attempt: None
    accept: Accept = lambda compared: None
    world_sizes: Sequence[int] = WORLD_SIZES
    limits: Limits | None = None
    draw_left: Callable[[Compared], tuple[str, State] | None] = lambda compared: None
    in_words: Callable[[Compared, int], tuple[str, str] | None] = lambda compared, rank: None

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
    """Whether a rank has what is expected: in its arguments, or returned.

    What is returned must be in memory of its own, and the arguments be left alone.
    """
    if case.expected_arguments:
        return agree(played.arguments, case.expected_arguments[rank], case.tolerance) and not played.moved
    unchanged = played.arguments == case.arguments[rank]
    return agree(played.value, case.expected[rank], case.tolerance) and unchanged and not played.shares_memory


def _only(items: tuple) -> Any:
    return items[0] if len(items) == 1 else items
