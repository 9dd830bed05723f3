"""What is wrong with ranks that wait: told from their logbooks.

A waiting rank needs others to act.  Following who needs whom leads to the cause: a rank that returned, a rank
that still computes, or a circle of ranks that all wait.  Pure functions over what the logbooks hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from course_lib.ranks.frames import line_at
from course_lib.ranks.logbook import BROKEN, WITHDRAWN, Operation


@dataclass(frozen=True)
class RankView:
    """One rank as its logbook shows it: ``status`` as in RankState, and its operations, oldest first.

    ``waits_in`` is what its main thread waits in.  ``has_gpu``: it computes on one.
    """

    rank: int
    status: str
    operations: list[Operation]
    waits_in: Operation | None = None
    has_gpu: bool = False

    @property
    def broken_in(self) -> Operation | None:
        """The newest operation that an error ended, in its wait or when it was posted."""
        ended = (each for each in reversed(self.operations) if each.stage in (BROKEN, WITHDRAWN))
        return next(ended, None)

    @property
    def waiting_in(self) -> Operation:
        """``waits_in`` of a rank whose status is "waiting"."""
        assert self.waits_in is not None, f"rank {self.rank} is {self.status}"
        return self.waits_in

    def has_posted(self, operation: Operation) -> bool:
        """Whether this rank has posted the counterpart of another rank's operation."""
        return any(
            own.channel == operation.channel and own.number == operation.number
            for own in self.operations
            if own.stage != WITHDRAWN
        )


def explain(views: list[RankView]) -> str:
    """One or two sentences that say why these ranks do not go on; "" where the logbooks can't tell."""
    by_rank = {view.rank: view for view in views}
    needs = {view.rank: _needs(view, by_rank) for view in views if view.status == "waiting"}
    for find in (_mismatched, _gone, _other_tag, _circle, _computing):
        sentence = find(needs, by_rank)
        if sentence:
            return sentence
    if not needs and any(view.status == "running" and view.has_gpu for view in views):
        return (
            "No rank waits in a call to torch.distributed, but on GPUs wait() returns at once: NCCL may wait "
            "there, unseen, for other ranks. COURSE_DEVICE=cpu shows the line that waits. If the computation "
            "is meant to take so long, raise timeout=, or use ranks.progress or ranks.log."
        )
    if all(view.status == "running" for view in views):
        return (
            "No rank waits in a call to torch.distributed. If the computation is meant to take so long, "
            "raise timeout=, or use ranks.progress or ranks.log, which count as progress."
        )
    return ""


def _mismatched(needs: dict[int, list[int]], by_rank: dict[int, RankView]) -> str:
    """Two ranks wait in operations that belong together and differ."""
    for rank, other in combinations(needs, 2):
        one, two = by_rank[rank].waiting_in, by_rank[other].waiting_in
        if (one.channel, one.number) == (two.channel, two.number) and one.signature != two.signature:
            return mismatch({rank: one, other: two})
    return ""


def mismatch(operations: dict[int, Operation]) -> str:
    """What is wrong with two operations, by rank, that should fit together and do not.

    It reads the same whichever of the two ranks found it.
    """
    first, second = sorted(operations, key=lambda rank: (operations[rank].kind == "recv", rank))
    if operations[first].is_message:
        said = f"What rank {first} sends is not what rank {second} expects to receive."
    elif operations[first].kind != operations[second].kind:
        said = (
            "The ranks call collectives in a different order. "
            "Every rank must call the same ones in the same order."
        )
    else:
        said = f"The ranks call {operations[first].kind} with tensors or settings that do not fit together."
    calls = [
        f"  rank {rank}: {called.description}, {line_at(called.file, called.line)}"
        for rank, called in ((first, operations[first]), (second, operations[second]))
    ]
    return "\n".join([said, *calls])


def _needs(view: RankView, by_rank: dict[int, RankView]) -> list[int]:
    """The ranks that must act before this one can go on."""
    operation = view.waiting_in
    if operation.kind == "recv" and not operation.peers:
        return [rank for rank in by_rank if rank != view.rank]
    return [rank for rank in operation.peers if rank in by_rank and not by_rank[rank].has_posted(operation)]


def _gone(needs: dict[int, list[int]], by_rank: dict[int, RankView]) -> str:
    for rank, needed in needs.items():
        gone = [other for other in needed if by_rank[other].status == "returned"]
        if gone and (by_rank[rank].waiting_in.peers or gone == needed):
            return _about_gone(rank, gone, by_rank)
    return ""


