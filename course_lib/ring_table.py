"""The ring all-reduce as a table: what each rank holds of each chunk after each step, in plain Python.

Nothing is added up here: in place of numbers the table holds from which ranks they came.  So a wrong ring is
seen, and not only found to be wrong.

    print(text(after(ranks=4, step=2)))

A *state* is one row for each rank, of one cell for each chunk.  A cell is a collection of what has been added
up in it: a number is the rank whose input of this chunk it is, and a pair ``(rank, chunk)`` is input of
another chunk, that does not belong there.  What was added twice stands twice, in a list or tuple.  None is a
cell that is no sum of inputs at all.  As many ranks can be shown as a picture has room for: MOST_RANKS.

``traceable_input`` and ``traced`` make such a state from the numbers that a real all-reduce leaves:

    def trace_ring():
        numbers = torch.tensor(ring_table.traceable_input(dist.get_rank(), dist.get_world_size()))
        all_reduce.ring(numbers)
        return numbers.tolist()

    ring_table.picture(ring_table.traced(ranks.run(trace_ring, 4)), "What the ring left on each rank")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from course_lib.arguments import whole_number

if TYPE_CHECKING:
    from course_lib.pictures import Picture

MOST_RANKS = 8
_MOST_TIMES = 10_000  # above it, a number is not the count of anything that a ring does

Inputs = Collection["int | tuple[int, int]"]
Cell = Inputs | None
State = Sequence[Sequence[Cell]]


# --- how the ring goes ---


@dataclass(frozen=True)
class Message:
    """The sender's ``chunk`` arrives at the receiver, in its chunk ``into``: added to it, or in its place."""

    sender: int
    receiver: int
    chunk: int
    into: int
    adds: bool


def steps(ranks: int) -> int:
    """How many steps the ring takes: half of them for the reduce-scatter, half for the all-gather."""
    return 2 * (ranks - 1)


def messages(ranks: int, step: int) -> list[Message]:
    """What is sent in a step, of which the first is 1: one message from each rank to the next.

    Each rank begins with the chunk of the rank before it, and then passes on what it has received last.
    """
    return [
        Message(rank, (rank + 1) % ranks, (rank - step) % ranks, (rank - step) % ranks, adds=step < ranks)
        for rank in range(ranks)
    ]


def start(ranks: int) -> State:
    """Before the first step each rank holds its own input, and nothing else."""
    return tuple(((rank,),) * ranks for rank in range(_check_ranks(ranks)))


@lru_cache
def after(ranks: int, step: int) -> State:
    """The state after so many steps of the ring.  Raises ValueError for more steps than it has."""
    if whole_number("step", step, least=0) > steps(_check_ranks(ranks)):
        raise ValueError(f"step={step!r}: expected at most {steps(ranks)}, the ring's steps on {ranks} ranks")
    return deliver(after(ranks, step - 1), messages(ranks, step)) if step else start(ranks)


def deliver(state: State, sent: Iterable[Message]) -> State:
    """The state when messages that were sent at the same time have arrived: any messages, also wrong ones."""
    arrived = [list(row) for row in state]
    for message in sent:
        added = [(message.chunk, state[message.sender][message.chunk])]
        if message.adds:
            added.append((message.into, arrived[message.receiver][message.into]))
        arrived[message.receiver][message.into] = _sum(added, message.into)
    return tuple(map(tuple, arrived))


def _sum(cells: Sequence[tuple[int, Cell]], into: int) -> Cell:
    """What is in a cell of chunk ``into`` when cells, each with the chunk it is of, are added up in it."""
    sources: list[tuple[int, int]] = []
    for chunk, cell in cells:
        if cell is None:
            return None
        sources += _sources(cell, chunk)
    return _cell(sources, into)


def _sources(cell: Inputs, chunk: int) -> list[tuple[int, int]]:
    """Rank and chunk of each input in a cell of ``chunk``."""
    return [source if isinstance(source, tuple) else (source, chunk) for source in cell]


def _cell(sources: Sequence[tuple[int, int]], chunk: int) -> tuple:
    """The cell of ``chunk`` with these inputs, those of its own first."""
    own = sorted(rank for rank, of in sources if of == chunk)
    return *own, *sorted(source for source in sources if source[1] != chunk)


# --- from the numbers of a real all-reduce ---


def traceable_input(rank: int, ranks: int) -> list[int]:
    """N³ numbers for a rank to put into an all-reduce, so that the result says whose inputs are in it.

    They are N chunks of N² numbers.  All are 0 but one in each chunk, a 1 at a place that only this rank and
    this chunk have: the sum counts there how often they were added.  Exact in all types.
    """
    _check_ranks(ranks)
    numbers = [0] * ranks**3
    for chunk in range(ranks):
        numbers[chunk * ranks**2 + chunk * ranks + rank] = 1
    return numbers


def traced(rows: Sequence[Sequence[float]]) -> State:
    """The state that is left when the ranks put in their ``traceable_input``: a row of N³ numbers for each.

    Raises ValueError when there are more or fewer numbers.
    """
    ranks = _check_ranks(len(rows))
    for rank, row in enumerate(rows):
        if len(row) != ranks**3:
            raise ValueError(f"rank {rank} has {len(row)} numbers: expected {ranks}³ = {ranks**3}")
    size = ranks**2
    return tuple(tuple(_traced(row[size * chunk : size * (chunk + 1)], chunk) for chunk in range(ranks))
                 for row in rows)  # fmt: skip


def _traced(numbers: Sequence[float], chunk: int) -> Cell:
    ranks = round(len(numbers) ** 0.5)
    if not all(0 <= number < _MOST_TIMES and number == int(number) for number in numbers):
        return None
    times = {divmod(place, ranks)[::-1]: int(number) for place, number in enumerate(numbers)}
    return _cell(list(Counter(times).elements()), chunk)


