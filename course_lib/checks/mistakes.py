"""Mistakes that turn up in many exercises, each recognized by what came back.

A recognizer gets a wrong case and returns one sentence, or None when it does not know the mistake.  The
sentence says what is wrong and where to look; it does not give the solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.checks import nccl_order
from course_lib.checks.messages import CHANGED, READ, SHARED
from course_lib.checks.part import Accept, Attempt, Compared, Recognizer
from course_lib.checks.playing import CALLS, is_endless, is_flood, is_hang
from course_lib.checks.values import Tensor
from course_lib.ranks.errors import states_of


def nothing_returned(wrong: Compared) -> str | None:
    if any(wrong.played[rank].value is None for rank in wrong.wrong_ranks):
        return "The function returns None: it needs a `return`."
    return None


def not_a_pair(wrong: Compared) -> str | None:
    values = [wrong.played[rank].value for rank in wrong.wrong_ranks]
    if any(not isinstance(value, tuple) or len(value) != 2 for value in values):
        return "Two values are expected: first the one of the left side, then the one of the right side."
    return None


def argument_altered(wrong: Compared) -> str | None:
    if any(wrong.played[rank].arguments != wrong.case.arguments[rank] for rank in wrong.wrong_ranks):
        return "The function alters the tensor that it is given: what arrives needs a place of its own."
    return None


def argument_moved(wrong: Compared) -> str | None:
    """For functions that work in place."""
    if any(wrong.played[rank].moved for rank in wrong.wrong_ranks):
        return (
            "The tensor lies in other memory than before (by `.data = …` or `set_`), and whoever has a view "
            "of it sees none of this: in place means into the memory that is there, as `copy_` does."
        )
    return None


def argument_returned(wrong: Compared) -> str | None:
    if any(wrong.played[rank].shares_memory == "an argument" for rank in wrong.wrong_ranks):
        return "What is returned is the argument itself, no copy: a change of one would change the other."
    return None


def not_waited_for(wrong: Compared) -> str | None:
    if _unwaited(wrong, "recv"):
        return "What is received is used before it has arrived: nobody waits for irecv's handle."
    return None


def send_not_waited_for(found: Compared) -> str | None:
    """For ``accept``: the result may be right all the same."""
    if _unwaited(found, "send"):
        return (
            "The function returns while a message may still be on its way out: nobody waits for isend's "
            "handle, and the caller may change the tensor."
        )
    return None


def touched_under_way(found: Compared) -> str | None:
    """For ``accept``, too: the result may be right by luck."""
    faults = {message.fault for played in found.played for message in played.messages}
    return next((sentence for fault, sentence in _TOUCHED.items() if fault in faults), None)


def not_on_nccl(found: Compared) -> str | None:
    """For ``accept``: follow the messages under NCCL's rules; more messages than needed are no fault here."""
    verdict = nccl_order.follow([played.messages for played in found.played])
    if verdict.stuck:
        return (
            "On NCCL these ranks would wait until a time limit ends them. There, of two messages between the "
            "same two ranks, the second one starts when the first is finished, unless both are posted in one "
            "call; follow what each rank posts first."
        )
    if verdict.relies_on_tags:
        return "This relies on `tag` to tell messages apart, and NCCL has no tags: only their order counts."
    return None


def ranks_apart(wrong: Compared) -> str | None:
    return LAST_BITS if wrong.is_right_but_apart else None


LAST_BITS = (
    "All results are right but for rounding, and the ranks' last bits differ: replicas would drift apart. "
    "Each number is to be made once, and then sent to the others."
)


def first_fault(*accepting: Accept) -> Accept:
    """For ``accept``: the first fault that one of them finds."""
    return lambda found: next((fault for accept in accepting if (fault := accept(found))), None)


_TOUCHED = {
    READ: "What is received is read before it has arrived: until `wait()` its memory is not yours.",
    CHANGED: "A tensor is changed while it is being sent: until `wait()` its memory is not yours.",
    SHARED: "One piece of memory is received into while another message still uses it.",
}


