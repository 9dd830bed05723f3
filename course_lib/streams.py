"""CUDA streams by their rules, without a GPU: what waits for what, and where two operations race.

    program = [
        Launch("copy", "main", reads=("gradient",), writes=("bucket",)),
        Record("main", "ready"),
        Wait("comm", "ready"),
        Launch("all-reduce", "comm", reads=("bucket",), writes=("bucket",)),
    ]
    races(program)                                            # none; without the Wait, one on the bucket

The host puts commands into streams one after another and does not wait for them.  A stream works on its own
in their order, and nothing else is ordered: only an event that one stream records and another one waits for
lets an operation of the second begin after those of the first (CUDA C++ Programming Guide, "Streams").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.arguments import number

_Clock = dict[str, int]  # stream -> how many of its operations are over


@dataclass(frozen=True)
class Launch:
    """An operation that reads and writes named pieces of memory, and takes ``seconds``.

    Raises ValueError for a single name in the place of a tuple of them, and for seconds that can't be.
    """

    name: str
    stream: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    seconds: float = 1e-5

    def __post_init__(self) -> None:
        for what in ("reads", "writes"):
            names = getattr(self, what)
            if isinstance(names, str):  # would be taken letter by letter
                raise ValueError(f"{what}={names!r}: expected a tuple of names, such as ({names!r},)")
            object.__setattr__(self, what, tuple(names))
        number("seconds", self.seconds, least=0)


class Record(NamedTuple):
    """The event happens when the stream has come so far."""

    stream: str
    event: str


class Wait(NamedTuple):
    """The stream goes on when the event has happened.  One that was never recorded does not hold it up."""

    stream: str
    event: str


Command = Launch | Record | Wait


class Race(NamedTuple):
    """Nothing says which of two operations comes first, though one of them writes what both need."""

    first: Launch
    second: Launch
    memory: str


class Run(NamedTuple):
    """When an operation runs, in seconds."""

    operation: Launch
    start: float
    end: float


def races(program: Iterable[Command]) -> list[Race]:
    """Each two operations, in the order of their launches, that touch the same memory without being ordered.

    It does not depend on how long operations take: a race may well go right a thousand times.
    """
    launched = list(_known(program))
    return [
        Race(first, second, memory)
        for place, (second, known) in enumerate(launched)
        for first, own in launched[:place]
        if known.get(first.stream, 0) < own[first.stream]
        for memory in sorted(_conflicts(first, second))
    ]


def _conflicts(first: Launch, second: Launch) -> set[str]:
    """What both touch and at least one writes."""
    return (set(first.writes) & {*second.reads, *second.writes}) | (set(first.reads) & set(second.writes))


def _known(program: Iterable[Command]) -> Iterator[tuple[Launch, _Clock]]:
    """Each operation, and of each stream the number of operations that are over when this one is.

    These are vector clocks (Mattern, 1989), which tell whether one event must come before another.
    """
    clocks: dict[str, _Clock] = {}
    events: dict[str, _Clock] = {}
    for command in program:
        clock = clocks.setdefault(command.stream, {})
        if isinstance(command, Launch):
            clock[command.stream] = clock.get(command.stream, 0) + 1
            yield command, dict(clock)
        elif isinstance(command, Record):
            events[command.event] = dict(clock)
        else:
            for stream, count in events.get(command.event, {}).items():
                clock[stream] = max(clock.get(stream, 0), count)


def schedule(program: Iterable[Command], host_seconds: float) -> list[Run]:
    """When each operation runs if it can begin at once, and the host needs so long for each command."""
    host_seconds = number("host_seconds", host_seconds, least=0)
    free: dict[str, float] = {}
    events: dict[str, float] = {}
    runs = []
    for place, command in enumerate(program, start=1):
        now = max(free.get(command.stream, 0.0), place * host_seconds)
        if isinstance(command, Launch):
            runs.append(Run(command, now, now + command.seconds))
            free[command.stream] = now + command.seconds
        elif isinstance(command, Record):
            events[command.event] = now
        else:
            free[command.stream] = max(now, events.get(command.event, 0.0))
    return runs
