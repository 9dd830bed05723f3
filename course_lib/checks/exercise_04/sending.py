"""Part 1: the bytes that one rank sends in an all-reduce."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from course_lib.checks import mistakes
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Part
from course_lib.checks.values import ELEMENT_BYTES

# algorithm, rank, ranks, elements, dtype
_SECRET = ("ring", 4, 6, 10_000_019, "bfloat16")
_SITUATIONS = (
    ("star", 0, 4, 1000, "float32"),
    ("star", 1, 4, 1001, "float32"),
    ("unchunked-ring", 1, 5, 1003, "bfloat16"),
    ("unchunked-ring", 0, 8, 500, "float64"),
    ("ring", 3, 4, 1000, "float32"),
    ("ring", 7, 8, 1006, "float32"),
    ("ring", 6, 7, 1009, "bfloat16"),
    ("ring", 2, 5, 3, "float64"),
    ("ring", 0, 2, 7, "float32"),
    ("ring", 0, 1, 100, "float32"),
    _SECRET,
)


def _draw(ranks: int) -> list[Case]:
    cases = []
    for situation in _SITUATIONS:
        algorithm, rank, ranks, elements, dtype = situation
        arguments = (algorithm, rank, ranks, elements, ELEMENT_BYTES[dtype])
        title = f"{algorithm}, rank {rank} of {ranks}, {elements:,} elements of {dtype}"
        cases.append(Case.alone(title, arguments, sent(*arguments), situation == _SECRET))
    return cases


def sent(algorithm: str, rank: int, ranks: int, elements: int, width: int) -> int:
    """Bytes that a rank sends, message by message."""
    return width * sum(_MESSAGES[algorithm](rank, ranks, elements))


def received(algorithm: str, rank: int, ranks: int, elements: int, width: int) -> int:
    """Bytes that a rank receives."""
    sender = rank if algorithm == "star" else (rank - 1) % ranks
    return sent(algorithm, sender, ranks, elements, width)


def _star(rank: int, ranks: int, elements: int) -> list[int]:
    """Elements in each message that a rank sends."""
    if rank == 0:
        return [elements for _ in range(1, ranks)]
    return [elements]


def _unchunked_ring(rank: int, ranks: int, elements: int) -> list[int]:
    return [elements for _ in range(ranks - 1)]


def _ring(rank: int, ranks: int, elements: int) -> list[int]:
    chunks, steps = _chunks(elements, ranks), range(ranks - 1)
    reduce_scatter = [chunks[(rank - step - 1) % ranks] for step in steps]
    all_gather = [chunks[(rank - step) % ranks] for step in steps]
    return reduce_scatter + all_gather


def _chunks(elements: int, ranks: int) -> list[int]:
    """Elements in the chunks that torch.tensor_split makes."""
    return [len(range(chunk, elements, ranks)) for chunk in range(ranks)]


_MESSAGES = {"star": _star, "unchunked-ring": _unchunked_ring, "ring": _ring}

# --- What mistakes look like ---

_Elements = Callable[[int, int, int], float]


def _when(**mistaken: _Elements) -> Callable:
    """The bytes when some algorithms' elements are counted in another way."""
    counted = {name.replace("_", "-"): count for name, count in mistaken.items()}

    def compute(algorithm: str, rank: int, ranks: int, elements: int, width: int) -> float:
        if algorithm in counted:
            return width * counted[algorithm](rank, ranks, elements)
        return sent(algorithm, rank, ranks, elements, width)

    return compute


def _all_but(*offsets: int, chunks: Callable[[int, int], list[int]] = _chunks) -> _Elements:
    """Once the tensor for each offset, all but the chunk of rank + offset."""

    def count(rank: int, ranks: int, elements: int) -> int:
        lengths = chunks(elements, ranks)
        return sum(elements - lengths[(rank + offset) % ranks] for offset in offsets)

    return count