# --- in words and numbers ---


def is_complete(cell: Cell, chunk: int, ranks: int) -> bool:
    """Whether a cell of ``chunk`` is the whole sum: each rank's input of it once, and nothing else."""
    if cell is None or len(cell) != ranks:
        return False
    return times(cell, chunk) == {chunk: Counter(range(ranks))}


def times(cell: Collection, chunk: int) -> dict[int, Counter]:
    """How often each rank's input is in a cell of ``chunk``: chunk of the input -> rank -> times.

    The cell's own chunk comes first, also if nothing of it is there.
    """
    counted: dict[int, Counter] = {chunk: Counter()}
    for rank, of in _sources(cell, chunk):
        counted.setdefault(of, Counter())[rank] += 1
    return {of: counted[of] for of in (chunk, *sorted(counted.keys() - {chunk}))}


def rows(state: State) -> list[tuple[str, ...]]:
    """The table in short texts, head first; ``keys`` says how to read them."""
    ranks = ranks_of(state)
    head = ("", *(f"chunk {chunk}" for chunk in range(ranks)))
    body = [(f"rank {rank}", *(_code(cell, chunk, ranks) for chunk, cell in enumerate(row)))
            for rank, row in enumerate(state)]  # fmt: skip
    return [head, *body]


def _code(cell: Cell, chunk: int, ranks: int) -> str:
    """``01_3`` for what came from ranks 0, 1 and 3, ``01_3 1×2`` if from rank 1 twice."""
    if cell is None:
        return "?"
    codes = {of: _code_of_chunk(counted, ranks) for of, counted in times(cell, chunk).items()}
    return " ".join(code if of == chunk else f"c{of}:{code}" for of, code in codes.items())


def _code_of_chunk(counted: Counter, ranks: int) -> str:
    once = "".join(f"{rank}" if rank in counted else "_" for rank in range(ranks))
    return " ".join([once, *(f"{rank}×{count}" for rank, count in sorted(counted.items()) if count > 1)])


def keys(state: State) -> list[str]:
    """Sentences that say how to read ``rows``: only what occurs there."""
    cells = [(chunk, cell) for row in state for chunk, cell in enumerate(row)]
    counts = [times(cell, chunk) for chunk, cell in cells if cell is not None]
    twice = any(count > 1 for each in counts for counted in each.values() for count in counted.values())
    astray = any(len(each) > 1 for each in counts)
    said = {
        "A digit is a rank whose input of this chunk is in the sum, _ one whose input is not.": True,
        "×2: in it twice.": twice,
        "c and a number: what follows is input of that chunk, which does not belong there.": astray,
        "?: not a sum of inputs.": any(cell is None for _, cell in cells),
    }
    return [sentence for sentence, occurs in said.items() if occurs]


def text(state: State) -> str:
    """The state as a table for a terminal."""
    table = rows(state)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in table]  # fmt: skip
    return "\n".join([*lines, *keys(state)])


def words(state: State) -> str:
    """The state in sentences, one line for each rank."""
    ranks = ranks_of(state)
    lines = []
    for rank, row in enumerate(state):
        cells = [f"chunk {chunk} {_in_words(cell, chunk, ranks)}" for chunk, cell in enumerate(row)]
        lines.append(f"Rank {rank}: {'; '.join(cells)}.")
    return "\n".join(lines)


def _in_words(cell: Cell, chunk: int, ranks: int) -> str:
    if cell is None:
        return "is not a sum of inputs"
    if is_complete(cell, chunk, ranks):
        return "is complete"
    counted = times(cell, chunk)
    own, *others = [_ranks_in_words(each) for each in counted.values()]
    strays = [f"input of chunk {of} from {who}" for of, who in zip(list(counted)[1:], others, strict=True)]
    return f"has {' and '.join([own] * bool(cell and counted[chunk]) + strays) or 'nothing'}"


def _ranks_in_words(counted: Counter) -> str:
    how_often = {1: "", 2: " (twice)"}
    each = [f"{rank}{how_often.get(count, f' ({count} times)')}" for rank, count in sorted(counted.items())]
    return f"{'rank' if len(each) == 1 else 'ranks'} {', '.join(each)}"


def picture(state: State, title: str) -> Picture:
    """Draw any state: a box for each cell, with a place in it for each rank's input.

    A number stands where that rank's input is in the sum.  What is in it more than once is dark, and says how
    often; a complete cell has a thick frame.  Raises ValueError for what is not a state.
    """
    from course_lib import ring_drawing

    return ring_drawing.picture(state, title)


def ranks_of(state: State) -> int:
    """The number of ranks of a state.  Raises ValueError for what is not one."""
    ranks = _check_ranks(len(state))
    for rank, row in enumerate(state):
        if len(row) != ranks:
            raise ValueError(f"rank {rank} has {len(row)} cells: expected one for each of {ranks} chunks")
        for chunk, cell in enumerate(row):
            if not _is_cell(cell, ranks):
                raise ValueError(
                    f"rank {rank}, chunk {chunk} holds {cell!r}: expected None, or a set, list or tuple of "
                    f"ranks from 0 to {ranks - 1} and pairs (rank, chunk)"
                )
    return ranks


def _is_cell(cell: object, ranks: int) -> bool:
    if cell is None:
        return True
    if not isinstance(cell, Collection) or isinstance(cell, Mapping):
        return False
    pairs = _sources(cell, 0)
    return all(len(pair) == 2 and all(part in range(ranks) for part in pair) for pair in pairs)


def _check_ranks(ranks: int) -> int:
    if not 1 <= whole_number("ranks", ranks) <= MOST_RANKS:
        raise ValueError(f"ranks={ranks!r}: expected at most {MOST_RANKS}")
    return ranks
