"""What learners' functions are given, where a case's plain data has another form: cases hold tuples only.

Some functions get lists, since their exercise says so, and those of exercises 07 and 08 objects whose parts
have names.  A check makes them in the rank that calls the function, ``exercise_07.case`` for a learner who
tries it.  Each case has a process of its own, which imports little for this: so it stands beside the
exercises, not in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from course_lib.arguments import one_of, whole_number

if TYPE_CHECKING:
    from course_lib.checks.part import Part
    from course_lib.timeline import Span

# --- of exercise 07 ---


class Model(NamedTuple):
    """What is known of a model on one rank, the same on all of them.

    ``gradient_bytes``: of each parameter, in the order of ``module.parameters()``.  ``ready``: when each
    gradient is complete, in seconds since its forward pass began; the last one at ``pass_seconds``, when the
    forward and the backward pass of one micro-batch are over.
    """

    gradient_bytes: tuple[int, ...]
    ready: tuple[float, ...]
    pass_seconds: float


class Network(NamedTuple):
    """Links between so many ranks, as data sheets have them: µs for each message, Gbit/s each way."""

    ranks: int
    microseconds: float
    gigabits: float


class Run(NamedTuple):
    """A training run.

    ``tokens_per_second``: of all devices together.  ``hidden``: the width of the model.  ``head_size``: of
    each of the ``heads``.  ``dtype``: of the matrices that are multiplied.  ``recomputed``: the share of the
    forward pass that is computed a second time, 0 to 1.
    """

    tokens_per_second: float
    devices: int
    parameters: float
    layers: int
    hidden: int
    heads: int
    head_size: int
    sequence: int
    dtype: str
    recomputed: float


# --- of exercise 08 ---


class Work(NamedTuple):
    """What a usual rank does in a step; all times in seconds.

    ``pass_seconds``: forward and backward pass of one micro-batch.  ``ready``: when each bucket is complete,
    in their order, since the last pass began.  ``bucket_bytes``: of each bucket.
    """

    pass_seconds: float
    micro_batches: int
    ready: tuple[float, ...]
    bucket_bytes: tuple[int, ...]
    optimizer_seconds: float


class Cluster(NamedTuple):
    """Ranks in a ring: seconds of a message's latency, bytes/s from each rank to its right neighbor.

    ``factors``: how many times as long as usual each rank takes for all that it computes.
    """

    ranks: int
    latency: float
    bandwidths: tuple[float, ...]
    factors: tuple[float, ...]


class Configuration(NamedTuple):
    """A way to divide a training: N, K, b (sequences), the stage of ZeRO (0: none), and what a step takes.

    ``recompute``: whether layers are computed a second time in the backward pass.
    """

    name: str
    ranks: int
    micro_batches: int
    batch: int
    zero_stage: int
    recompute: bool
    seconds: float


class Trained(NamedTuple):
    """A model that is to be trained.

    ``activation_bytes`` and ``recomputed_bytes``: of one sequence in memory, without and with recomputation.
    ``flops_per_token``: what the model needs, forward and backward.
    """

    parameters: int
    sequence: int
    activation_bytes: int
    recomputed_bytes: int
    flops_per_token: float


class Card(NamedTuple):
    """A GPU: MiB of memory as its driver shows them, TFLOP/s of its data sheet, dense and sparse."""

    mebibytes: int
    teraflops: float
    sparse_teraflops: float


# --- how they are made ---

Maker = Callable[[Any], Any]


def as_it_is(argument: Any) -> Any:
    return argument


def lists(argument: Sequence[Sequence]) -> list[list]:
    return [list(each) for each in argument]


def spans(rows: Sequence[tuple]) -> list[Span]:
    from course_lib.timeline import Span

    return [Span(*row) for row in rows]


def model(data: tuple) -> Model:
    return Model(*data)


def network(data: tuple) -> Network:
    return Network(*data)


def run(data: tuple) -> Run:
    return Run(*data)


def work(data: tuple) -> Work:
    return Work(*data)


def cluster(data: tuple) -> Cluster:
    return Cluster(*data)


def configurations(rows: Sequence[tuple]) -> list[Configuration]:
    return [Configuration(*row) for row in rows]


def trained(data: tuple) -> Trained:
    return Trained(*data)


def card(data: tuple) -> Card:
    return Card(*data)


def made(makers: Sequence[Maker], arguments: tuple) -> tuple:
    """The arguments of a learner's function from those of a case."""
    return tuple(make(argument) for make, argument in zip(makers, arguments, strict=True))


def with_names(makers: Sequence[Maker], function: Any) -> Any:
    """A function that gets plain data, and calls a learner's function; what is no function stays it."""
    return partial(call, makers, function) if callable(function) else function


def call(makers: Sequence[Maker], function: Callable, *arguments: Any) -> Any:
    """The line in which a learner's function is called; reports know it by this name."""
    return function(*made(makers, arguments))


def case(parts: Mapping[str, tuple[Part, Sequence[Maker]]], name: str, number: int) -> tuple:
    """The arguments of a part's case, to try a function with: number 1 is the first one.

    Raises ValueError for an unknown part, or a case that there is not.
    """
    part, makers = parts[one_of("name", name, parts)]
    cases = part.draw(1)
    if not whole_number("number", number) <= len(cases):
        raise ValueError(f"number={number!r}: expected 1 to {len(cases)}")
    return made(makers, cases[number - 1].arguments[0])
