"""What learners' functions are given, where a case's plain data has another form: cases hold tuples only.

Some functions get lists, since their exercise says so, and those of exercise 07 objects whose parts have
names.  A check makes them in the rank that calls the function, ``exercise_07.case`` for a learner who tries
it.  Each case has a process of its own, which imports little for this: so it stands beside the exercises, not
in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from course_lib.timeline import Span


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


def made(makers: Sequence[Maker], arguments: tuple) -> tuple:
    """The arguments of a learner's function from those of a case."""
    return tuple(make(argument) for make, argument in zip(makers, arguments, strict=True))


def with_names(makers: Sequence[Maker], function: Any) -> Any:
    """A function that gets plain data, and calls a learner's function; what is no function stays it."""
    return partial(call, makers, function) if callable(function) else function


def call(makers: Sequence[Maker], function: Callable, *arguments: Any) -> Any:
    """The line in which a learner's function is called; reports know it by this name."""
    return function(*made(makers, arguments))