def _about_gone(rank: int, gone: list[int], by_rank: dict[int, RankView]) -> str:
    operation = by_rank[rank].waiting_in
    if operation.kind == "send":
        return f"Rank {rank} sends to {names(gone)}, which has returned without receiving it."
    if operation.kind == "recv":
        have = "has" if len(gone) == 1 else "have"
        return f"Rank {rank} waits for a message of {names(gone)}, which {have} returned without sending it."
    waiting = [
        other
        for other, view in by_rank.items()
        if view.status == "waiting" and view.waiting_in.channel == operation.channel
    ]
    return (
        f"{names(gone, capital=True)} returned without calling {operation.kind}, in which {names(waiting)} "
        f"{'waits' if len(waiting) == 1 else 'wait'}. Every rank must call every collective."
    )


def _other_tag(needs: dict[int, list[int]], by_rank: dict[int, RankView]) -> str:
    for rank in needs:
        operation = by_rank[rank].waiting_in
        if operation.kind != "recv" or len(operation.peers) != 1 or "unmatched" in operation.channel:
            continue
        sender = by_rank[operation.peers[0]]
        if sender.status not in ("waiting", "returned"):
            continue  # it may still send the right one
        stem, _, tag = operation.channel.partition(" tag ")
        for sent in sender.operations:
            sent_stem, _, sent_tag = sent.channel.partition(" tag ")
            other_tag = sent.kind == "send" and sent.is_pending and sent_stem == stem and sent_tag != tag
            if other_tag and not by_rank[rank].has_posted(sent):
                return (
                    f"Rank {rank} waits for a message with tag {tag} from rank {sender.rank}, "
                    f"which sent one with tag {sent_tag}."
                )
    return ""


def _circle(needs: dict[int, list[int]], by_rank: dict[int, RankView]) -> str:
    circle = _find_circle(needs)
    if not circle:
        return ""
    kinds = {by_rank[rank].waiting_in.kind for rank in circle}
    if kinds == {"recv"} and any(by_rank[rank].waiting_in.number for rank in circle):
        return (
            f"{names(circle, capital=True)} wait to receive one more message from each other, and none is on "
            "its way: more is received than sent, or each receives before it sends."
        )
    if kinds == {"recv"}:
        return (
            f"{names(circle, capital=True)} wait to receive from each other, so none of them gets to its "
            "send. Post the receive first with irecv and wait for it after the send, or let one rank send "
            "first."
        )
    if kinds == {"send"}:
        return (
            f"{names(circle, capital=True)} wait until their message is received, so none of them gets to "
            "its receive. Post the receive first with irecv, or let one rank receive first."
        )
    steps = [f"rank {rank} in {by_rank[rank].waiting_in.kind} for rank {other}"
             for rank, other in zip(circle, [*circle[1:], circle[0]], strict=True)]  # fmt: skip
    return f"The ranks wait for each other in a circle: {', '.join(steps)}. They must meet in the same order."


def _find_circle(needs: dict[int, list[int]]) -> list[int]:
    """Ranks that each need the next, the last one the first, beginning with the lowest; [] without any."""
    for start in sorted(needs):
        path = _path_back(start, start, needs, visited=set())
        if path:
            lowest = path.index(min(path))
            return path[lowest:] + path[:lowest]
    return []


def _path_back(rank: int, start: int, needs: dict[int, list[int]], visited: set[int]) -> list[int]:
    for other in sorted(needs.get(rank, [])):
        if other == start:
            return [rank]
        if other not in visited:
            visited.add(other)
            path = _path_back(other, start, needs, visited)
            if path:
                return [rank, *path]
    return []


def _computing(needs: dict[int, list[int]], by_rank: dict[int, RankView]) -> str:
    busy = sorted(
        {other for needed in needs.values() for other in needed if by_rank[other].status == "running"}
    )
    if not busy:
        return ""
    waiting = names(sorted(needs))
    wait = "waits" if len(needs) == 1 else "wait"
    return f"{names(busy, capital=True)} did not get to what {waiting} {wait} for."


def names(ranks: list[int], capital: bool = False) -> str:
    """``rank 1``, ``ranks 0 and 2``, ``ranks 0, 1 and 2``."""
    *first, last = (str(rank) for rank in ranks)
    text = f"rank {last}" if not first else f"ranks {', '.join(first)} and {last}"
    return text.capitalize() if capital else text
