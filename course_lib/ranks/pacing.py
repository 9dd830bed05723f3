"""Slow links in software, where real ones can't be had: messages are held back for as long as links would.

The messages themselves travel at full speed.  What each would have done on links of the given rates is worked
out in memory that all ranks share, and ``wait`` returns no sooner than that:

* a message starts when it is posted on both sides and the sender's link is free;
* it takes bytes / rate on the sender's link and, where that is busy with others, on the receiver's;
* the sender has to be told that a receive is posted.  If a message to that same rank is under way by then,
  the word comes behind it, since both use one connection.  So with two ranks that post their sends before
  their receives, the messages take turns, on these links as on real ones.

Only messages are held back.  Collectives of more than 64 KiB are refused, rather than shown at a speed that
no link has.  Those that torch posts from C++ (DistributedDataParallel's own) are not seen, nor are futures.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy
import torch.distributed as dist

from course_lib.links import BURST, RankLink
from course_lib.ranks.operations import COLLECTIVES, tensors_among

if sys.platform == "win32":  # not yet run there
    import msvcrt
else:
    import fcntl

_LARGEST_COLLECTIVE = 64 << 10  # bytes: a barrier, a loss, a name
_LATEST = 1024  # messages of one stream whose times are kept
_LANES = 8  # groups and tags that are told apart


def install(path: Path, rank: int, links: list[RankLink]) -> None:
    """From now on hold back this process's messages.  ``path``: a file that all ranks of the run share."""
    pacer = _Pacer(_Board(path, links), rank)
    group = dist.ProcessGroup
    group.send = pacer.sending(group.send)
    group.recv = pacer.receiving(group.recv)
    group.recv_anysource = _refusing(group.recv_anysource, "A receive from any rank", 0)
    for method, name in COLLECTIVES.items():
        if hasattr(group, method):
            setattr(group, method, _refusing(getattr(group, method), f"dist.{name}", _LARGEST_COLLECTIVE))
    dist.Work.wait = pacer.waiting(dist.Work.wait)
    dist.Work.is_completed = pacer.completing(dist.Work.is_completed)


@dataclass(frozen=True)
class _Stream:
    """Messages that arrive in the order in which they were sent: of one group and tag, between two ranks."""

    lane: int  # stands for group and tag
    source: int
    target: int

    @property
    def place(self) -> tuple[int, int, int]:
        return self.lane, self.source, self.target

    @property
    def back(self) -> tuple[int, int, int]:
        """The place of the stream the other way."""
        return self.lane, self.target, self.source


def _stream(group: dist.ProcessGroup, tag: int, source: int, target: int) -> _Stream:
    return _Stream(zlib.crc32(f"{group.group_name} {tag}".encode()) % _LANES, source, target)


@dataclass(frozen=True)
class _Message:
    stream: _Stream
    number: int  # in its stream, from 0

    @property
    def place(self) -> tuple[int, int, int, int]:
        return *self.stream.place, self.number % _LATEST


class _Pacer:
    """Wraps this rank's messages."""

    def __init__(self, board: _Board, rank: int):
        self._board = board
        self._rank = rank
        self._messages: weakref.WeakKeyDictionary[dist.Work, _Message] = weakref.WeakKeyDictionary()

    def sending(self, send: Callable) -> Callable:
        @functools.wraps(send)
        def paced(group, tensors, peer, tag=0, *args, **kwargs):
            stream = _stream(group, tag, self._rank, dist.get_global_rank(group, peer))
            message = self._board.post_send(stream, sum(tensor.nbytes for tensor in tensors))
            with self._board.withdrawing(message, "sends"):
                work = send(group, tensors, peer, tag, *args, **kwargs)
            self._messages[work] = message
            return work

        return paced

    def receiving(self, receive: Callable) -> Callable:
        @functools.wraps(receive)
        def paced(group, tensors, peer, tag=0, *args, **kwargs):
            stream = _stream(group, tag, dist.get_global_rank(group, peer), self._rank)
            message = self._board.post_receive(stream)
            with self._board.withdrawing(message, "receives"):
                work = receive(group, tensors, peer, tag, *args, **kwargs)
            self._messages[work] = message
            return work

        return paced

    def waiting(self, wait: Callable) -> Callable:
        @functools.wraps(wait)
        def paced(work, *args, **kwargs):
            result = wait(work, *args, **kwargs)
            message = self._messages.get(work)
            if message is not None:
                time.sleep(max(0.0, self._end(message) - time.monotonic()))
            return result

        return paced

    def completing(self, is_completed: Callable) -> Callable:
        @functools.wraps(is_completed)
        def paced(work):
            message = self._messages.get(work)
            completed = is_completed(work)
            return completed and (message is None or time.monotonic() >= self._end(message))

        return paced

    def _end(self, message: _Message) -> float:
        """When its wait may return; it has been transferred, so it is posted on both sides."""
        return self._board.end(message, for_sender=message.stream.source == self._rank)


