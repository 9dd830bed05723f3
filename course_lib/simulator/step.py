"""One training step event by event, computed and not run: what of the communication hides, and what does not.

    layers = [Layer("embedding", (4_000_000,), 0.01, 0.02), Layer("mlp", (8_000_000,), 0.03, 0.06)]
    step = simulate_step(layers, lambda bytes: 0.001 + bytes / 50e6, bucket_mb=4)
    step.seconds, step.exposed_seconds

Each micro-batch goes forward through the layers and backward through them in reverse.  In the last backward
pass a parameter's gradient is ready when its layer's backward ends, and a bucket when all of its gradients
are; earlier passes only accumulate.  There is one channel: buckets are reduced one after another in their
order, each as soon as it is ready and the one before is done.  The optimizer waits for the last one.

Left out: that communication may slow compute down, by taking cores or memory bandwidth from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from course_lib import buckets
from course_lib.arguments import exact_int, number, true_or_false, whole_number
from course_lib.timeline import Span

Assignment = Iterable[Iterable[int]]  # buckets of indices into the parameters of all layers


@dataclass(frozen=True)
class Layer:
    """Some of a module's work: bytes of each parameter's gradient, and seconds for one micro-batch.

    A weight that several layers use belongs to the first of them alone, as ``module.parameters()`` has it,
    too: backward reaches that layer last, and only then is the weight's gradient complete.  Raises ValueError
    for numbers that can't be.
    """

    name: str
    parameter_bytes: tuple[int, ...]
    forward_seconds: float
    backward_seconds: float

    def __post_init__(self) -> None:
        sizes = self.parameter_bytes
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            raise ValueError(f"parameter_bytes={sizes!r}: expected a number for each parameter, such as (4,)")
        exact = tuple(whole_number("parameter_bytes", size, least=0) for size in sizes)
        object.__setattr__(self, "parameter_bytes", exact)  # what came from a generator can't be read twice
        number("forward_seconds", self.forward_seconds, least=0)
        number("backward_seconds", self.backward_seconds, least=0)


class Bucket(NamedTuple):
    """One reduction, from ``start`` to ``end``; its gradients were ``ready`` before.  Times in seconds.

    ``parameters``: indices into the parameters of all layers.
    """

    parameters: tuple[int, ...]
    bytes: int
    ready: float
    start: float
    end: float


class Event(NamedTuple):
    """One layer's forward or backward, in seconds."""

    label: str
    start: float
    end: float


@dataclass(frozen=True)
class Step:
    """A step that begins at 0 s: ``compute`` in the order of time, ``buckets`` as they are reduced.

    All times are in seconds.
    """

    compute: tuple[Event, ...]
    buckets: tuple[Bucket, ...]
    optimizer_seconds: float

    @property
    def backward_end(self) -> float:
        return self.compute[-1].end

    @property
    def communication_end(self) -> float:
        """When the optimizer begins."""
        return max([self.backward_end, *(bucket.end for bucket in self.buckets)])

    @property
    def seconds(self) -> float:
        return self.communication_end + self.optimizer_seconds

    @property
    def exposed_seconds(self) -> float:
        """Of communication that no compute goes on beside.  Nothing else can come after backward's end."""
        return self.communication_end - self.backward_end

    @property
    def hidden_seconds(self) -> float:
        """Of communication that compute goes on beside."""
        return sum(max(0.0, min(each.end, self.backward_end) - each.start) for each in self.buckets)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The step as ``timeline.figure`` draws it."""
        done = self.communication_end
        wait = [_span("idle", "wait", self.backward_end, done)] if done > self.backward_end else []
        reductions = (_span("communication", f"bucket {index}", bucket.start, bucket.end)
                      for index, bucket in enumerate(self.buckets))  # fmt: skip
        optimizer = _span("optimizer state", "optimizer", done, self.seconds)
        return (*(_span("compute", *event) for event in self.compute), *wait, optimizer, *reductions)


def simulate_step(
    layers: Iterable[Layer],
    reduce_seconds: Callable[[int], float],
    *,
    bucket_mb: float = 25.0,
    first_bucket_mb: float = 1.0,
    overlap: bool = True,
    micro_batches: int = 1,
    optimizer_seconds: float = 0.0,
    assignment: Assignment | None = None,
) -> Step:
    """A step of ``layers``, which are in the order of the forward pass.

    ``reduce_seconds``: bytes of a bucket to the seconds of its all-reduce.  ``overlap=False``: no bucket
    starts before backward's end.  ``assignment``: the buckets in their order, where they are not those of
    ``buckets.assign`` for ``bucket_mb`` and ``first_bucket_mb``.

    Raises ValueError for no layers, for numbers that can't be, for what is no function, and for an assignment
    that has an empty bucket, or does not hold each parameter once.
    """
    layers = tuple(layers)
    if not layers:
        raise ValueError("layers=[]: expected at least one layer")
    if not callable(reduce_seconds):
        raise ValueError(f"reduce_seconds={reduce_seconds!r}: expected a function from bytes to seconds")
    sizes = [size for layer in layers for size in layer.parameter_bytes]
    if assignment is None:
        assignment = buckets.assign(sizes, *buckets.limits(bucket_mb, first_bucket_mb))
    else:
        assignment = _checked(assignment, len(sizes))
    compute = tuple(_passes(layers, whole_number("micro_batches", micro_batches)))
    ready = _ready(layers, compute)
    earliest = 0.0 if true_or_false("overlap", overlap) else compute[-1].end
    reductions = tuple(_reductions(assignment, sizes, ready, earliest, reduce_seconds))
    return Step(compute, reductions, number("optimizer_seconds", optimizer_seconds, least=0))


def _checked(assignment: Assignment, count: int) -> Assignment:
    """Lists of indices, each of which occurs once."""
    try:
        taken = [[exact_int(index) for index in bucket] for bucket in assignment]
    except TypeError:
        raise ValueError(f"assignment={assignment!r}: expected a list of indices for each bucket") from None
    indices = [[index for index in bucket if index is not None] for bucket in taken]
    if sorted(itertools.chain(*indices)) != list(range(count)) or indices != taken or [] in indices:
        raise ValueError(f"assignment={taken!r}: expected each of 0 to {count - 1} once, and no empty bucket")
    return indices


def _passes(layers: Sequence[Layer], micro_batches: int) -> Iterator[Event]:
    clock = 0.0
    for _ in range(micro_batches):
        for layer in layers:
            yield Event(f"forward {layer.name}", clock, clock := clock + layer.forward_seconds)
        for layer in reversed(layers):
            yield Event(f"backward {layer.name}", clock, clock := clock + layer.backward_seconds)


def _ready(layers: Sequence[Layer], compute: Sequence[Event]) -> list[float]:
    """When each parameter's gradient is complete: at its layer's end in the last backward pass."""
    last_pass = reversed(compute[-len(layers) :])
    return [event.end for layer, event in zip(layers, last_pass, strict=True) for _ in layer.parameter_bytes]


def _reductions(
    assignment: Assignment,
    sizes: Sequence[int],
    ready: Sequence[float],
    earliest: float,
    reduce_seconds: Callable[[int], float],
) -> Iterator[Bucket]:
    free = earliest  # when the channel is
    for parameters in assignment:
        size, complete = sum(sizes[index] for index in parameters), max(ready[index] for index in parameters)
        start = max(complete, free)
        free = start + number("reduce_seconds", reduce_seconds(size), least=0)
        yield Bucket(tuple(parameters), size, complete, start, free)


def _span(kind: str, label: str, start: float, end: float) -> Span:
    return Span(0, kind, label, start, end, "communication" if kind == "communication" else "compute")
