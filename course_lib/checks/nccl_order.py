"""Would these messages get through on NCCL?  Answered from the order in which the ranks post them.

gloo matches messages by peer and tag, and carries any number at once.  NCCL differs in two ways that decide
whether a program runs on GPUs:

* it has no tags: from one rank to another, the first message sent is the first received;
* it takes one after another: between two ranks, a message must be finished before the next one begins,
  except that all messages of one ``batch_isend_irecv`` are started together.

A rank that waits for a message posts its next one only afterwards.  This follows the messages of all ranks
under these rules; torch's ProcessGroupNCCL documents them in the warnings about "unbatched P2P ops".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.checks.messages import Message


@dataclass(frozen=True)
class Verdict:
    """``stuck`` holds the ranks that would wait until a time limit; ``relies_on_tags`` says whether a message
    would be received in the place of another one."""

    stuck: tuple[int, ...]
    relies_on_tags: bool


@dataclass(frozen=True)
class _Entry:
    """One message in the queues: ``lane`` is what it must wait its turn in."""

    rank: int
    index: int  # among its rank's messages
    lane: tuple
    needs: frozenset[int]  # messages of its rank that must be finished before it is posted
    message: Message


def follow(messages: Sequence[Sequence[Message]]) -> Verdict:
    """Follow all ranks' messages; ``messages[r]`` are rank r's messages, in order."""
    open_ = [entry for rank, posted in enumerate(messages) for entry in _entries(rank, posted)]
    finished: set[tuple[int, int]] = set()
    relies_on_tags = False
    while pairs := _that_can_go(open_, finished):
        for pair in pairs:
            relies_on_tags |= len({entry.message.tag for entry in pair}) > 1
            finished.update((entry.rank, entry.index) for entry in pair)
        open_ = [entry for entry in open_ if (entry.rank, entry.index) not in finished]
    return Verdict(tuple(sorted({entry.rank for entry in open_})), relies_on_tags)


def _entries(rank: int, posted: Sequence[Message]) -> list[_Entry]:
    return [
        _Entry(
            rank,
            index,
            # A batch uses the communicator of all ranks, single messages one for each pair of ranks.
            ("batch",) if message.batch is not None else ("pair", frozenset((rank, message.peer))),
            frozenset(
                earlier for earlier in range(index)
                if (waited := posted[earlier].waited) is not None and waited <= index
            ),
            message,
        )
        for index, message in enumerate(posted)
    ]  # fmt: skip


def _that_can_go(open_: list[_Entry], finished: set[tuple[int, int]]) -> list[tuple[_Entry, _Entry]]:
    """Sends with the receives that they reach now, each message at most once."""
    waiting = [entry for entry in open_ if _is_started(entry, open_, finished)]
    receives = [entry for entry in waiting if entry.message.kind == "recv"]
    pairs = []
    for send in (entry for entry in waiting if entry.message.kind == "send"):
        fitting = (
            receive for receive in receives
            if (send.rank, send.message.peer, send.lane) == (receive.message.peer, receive.rank, receive.lane)
        )  # fmt: skip
        receive = next(fitting, None)
        if receive is not None:
            receives.remove(receive)
            pairs.append((send, receive))
    return pairs


def _is_started(entry: _Entry, open_: list[_Entry], finished: set[tuple[int, int]]) -> bool:
    """Posted, and everything before it in its lane finished, but for messages of the same batch."""
    if any((entry.rank, needed) not in finished for needed in entry.needs):
        return False
    return not any(
        other.rank == entry.rank and other.lane == entry.lane and other.index < entry.index
        and not (entry.message.batch is not None and other.message.batch == entry.message.batch)
        for other in open_
    )  # fmt: skip