_MOVE_NOTHING = ("barrier", "monitored_barrier")


def collective_called(found: Compared) -> str | None:
    """For ``accept``: the result may well be right."""
    called = sorted({name for played in found.played for name in played.collectives} - set(_MOVE_NOTHING))
    if called:
        return (
            f"`dist.{called[0]}` does the work here: this part is to be done with messages between ranks, "
            "by `isend`, `irecv` or their relatives."
        )
    return None


def form_changed(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        for got, expected in _pairs(wrong.got(rank), wrong.expected(rank)):
            if not isinstance(got, Tensor):
                return "A tensor is expected."
            if (got.dtype, got.shape) != (expected.dtype, expected.shape):
                return "The shape or the dtype is not that of the tensor which was sent."
    return None


def numbers_reordered(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        for got, expected in _pairs(wrong.got(rank), wrong.expected(rank)):
            in_rows = expected.layout == "contiguous"  # then the memory is not what reordered them
            if not in_rows and got != expected and sorted(got.numbers) == sorted(expected.numbers):
                return (
                    "The right numbers have arrived in another order: a message is one block of memory, and "
                    "this tensor's rows do not lie one after the other there."
                )
    return None


@dataclass(frozen=True)
class AsIf:
    """Recognizes what comes out when ``formula`` of the arguments is computed, and not what was asked.

    A case in which both give the same numbers is wrong for another reason.  Other mistakes may give this
    number, too, so ``report`` weighs all cases.  ``case_by_case`` mistakes can be made in one case and not in
    the next one, such as a slip in a table; a right case then says nothing against them.
    """

    formula: Callable[..., Any]
    sentence: str
    case_by_case: bool = False

    def __call__(self, wrong: Compared) -> str | None:
        made = [self.formula(*wrong.case.arguments[rank]) for rank in wrong.wrong_ranks]
        expected = [wrong.case.expected[rank] for rank in wrong.wrong_ranks]
        got = [wrong.played[rank].value for rank in wrong.wrong_ranks]
        differs = not all(map(_same_numbers, made, expected))
        return self.sentence if differs and all(map(_same_numbers, got, made)) else None

    def would_be_wrong_in(self, right: Compared) -> bool:
        """Whether a right case is one that the formula would have got wrong."""
        made = [self.formula(*arguments) for arguments in right.case.arguments]
        return not self.case_by_case and not all(map(_same_numbers, made, right.case.expected))


def as_if(sentence: str, *formulas: Callable[..., Any]) -> list[AsIf]:
    """Several ways to the same mistake."""
    return [AsIf(formula, sentence) for formula in formulas]


_UNITS = {10**9: "GB", 2**30: "GiB", 10**6: "MB", 2**20: "MiB"}


def other_unit_than_bytes(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        expected = wrong.case.expected[rank]
        for unit, name in _UNITS.items():
            scaled = _scaled(expected, unit)
            if scaled != expected and _same_numbers(wrong.played[rank].value, scaled, tolerance=0.01):
                return f"This is in {name} (1 {name} = {unit:,} bytes), and bytes are asked for."
    return None


def not_a_number(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        for got, expected in _pairs(wrong.got(rank), wrong.expected(rank)):
            if type(expected) in (int, float) and (what := _instead_of_a_number(got)):
                return f"A number is expected, and this is {what}."
    return None


def _instead_of_a_number(got: object) -> str | None:
    if isinstance(got, Tensor):
        return "a tensor (`.item()` takes the number out of it)"
    if isinstance(got, tuple):
        return "several values"
    if isinstance(got, str):
        return "text"
    if type(got) is float and not math.isfinite(got):
        return f"{got}: something was divided by zero, or a float grew too large"
    return None if type(got) in (int, float) else str(got)


def no_whole_number(wrong: Compared) -> str | None:
    for rank in wrong.wrong_ranks:
        pairs = _pairs(wrong.got(rank), wrong.expected(rank))
        if any(type(got) is float and type(expected) is int for got, expected in pairs):
            return (
                "Bytes are whole numbers, and this is a float (`/` gives one), which loses the last digits "
                "of a large number: stay with whole numbers, `*` and `//`."
            )
    return None


def in_bytes(*mistaken: Recognizer) -> tuple[Recognizer, ...]:
    """Recognizers for results in bytes: a part's own between those that all such parts share."""
    return (nothing_returned, not_a_number, other_unit_than_bytes, *mistaken, no_whole_number)


def in_error(attempt: Attempt) -> str | None:
    """What a run that hung or failed looks like."""
    if is_endless(attempt):
        return "The function comes to no end: it needs one that each rank reaches."
    if is_flood(attempt):
        return "The function prints without end: a loop in it is never left."
    return _in_hang(attempt) if is_hang(attempt) else _in_failure(attempt)


def _in_hang(attempt: Attempt) -> str | None:
    doing = [state.doing for state in states_of(attempt.error)]
    if not doing:  # it was ended from outside
        return None
    if all(text.startswith("waits in send") for text in doing):
        return "Deadlock: every rank waits until its message is received, and nobody has come to receive."
    if all(text.startswith("waits in recv") for text in doing):
        return "Deadlock: every rank waits for a message, and nobody has sent one."
    if _waits_for(attempt, _returned_ranks(attempt)):
        return "Some ranks have returned, and others still wait for them: count the sends and the receives."
    if any(text.startswith("waits in") for text in doing):
        return "Deadlock: some ranks wait for each other in a circle. Follow what each of them does first."
    return None


_NO_BLOCK = "A message must be one block of memory, and this tensor's numbers do not lie in one piece."
_TO_ITSELF = "A rank can't send a message to itself. What does one rank alone need?"
_IN_FAILURES = {
    "to be contiguous": _NO_BLOCK,
    "should not be the same as the rank": _TO_ITSELF,
    "message from itself": _TO_ITSELF,
    "is not what rank": "A receiver must expect as many numbers, of the same dtype, as its sender sends.",
}


def _returned_ranks(attempt: Attempt) -> list[int]:
    """The ranks whose function had returned when the others hung."""
    states = states_of(attempt.error)
    return [state.rank for state in states if state.status == "running" and ":" not in state.line]


def _waits_for(attempt: Attempt, ranks: list[int]) -> bool:
    """Whether somebody waits for a message of one of these ranks."""
    doing = " ".join(f"{state.doing} " for state in states_of(attempt.error))
    return any(f"rank {rank} " in doing for rank in ranks)


def _in_failure(attempt: Attempt) -> str | None:
    text = str(attempt.error)
    is_called = any(line in text for line in CALLS)
    if "raised TypeError" in text and " positional argument" in text and is_called:
        return "The function does not take the arguments that it gets: keep the line with `def` as it was."
    return next((sentence for sign, sentence in _IN_FAILURES.items() if sign in text), None)


def _unwaited(found: Compared, kind: str) -> bool:
    messages = [message for played in found.played for message in played.messages]
    return any(message.kind == kind and message.waited is None for message in messages)


def _same_numbers(got: Any, expected: Any, tolerance: float = 1e-9) -> bool:
    """Whether two results agree, numbers within a relative tolerance."""
    if isinstance(expected, tuple):
        if not isinstance(got, tuple) or len(got) != len(expected):
            return False
        return all(_same_numbers(*pair, tolerance) for pair in zip(got, expected, strict=True))
    if type(got) in (int, float) and type(expected) in (int, float):
        return math.isclose(got, expected, rel_tol=tolerance)
    return type(got) is type(expected) and got == expected


def _scaled(value: Any, unit: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(item, unit) for item in value)
    return value / unit if type(value) is int else value


def _pairs(got: object, expected: object) -> list[tuple]:
    """The items of a result beside those expected, one or several."""
    if isinstance(expected, tuple):
        return list(zip(got, expected, strict=False)) if isinstance(got, tuple) else []
    return [(got, expected)]
