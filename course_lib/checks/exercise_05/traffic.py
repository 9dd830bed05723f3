"""How often gradients were summed over ranks, and how much: for ``accept``, since the numbers are right."""

from __future__ import annotations

from course_lib.checks.exercise_05.problem import BIAS, INPUTS, WEIGHT
from course_lib.checks.part import Accept, Compared, Fault

_SCALAR = 8  # bytes
_TRAINED = 2  # parameters: weight and bias


def synchronized_once(scalars: int) -> Accept:
    """Finds fault with more than one sum of each gradient in a step, and this many scalars beside."""

    def accept(found: Compared) -> Fault | None:
        return next(filter(None, (_fault(found, rank, scalars) for rank in range(found.ranks))), None)

    return accept


def _fault(found: Compared, rank: int, scalars: int) -> Fault | None:
    played, (steps, micro_batches) = found.played[rank], found.case.arguments[rank][INPUTS].shape[:2]
    needed, spare = steps * _gradient_bytes(found), steps * scalars * _SCALAR
    calls, sent = len(played.collectives), sum(played.collective_bytes)
    seen = f"{sent:,} bytes, where the gradients of {steps} steps have {needed:,} (K = {micro_batches})"
    if played.messages:
        return Fault("Use the `all_reduce` that is given: its calls can be counted.", "messages are sent")
    if micro_batches > 1 and sent >= micro_batches * needed:
        return Fault(
            "Gradients go over the network after each micro-batch, K times as many bytes as are needed. "
            "`.grad` adds up where it is: it is enough to sum over the ranks when all micro-batches are in "
            "it.",
            f"on rank {rank} all-reduces of {seen}",
        )
    if calls > steps * (_TRAINED + scalars) and sent <= needed + calls * _SCALAR:
        return Fault(
            "A small number goes over the network after each micro-batch, and each time that costs a "
            "latency. Add up on the rank first; then one sum over the ranks is enough.",
            f"on rank {rank} {calls} all-reduces in {steps} steps (K = {micro_batches})",
        )
    if sent > needed + spare:
        return Fault(
            "More goes over the network than the gradients: each of them is needed there once in a step, "
            "in its own dtype.",
            f"on rank {rank} all-reduces of {seen}",
        )
    return None


def _gradient_bytes(found: Compared) -> int:
    return sum(found.case.arguments[0][place].nbytes for place in (WEIGHT, BIAS))
