"""What was sent, and to whom: a right sum is not enough, since the ring is there for its bytes."""

from __future__ import annotations

import math

from course_lib.checks import mistakes
from course_lib.checks.part import Compared, Recognizer

_ELEMENT = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2}  # bytes


def in_a_ring(halves: int) -> Recognizer:
    """For ``accept``: one or both halves of a ring, by messages between neighbors, and no byte too many."""
    return mistakes.first_fault(
        mistakes.collective_called,
        _past_the_neighbors,
        whole_tensors(halves),
        _too_many_steps(halves),
        _too_much(halves),
        mistakes.touched_under_way,
        mistakes.send_not_waited_for,
    )


def whole_tensors(halves: int) -> Recognizer:
    """The ring without chunks."""
    enough = "(N-1)/N·S" if halves == 1 else "2(N-1)/N·S"

    def recognize(found: Compared) -> str | None:
        size, most = _tensor_bytes(found), _enough(found, halves)
        sent = [_sent(found, rank) for rank in range(found.ranks)]
        if size and all(sum(messages) > most and max(messages) >= size for messages in sent):
            return (
                f"Whole tensors go around: each rank sends (N-1)·S bytes or more, and {enough} is enough. "
                "In a step only one chunk is to be sent."
            )
        return None

    return recognize


def _too_many_steps(halves: int) -> Recognizer:
    def recognize(found: Compared) -> str | None:
        steps = halves * (found.ranks - 1)
        sent = [_sent(found, rank) for rank in range(found.ranks)]
        chunk = _chunk_bytes(found)
        if all(len(messages) > steps and chunk == min(messages) == max(messages) for messages in sent):
            each = "" if halves == 1 else " in each half"
            return (
                f"The result is right, but with {found.ranks} ranks each sends {len(sent[0])} chunks, and "
                f"{steps} are enough: there are N-1 steps{each}."
            )
        return None

    return recognize


def _too_much(halves: int) -> Recognizer:
    def recognize(found: Compared) -> str | None:
        most = _enough(found, halves)
        for rank in range(found.ranks):
            if (sent := sum(_sent(found, rank))) > most:
                return (
                    f"The result is right, but with {found.ranks} ranks, rank {rank} sends {sent} bytes of "
                    f"a tensor of {_tensor_bytes(found)}, and {most} are enough: cut it into N chunks, as "
                    "equal as possible, and send one in each step."
                )
        return None

    return recognize


def _past_the_neighbors(found: Compared) -> str | None:
    for rank, played in enumerate(found.played):
        peers = {message.peer for message in played.messages}
        if None in peers:
            return "A receive does not say from whom. NCCL has no such receive: name the rank."
        if peers - {(rank - 1) % found.ranks, (rank + 1) % found.ranks}:
            return (
                "Messages go to ranks that are no neighbors. In a ring each rank sends to one neighbor and "
                "receives from the other."
            )
    return None


def _enough(found: Compared, halves: int) -> int:
    """Bytes that a rank sends at most, also if all chunks are filled up to the size of the longest."""
    return halves * (found.ranks - 1) * _chunk_bytes(found)


def _chunk_bytes(found: Compared) -> int:
    """Of the longest chunk."""
    (tensor,) = found.case.arguments[0]
    return math.ceil(math.prod(tensor.shape) / found.ranks) * _ELEMENT[tensor.dtype]


def _tensor_bytes(found: Compared) -> int:
    (tensor,) = found.case.arguments[0]
    return math.prod(tensor.shape) * _ELEMENT[tensor.dtype]


def _sent(found: Compared, rank: int) -> list[int]:
    """The sizes of a rank's messages; a message of nothing counts for nothing."""
    messages = found.played[rank].messages
    return [message.bytes for message in messages if message.kind == "send" and message.bytes]