class _Board:
    """Times of all messages, in seconds of the monotonic clock, which all processes share.

    Arrays are indexed by stream.  A count is raised after the times that belong to it are written.
    """

    def __init__(self, path: Path, links: list[RankLink]):
        self._file = path.open("r+b")
        self._threads = threading.Lock()
        ranks = len(links)
        streams = (_LANES, ranks, ranks)
        kinds: list[tuple[str, str, tuple[int, ...]]]
        kinds = [(name, "f8", (*streams, _LATEST)) for name in ("bytes", "sent", "received", "end")]
        kinds += [(name, "i8", streams) for name in ("sends", "receives", "settled")]
        kinds += [(name, "f8", (ranks,)) for name in ("outgoing_free", "incoming_free")]
        kinds += [("behind", "i8", (*streams, _LATEST))]
        layout = numpy.dtype(kinds)
        with self._locked():
            if path.stat().st_size < layout.itemsize:
                self._file.truncate(layout.itemsize)
        self._at = numpy.memmap(path, layout, "r+", shape=())
        self._rates = [link.rate for link in links]
        self._latencies = [link.latency for link in links]

    def post_send(self, stream: _Stream, size: int) -> _Message:
        at, message = self._at, self._next(stream, "sends")
        at["bytes"][message.place], at["sent"][message.place] = size, time.monotonic()
        at["sends"][stream.place] += 1
        return message

    def post_receive(self, stream: _Stream) -> _Message:
        at, message = self._at, self._next(stream, "receives")
        back = at["sends"][stream.back]  # messages so far the other way
        is_under_way = back and at["receives"][stream.back] >= back
        at["behind"][message.place] = back - 1 if is_under_way else -1
        at["received"][message.place] = time.monotonic()
        at["receives"][stream.place] += 1
        return message

    @contextlib.contextmanager
    def withdrawing(self, message: _Message, count: str) -> Iterator[None]:
        """What torch refuses in this block was never posted."""
        try:
            yield
        except BaseException:
            self._at[count][message.stream.place] -= 1
            raise

    def end(self, message: _Message, for_sender: bool) -> float:
        if self._at["settled"][message.stream.place] <= message.number:
            with self._locked():
                self._settle_all()
        latency = self._latencies[message.stream.source] if for_sender else 0.0
        return self._at["end"][message.place] - latency

    def _next(self, stream: _Stream, count: str) -> _Message:
        number = int(self._at[count][stream.place])
        if number - self._at["settled"][stream.place] >= _LATEST:
            with self._locked():
                self._settle_all()
        if number - self._at["settled"][stream.place] >= _LATEST:
            raise RuntimeError(
                f"more than {_LATEST} messages from rank {stream.source} to rank {stream.target} are under "
                "way, and links paced in software keep track of no more"
            )
        return _Message(stream, number)

    def _settle_all(self) -> None:
        """Work out the ends of all messages that are posted on both sides, in the order of their starts."""
        at = self._at
        ready = []
        both = numpy.minimum(at["sends"], at["receives"])
        for place in numpy.argwhere(at["settled"] < both).tolist():
            stream = _Stream(*place)
            for number in range(at["settled"][stream.place], both[stream.place]):
                message = _Message(stream, number)
                ready.append((max(at["sent"][message.place], at["received"][message.place]), message))
        for _, message in sorted(ready, key=lambda item: item[0]):
            self._settle(message)

    def _settle(self, message: _Message) -> None:
        at, stream = self._at, message.stream
        source, target = stream.source, stream.target
        told = at["received"][message.place]
        if (behind := at["behind"][message.place]) >= 0:
            told = max(told, at["end"][(*stream.back, behind % _LATEST)])
        ready = max(at["sent"][message.place], told + self._latencies[target])
        size = at["bytes"][message.place]
        sent = _through_bucket(ready, at["outgoing_free"][source], size, self._rates[source])
        arrived = _through_bucket(ready, at["incoming_free"][target], size, self._rates[target])
        at["outgoing_free"][source], at["incoming_free"][target] = sent, arrived
        at["end"][message.place] = max(ready, sent, arrived) + self._latencies[source]
        at["settled"][stream.place] += 1

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else settles meanwhile; given back by the system if the process dies."""
        with self._threads:  # the file's lock is one process's, whichever of its threads asks
            _lock(self._file)
            try:
                yield
            finally:
                _unlock(self._file)


def _lock(file: IO) -> None:
    file.seek(0)
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_EX)


def _unlock(file: IO) -> None:
    file.seek(0)
    if sys.platform == "win32":
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_UN)


def _through_bucket(ready: float, free: float, size: float, rate: float) -> float:
    """When a link that is in use until ``free`` has passed a message on: a token bucket, as real links have.

    An idle link saves up for BURST bytes, which then pass at once.
    """
    return max(free, ready - BURST / rate) + size / rate


def _refusing(method: Callable, name: str, most: int) -> Callable:
    @functools.wraps(method)
    def refused(*args, **kwargs):
        size = sum(tensor.nbytes for tensor in tensors_among(args))
        if size > most:
            raise RuntimeError(
                f"{name} of {size:,} bytes can't be slowed down in software, and would show a speed that no "
                "slow link has; messages can, and real links slow down all"
            )
        return method(*args, **kwargs)

    return refused