def _rest_in_last(elements: int, ranks: int) -> list[int]:
    return [elements // ranks] * (ranks - 1) + [elements - elements // ranks * (ranks - 1)]


def _rest_in_first(elements: int, ranks: int) -> list[int]:
    return _rest_in_last(elements, ranks)[::-1]


def _longest_first(elements: int, ranks: int) -> list[int]:
    """As torch.chunk cuts: all as long as the longest, until nothing is left."""
    longest = ceil(elements / ranks)
    return [max(0, min(longest, elements - longest * chunk)) for chunk in range(ranks)]


def _ring_bytes(count: Callable[[int, int], float]) -> Callable:
    """The bytes when the ring's are a formula of S and N."""
    return lambda algorithm, rank, ranks, elements, width: (
        count(elements * width, ranks)
        if algorithm == "ring"
        else sent(algorithm, rank, ranks, elements, width)
    )


def _n_times(rank: int, ranks: int, elements: int) -> int:
    return ranks * elements


def _star_n(rank: int, ranks: int, elements: int) -> int:
    return elements if rank else ranks * elements


def _twice(rank: int, ranks: int, elements: int) -> int:
    return 2 * elements


SENT_BYTES = Part(
    "sent_bytes(algorithm, rank, ranks, elements, element_bytes)",
    _draw,
    mistakes.in_bytes(
        *as_if(
            "What the rank receives is counted, too. A link carries both directions at the same time, each "
            "at full rate: here only what is sent counts.",
            lambda *a: sent(*a) + received(*a),
        ),
        *as_if(
            "The ring sends more than one tensor's worth where there are more than two ranks: count its "
            "messages, and what is in each of them.",
            _when(ring=lambda rank, ranks, elements: elements),
        ),
        *as_if(
            "Only one half of the ring is counted: after the reduce-scatter each rank has one chunk of the "
            "sum, and then the all-gather sends as much again.",
            _when(ring=_all_but(0)),
            _when(ring=_all_but(1)),
            _when(ring=lambda rank, ranks, elements: (ranks - 1) * elements / ranks),
            _when(ring=lambda rank, ranks, elements: (ranks - 1) * (elements // ranks)),
            _when(ring=lambda rank, ranks, elements: (ranks - 1) * elements // ranks),
        ),
        *as_if(
            "There are N - 1 others, and N - 1 steps around the ring, not N: try your formula with one rank.",
            _when(star=_star_n, unchunked_ring=_n_times, ring=_twice),
            _when(star=_star_n, unchunked_ring=_n_times),
            _when(star=_star_n),
            _when(unchunked_ring=_n_times),
            _when(ring=_twice),
        ),
        *as_if(
            "In the ring a message is one chunk, not the whole tensor.",
            _when(ring=lambda rank, ranks, elements: (ranks - 1) * elements),
            _when(ring=lambda rank, ranks, elements: 2 * (ranks - 1) * elements),
        ),
        *as_if(
            "Each half sends all chunks but one, and another chunk is left out here. Follow a chunk around "
            "the ring: the rank that gets it last does not pass it on.",
            *(
                _when(ring=_all_but(*left_out))
                for left_out in ((0, -1), (0, 0), (1, 1), (1, 2), (-1, -1))
            ),
        ),
        *as_if(
            "The chunks are cut in another way: `tensor_split` gives each of the first ones an element of "
            "the rest.",
            *(
                _when(ring=_all_but(0, 1, chunks=cut))
                for cut in (_rest_in_last, _rest_in_first, _longest_first)
            ),
        ),
        *as_if(
            "The chunks are not all alike where N does not divide the elements: no formula in N and S alone "
            "is exact then. Which chunks does this rank send, and how long are they?",
            _ring_bytes(lambda size, ranks: 2 * (ranks - 1) * size // ranks),
            _ring_bytes(lambda size, ranks: 2 * (ranks - 1) * (size // ranks)),
            _when(ring=lambda rank, ranks, elements: 2 * (ranks - 1) * elements // ranks),
            _when(ring=lambda rank, ranks, elements: 2 * (ranks - 1) * (elements // ranks)),
            _when(ring=lambda rank, ranks, elements: 2 * (ranks - 1) * ceil(elements / ranks)),
            _when(ring=lambda rank, ranks, elements: round(2 * (ranks - 1) * elements / ranks)),
        ),
        *as_if(
            "In the star rank 0 differs from all others: it sends the sum to each of them.",
            _when(star=lambda rank, ranks, elements: elements),
        ),
        *as_if(
            "In the star only rank 0 has several messages to send; the others send their tensor once.",
            _when(star=lambda rank, ranks, elements: (ranks - 1) * elements),
        ),
        *as_if(
            "This is the number of elements, and bytes are asked for: how many has one element?",
            lambda *a: sent(*a) // a[-1],
        ),
        *as_if(
            "Every element is taken as four bytes: use `element_bytes`.", lambda *a: 4 * sent(*a) // a[-1]
        ),
        *as_if("This is in bits, and bytes are asked for: a byte has 8 bits.", lambda *a: 8 * sent(*a)),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
