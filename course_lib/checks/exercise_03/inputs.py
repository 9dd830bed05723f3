"""Whose inputs are in what a ring has left: a case that shows it, and what can be read off it.

The ranks are given numbers that tell where they came from (``ring_table.traceable_input``), so that the
learner sees the table of the lesson, and a check sees which index was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib import ring_table
from course_lib.checks.part import Case, Compared
from course_lib.checks.values import Tensor, numbers_agree
from course_lib.ring_table import Cell, State

_TITLE = "float32, 1s in places that tell whose they are"


def traced_case(before: State, after: Sequence[Sequence[Cell]]) -> Case:
    """A case in place that leads from one state to another; None for a chunk that may hold anything."""
    ranks = len(before)
    arguments = tuple((_tensor(row),) for row in before)
    afterwards = tuple((_tensor(row),) for row in after)
    return Case.in_place(_TITLE, arguments, afterwards, late_rank=ranks - 1, by_itself=True)


def _tensor(row: Sequence[Cell]) -> Tensor:
    numbers: list[float | None] = []
    for chunk, cell in enumerate(row):
        counts = ring_table.times(cell or (), chunk)
        numbers += [
            None if cell is None else float(counts[of][rank] if of in counts else 0)
            for of in range(len(row))
            for rank in range(len(row))
        ]
    return Tensor("float32", (len(numbers),), tuple(numbers))


def left(compared: Compared) -> State | None:
    """What was left, where the case shows it."""
    if compared.case.title != _TITLE or compared.ranks == 1:
        return None
    rows = [compared.got(rank) for rank in range(compared.ranks)]
    if any(not isinstance(row, Tensor) or row.shape != (compared.ranks**3,) for row in rows):
        return None
    if any(type(number) not in (int, float) for row in rows for number in row.numbers):
        return None
    return ring_table.traced([row.numbers for row in rows])


def drawn(name: str) -> Callable[[Compared], tuple[str, State] | None]:
    """For ``Part.draw_left``: what a function of this name left."""

    def draw_left(compared: Compared) -> tuple[str, State] | None:
        state = left(compared)
        return None if state is None else (f"Left by your {name} on {compared.ranks} ranks", state)

    return draw_left


def in_words(wrong: Compared, rank: int) -> tuple[str, str] | None:
    """For ``Part.in_words``: whose inputs are expected and got in the first chunk that is wrong."""
    state = left(wrong)
    if state is None:
        return None
    pairs = enumerate(zip(wrong.got(rank).numbers, wrong.expected(rank).numbers, strict=True))
    wrong_place = next((place for place, pair in pairs if not numbers_agree(*pair)), None)
    if wrong_place is None:
        return None
    chunk = wrong_place // len(state) ** 2
    got = ring_table.words(state).splitlines()[rank].split(": ")[1].split("; ")[chunk]
    return f"chunk {chunk} is complete", got.rstrip(".")


def reading(see: Callable[[State], str | None]) -> Callable[[Compared], str | None]:
    """A recognizer that looks at the state."""

    def recognize(wrong: Compared) -> str | None:
        state = left(wrong)
        return None if state is None else see(state)

    return recognize


def no_sum(state: State) -> str | None:
    if any(cell is None for row in state for cell in row):
        return (
            "Some boxes hold no sum of inputs: numbers have got in that no rank was given, from memory "
            "that nothing has been received into, or not yet."
        )
    return None


def astray(state: State) -> str | None:
    if any(len(ring_table.times(cell or (), chunk)) > 1 for row in state for chunk, cell in enumerate(row)):
        return (
            "Input of one chunk is in another: the chunk that a rank receives is the one that its neighbor "
            "sends in that step."
        )
    return None


def twice(state: State) -> str | None:
    if any(len(set(cell or ())) < len(cell or ()) for row in state for cell in row):
        return "Some inputs have been added more than once: see what is black in the picture, or has a ×."
    return None


def is_complete(state: State, rank: int, chunk: int) -> bool:
    """Whether a rank has the sum of a chunk."""
    return ring_table.is_complete(state[rank][chunk], chunk, len(state))


def nothing_left(state: State) -> str | None:
    if not any(cell for row in state for cell in row):
        return "All inputs are gone: what is sent and added are zeros, of a new tensor, not the rank's own."
    return None


def same_again(state: State) -> str | None:
    ranks = len(state)
    for neighbor in (-1, 1):
        from_it = [
            max(list(cell or ()).count((rank + neighbor) % ranks) for cell in row)
            for rank, row in enumerate(state)
        ]
        if ranks > 2 and min(from_it) == ranks - 1:
            return (
                "A rank gets the same input from its neighbor in every step: what has arrived is not "
                "passed on, each sends its own again."
            )
    return None
