"""Exercise 00: exchange with both neighbors, without deadlock.

    from course_lib.checks import exercise_00 as check
    check.exchange(exchange)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib.checks import draws, mistakes
from course_lib.checks.checking import check as _check
from course_lib.checks.part import Case, Compared, Part
from course_lib.checks.values import Tensor, counting_up

# dtype, shape and layout of the messages.  Few elements: gloo's send waits for its receiver at any size.
_MESSAGES = (
    ("float32", (7,), "contiguous"),
    ("int64", (3, 5), "transposed"),
    ("float64", (), "contiguous"),
    ("int32", (1, 0, 2), "contiguous"),
    ("float32", (4, 3), "strided"),
)


def neighbors(function: Callable) -> float:
    """Check ``neighbors(rank, ranks) -> (left, right)``."""
    return _check(NEIGHBORS, function)


def pass_right(function: Callable) -> float:
    """Check ``pass_right(tensor) -> the left neighbor's tensor``."""
    return _check(PASS_RIGHT, function)


def exchange(function: Callable) -> float:
    """Check ``exchange(to_left, to_right) -> (from_left, from_right)``."""
    return _check(EXCHANGE, function)


def ready_for_nccl(function: Callable) -> float:
    """Check that the messages of ``exchange`` get through under NCCL's rules, too."""
    return _check(READY_FOR_NCCL, function)


def _draw_neighbors(ranks: int) -> list[Case]:
    return [
        Case(
            f"rank and ranks = r and {world}",
            tuple((rank, world) for rank in asked),
            tuple(((rank - 1) % world, (rank + 1) % world) for rank in asked),
        )
        # Only as many ranks run, but the ends of a larger ring can be asked for as well.
        for world, asked in ((ranks, range(ranks)), (1024, [*range(1024 - ranks + 1, 1024), 0]))
    ]


def _draw_pass_right(ranks: int) -> list[Case]:
    cases = []
    for number, message in enumerate(_MESSAGES):
        (sent,) = _messages(message, number, ranks)
        arguments = tuple((tensor,) for tensor in sent)
        expected = tuple(sent[rank - 1] for rank in range(ranks))
        cases.append(Case(_title(message), arguments, expected, _late(number, ranks)))
    return cases


def _draw_exchange(ranks: int) -> list[Case]:
    cases = []
    for number, message in enumerate(_MESSAGES):
        to_left, to_right = _messages(message, number, ranks, sides=2)
        arguments = tuple(zip(to_left, to_right, strict=True))
        expected = tuple((to_right[rank - 1], to_left[(rank + 1) % ranks]) for rank in range(ranks))
        cases.append(Case(_title(message), arguments, expected, _late(number, ranks)))
    return cases


def _messages(
    message: tuple[str, tuple[int, ...], str], case: int, ranks: int, sides: int = 1
) -> list[list[Tensor]]:
    """For each side one tensor per rank: the same at every check, and no two hold the same number.

    The first numbers are drawn, since a formula of the rank would give a neighbor's without any message.
    """
    dtype, shape, layout = message
    first = iter(draws.random(f"{ranks} {case}").sample(range(100, 100_000, 100), sides * ranks))
    return [[counting_up(dtype, shape, next(first), layout) for _ in range(ranks)] for _ in range(sides)]


def _title(message: tuple[str, tuple[int, ...], str]) -> str:
    dtype, shape, layout = message
    size = f"shape {'×'.join(map(str, shape))}" if shape else "a scalar"
    return f"{dtype}, {size}" + ("" if layout == "contiguous" else f", {layout} in memory")


