"""Counts the bytes that a rank sends and receives, as they are handed to torch.distributed.

Runs in the rank.  Methods of torch's process group are wrapped while a block runs; with real slow links, the
bytes of the rank's own network device are read beside them.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.ranks import network


@dataclass
class Traffic:
    """Bytes of messages (send, recv and their relatives) by the other rank.

    ``sent`` and ``received`` count each message's elements as it is posted; collectives such as
    ``dist.all_reduce`` are not messages and are not in them.  ``wire_sent`` and ``wire_received`` are what
    the network device of this rank's real link counted, whatever function sent it, with headers and
    acknowledgements, and without what still queues when the block ends (a barrier waits for that); None
    without real links.
    """

    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)
    wire_sent: int | None = None
    wire_received: int | None = None

    @property
    def total_sent(self) -> int:
        return sum(self.sent.values())

    @property
    def total_received(self) -> int:
        return sum(self.received.values())


@contextlib.contextmanager
def traffic() -> Iterator[Traffic]:
    """Count this rank's bytes while the block runs:

        with ranks.traffic() as traffic:
            all_reduce.ring(tensor)
        print(traffic.total_sent)
    """
    import torch.distributed as dist

    counted = Traffic()
    group = dist.ProcessGroup
    # As they are in the class: what getattr gives of a C++ method would no longer be one when put back.
    before = {name: vars(group)[name] for name in ("send", "recv", "recv_anysource")}
    wire = _wire()
    group.send = _counting(group.send, counted.sent)
    group.recv = _counting(group.recv, counted.received)
    group.recv_anysource = _refusing(group.recv_anysource)
    try:
        yield counted
    finally:
        for name, method in before.items():
            setattr(group, name, method)
        after = _wire()
        if wire is not None and after is not None:
            counted.wire_received, counted.wire_sent = after[0] - wire[0], after[1] - wire[1]


def _counting(method: Callable, counter: Counter[int]) -> Callable:
    import torch.distributed as dist

    @functools.wraps(method)
    def counted(group, tensors, peer, *args, **kwargs):
        work = method(group, tensors, peer, *args, **kwargs)
        counter[dist.get_global_rank(group, peer)] += sum(tensor.nbytes for tensor in tensors)
        return work

    return counted


def _refusing(method: Callable) -> Callable:
    @functools.wraps(method)
    def refused(*args, **kwargs):
        raise ValueError("ranks.traffic() can't tell from which rank a receive from any rank comes; name it")

    return refused


def _wire() -> tuple[int, int] | None:
    """Bytes that the rank's link received and sent so far; None where it has none of its own."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == network.DEVICE:
                fields = numbers.split()
                return int(fields[0]), int(fields[8])
    return None
