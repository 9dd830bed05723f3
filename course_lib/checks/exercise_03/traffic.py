"""What was sent, and to whom: a right sum is not enough, since the ring is there for its bytes."""

from __future__ import annotations

import math

from course_lib.checks import mistakes
from course_lib.checks.part import Accept, Compared, Fault, Recognizer
from course_lib.checks.values import ELEMENT_BYTES


def in_a_ring(halves: int) -> Accept:
    """For ``accept``: one or both halves of a ring, by messages between neighbors, and no byte too many."""
    return mistakes.first_fault(
        mistakes.collective_called,
        _through_one_rank,
        _past_the_neighbors,
        whole_tensors(halves),
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


def _too_much(halves: int) -> Accept:
    def find(found: Compared) -> Fault | None:
        most = _enough(found, halves)
        for rank in range(found.ranks):
            if sum(sent := _sent(found, rank)) > most:
                steps, chunk = halves * (found.ranks - 1), _chunk_bytes(found)
                if len(sent) > steps and max(sent) <= chunk:
                    seen = f"rank {rank} sends {len(sent)} chunks where {steps} would do"
                    return Fault(_TOO_MANY_STEPS[halves], seen)
                seen = f"rank {rank} sends {sum(sent)} bytes where {most} would do"
                return Fault(_TOO_LONG, seen)
        return None

    return find


_TOO_MANY_STEPS = {
    1: "More chunks are sent than needed: there are N-1 steps.",
    2: "More chunks are sent than needed: there are N-1 steps in each half.",
}
_TOO_LONG = (
    "Some ranks send more bytes than they need. One chunk in each step is enough, of N chunks as equal as "
    "possible, in the tensor's own dtype."
)


def _through_one_rank(found: Compared) -> str | None:
    """Seen from three ranks on."""
    peers = [{message.peer for message in played.messages} for played in found.played]
    for root in range(found.ranks):
        if found.ranks > 2 and all(peers[rank] == {root} for rank in range(found.ranks) if rank != root):
            return (
                f"All messages go through rank {root}: this is a star. In a ring each rank sends to one "
                "neighbor and receives from the other."
            )
    return None


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
    return math.ceil(math.prod(tensor.shape) / found.ranks) * ELEMENT_BYTES[tensor.dtype]


def _tensor_bytes(found: Compared) -> int:
    (tensor,) = found.case.arguments[0]
    return tensor.nbytes


def _sent(found: Compared, rank: int) -> list[int]:
    """The sizes of a rank's messages; a message of nothing counts for nothing."""
    messages = found.played[rank].messages
    return [message.bytes for message in messages if message.kind == "send" and message.bytes]