def _late(case: int, ranks: int) -> int | None:
    """In the first and the last case one rank comes late; which one differs."""
    return {0: ranks - 1, len(_MESSAGES) - 1: ranks // 2}.get(case)


# --- What mistakes look like ---


def _swapped_numbers(wrong: Compared) -> str | None:
    """(right, left) in place of (left, right)."""
    if all(wrong.played[rank].value == wrong.case.expected[rank][::-1] for rank in wrong.wrong_ranks):
        return "Left and right are swapped: rank r - 1 sits to the left of rank r."
    return None


def _numbers_off_the_ends(wrong: Compared) -> str | None:
    world = wrong.case.arguments[0][1]
    for rank in wrong.wrong_ranks:
        value = wrong.played[rank].value
        if isinstance(value, tuple) and any(isinstance(n, int) and not 0 <= n < world for n in value):
            return "There is no such rank: they go from 0 to N - 1, and the ring closes between the two ends."
    return None


def _no_whole_numbers(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        if wrong.played[rank].value == wrong.case.expected[rank]:  # so only the type is wrong
            return "These are the right numbers in another type: a rank is a whole number, an `int`."
    return None


def _wrong_ring(wrong: Compared) -> str | None:
    world = wrong.case.arguments[0][1]
    asked = {rank for rank, _ in wrong.case.arguments}
    own = {wrong.case.arguments[rank][0] for rank in wrong.wrong_ranks}
    ends = {0, world - 1}
    if world > 2 and own <= ends and asked - ends:  # where only ends are asked, they can't be told apart
        return "Only the ring's ends are wrong: rank 0 and rank N - 1 are neighbors of each other."
    return None


def _wrong_in_large_rings(wrong: Compared) -> str | None:
    """Seen where the case before, the ring of the ranks that run, is right."""
    world = wrong.case.arguments[0][1]
    if world > wrong.ranks:
        return f"The small ring is right, and the ring of {world} ranks is not: `ranks` can be any number."
    return None


def _passed_left(wrong: Compared) -> str | None:
    if wrong.ranks > 2 and _comes_from(wrong, lambda rank: rank + 1):
        return "Left and right are swapped: what came back belongs to the right neighbor."
    return None


def _own_data(wrong: Compared) -> str | None:
    if wrong.ranks > 1 and _comes_from(wrong, lambda rank: rank):
        return "Every rank has got its own numbers back: nothing has come from a neighbor."
    return None


def _computed(wrong: Compared) -> str | None:
    held = [tensor for given in wrong.case.arguments for tensor in given]
    for rank in wrong.wrong_ranks:
        value = wrong.played[rank].value
        returned = value if isinstance(value, tuple) else (value,)
        if wrong.ranks > 1 and not wrong.played[rank].messages and not any(one in held for one in returned):
            return "No rank holds these numbers, and no message was sent: a neighbor's tensor has to be sent."
    return None


def _ends_do_not_meet(wrong: Compared) -> str | None:
    if wrong.ranks > 2 and set(wrong.wrong_ranks) <= {0, wrong.ranks - 1}:
        return "Only the ring's ends are wrong: rank 0 and rank N - 1 are neighbors of each other."
    return None


def _comes_from(wrong: Compared, source: Callable[[int], int]) -> bool:
    """Whether every wrong rank returned the only argument of rank ``source(rank)``."""
    arguments = wrong.case.arguments
    return all(
        wrong.played[rank].value == arguments[source(rank) % wrong.ranks][0] for rank in wrong.wrong_ranks
    )


def _crossed_messages(wrong: Compared) -> str | None:
    """The right neighbors, but the message that was meant for the other side."""
    expected = [_of_neighbors(wrong, rank, left=0, right=1) for rank in wrong.wrong_ranks]
    if [wrong.played[rank].value for rank in wrong.wrong_ranks] != expected:
        return None
    if wrong.ranks == 2:
        return (
            "With two ranks both messages come from the same rank, and nothing but their order tells which "
            "is which: compare the order in which they are sent with the order in which they are received."
        )
    return "`to_left` has gone to the right neighbor, and `to_right` to the left one."


def _swapped_results(wrong: Compared) -> str | None:
    """The right messages, returned in the wrong order."""
    expected = [wrong.case.expected[rank][::-1] for rank in wrong.wrong_ranks]
    if [wrong.played[rank].value for rank in wrong.wrong_ranks] != expected:
        return None
    return "Left and right are swapped in what is returned: what came from the left is expected first."


def _passed_on_both_sides(wrong: Compared) -> str | None:
    """All from the side where it should have gone."""
    own = [tuple(wrong.case.arguments[rank]) for rank in wrong.wrong_ranks]
    got = [wrong.played[rank].value for rank in wrong.wrong_ranks]
    if wrong.ranks > 1 and (got == own or got == [pair[::-1] for pair in own]):
        return "Every rank has got its own numbers back: nothing has come from a neighbor."
    return None


def _one_side_twice(wrong: Compared) -> str | None:
    pairs = [wrong.played[rank].value for rank in wrong.wrong_ranks]
    if all(isinstance(pair, tuple) and len(pair) == 2 and pair[0] == pair[1] for pair in pairs):
        return "The same message is returned for both sides."
    return None


def _of_neighbors(wrong: Compared, rank: int, left: int, right: int) -> tuple:
    """Argument number ``left`` of the left neighbor, and number ``right`` of the right one."""
    arguments = wrong.case.arguments
    return arguments[rank - 1][left], arguments[(rank + 1) % wrong.ranks][right]


_TENSOR_MISTAKES: Sequence = (
    mistakes.nothing_returned,
    mistakes.argument_altered,
    mistakes.not_waited_for,
    mistakes.argument_returned,
)

NEIGHBORS = Part(
    "neighbors(rank, ranks)",
    _draw_neighbors,
    (
        mistakes.nothing_returned,
        mistakes.not_a_pair,
        _no_whole_numbers,
        mistakes.not_a_number,
        _numbers_off_the_ends,
        _swapped_numbers,
        _wrong_ring,
        _wrong_in_large_rings,
    ),
    mistakes.in_error,
)
PASS_RIGHT = Part(
    "pass_right(tensor)",
    _draw_pass_right,
    (
        *_TENSOR_MISTAKES,
        _passed_left,
        _own_data,
        mistakes.form_changed,
        mistakes.numbers_reordered,
        _computed,
        _ends_do_not_meet,
    ),
    mistakes.in_error,
    mistakes.send_not_waited_for,
)
EXCHANGE = Part(
    "exchange(to_left, to_right)",
    _draw_exchange,
    (
        *_TENSOR_MISTAKES,
        mistakes.not_a_pair,
        _crossed_messages,
        _swapped_results,
        _passed_on_both_sides,
        _one_side_twice,
        mistakes.form_changed,
        mistakes.numbers_reordered,
        _computed,
        _ends_do_not_meet,
    ),
    mistakes.in_error,
    mistakes.send_not_waited_for,
)
READY_FOR_NCCL = Part(
    "exchange(to_left, to_right), with NCCL's rules",
    lambda ranks: _draw_exchange(ranks)[:1],
    EXCHANGE.recognizers,
    mistakes.in_error,
    mistakes.first_fault(mistakes.not_on_nccl, mistakes.send_not_waited_for),
    world_sizes=(2, 3, 4, 5),
)
