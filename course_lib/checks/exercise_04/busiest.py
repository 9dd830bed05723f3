"""Part 2: the busiest direction of all links."""

from __future__ import annotations

from course_lib.checks import mistakes
from course_lib.checks.exercise_04.sending import received, sent
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Part
from course_lib.checks.values import ELEMENT_BYTES

# algorithm, ranks, elements, dtype
_SECRET = ("ring", 7, 10_000_019, "bfloat16")
_SITUATIONS = (
    ("star", 8, 1000, "float32"),
    ("star", 2, 77, "float64"),
    ("unchunked-ring", 3, 1000, "bfloat16"),
    ("ring", 4, 1000, "float32"),
    ("ring", 8, 1011, "float32"),
    ("ring", 5, 4, "float64"),
    ("ring", 3, 1000, "bfloat16"),
    ("star", 1, 1000, "float32"),
    _SECRET,
)


def _draw(ranks: int) -> list[Case]:
    cases = []
    for situation in _SITUATIONS:
        algorithm, ranks, elements, dtype = situation
        arguments = (algorithm, ranks, elements, ELEMENT_BYTES[dtype])
        title = f"{algorithm}, {ranks} rank{'s' * (ranks > 1)}, {elements:,} elements of {dtype}"
        cases.append(Case.alone(title, arguments, max(_of_ranks(*arguments)), situation == _SECRET))
    return cases


def _of_ranks(algorithm: str, ranks: int, elements: int, width: int) -> list[int]:
    """What each rank sends.  Over all ranks that is also what each receives, so one direction is enough."""
    return [sent(algorithm, rank, ranks, elements, width) for rank in range(ranks)]


# --- What mistakes look like ---


def _both_directions(algorithm: str, ranks: int, *size: int) -> int:
    return max(
        sent(algorithm, rank, ranks, *size) + received(algorithm, rank, ranks, *size) for rank in range(ranks)
    )


def _never_alone(algorithm: str, ranks: int, *size: int) -> int:
    """The formulas of two ranks, for one."""
    alone = algorithm != "ring" and ranks == 1
    return max(_of_ranks(algorithm, 2 if alone else ranks, *size))


BUSIEST_DIRECTION = Part(
    "busiest_direction(algorithm, ranks, elements, element_bytes)",
    _draw,
    mistakes.in_bytes(
        *as_if("One rank alone sends nothing.", _never_alone),
        *as_if(
            "Both directions of the link are added up. They work at the same time, so neither is busier for "
            "what the other one carries: count one.",
            _both_directions,
        ),
        *as_if(
            "Only rank 0 is looked at. In the ring it leaves out the longest chunks, and sends the least.",
            lambda *a: _of_ranks(*a)[0],
        ),
        *as_if(
            "Only the last rank is looked at: which of them sends most?", lambda *a: _of_ranks(*a)[-1]
        ),
        *as_if("This is the link that has least to carry.", lambda *a: min(_of_ranks(*a))),
        *as_if(
            "This is what all links carry together: one is asked for.", lambda *a: sum(_of_ranks(*a))
        ),
        *as_if(
            "This is the average over the ranks: all wait for the busiest link, and an average hides it.",
            lambda *a: sum(_of_ranks(*a)) / a[1],
            lambda *a: sum(_of_ranks(*a)) // a[1],
        ),
        *as_if(
            "This is the number of elements, and bytes are asked for: how many has one element?",
            lambda *a: max(_of_ranks(*a)) // a[-1],
        ),
        *as_if("This is in bits, and bytes are asked for.", lambda *a: 8 * max(_of_ranks(*a))),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
