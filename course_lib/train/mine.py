"""The learner's own pieces: answers to the exercises 03, 05 and 06, taken out of their notebooks.

What counts is the text of the answer cells, as for ``course check``.  A piece that is not filled in, or that
calls something that is not, is left to the library.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from course_lib import data_parallel
from course_lib.classroom.answers import run_cell
from course_lib.classroom.submission import Unusable, answer_cells, fill_master
from course_lib.data_parallel.modules import gather
from course_lib.overlap import channel
from course_lib.overlap.channel import AllReduce
from course_lib.ranks.diagnosis import names
from course_lib.train.errors import TrainingError


class Exercise(NamedTuple):
    """Where a piece comes from.  ``functions``: the first of these that is there is taken."""

    name: str
    functions: tuple[str, ...]

    @property
    def number(self) -> str:
        return self.name[:2]


RING = Exercise("03_ring_all_reduce", ("ring",))
ACCUMULATION = Exercise("05_gradient_accumulation", ("train_step_by_tokens", "train_step"))
BUCKETS = Exercise("06_buckets_and_hooks", ("train",))

_MOST_ELEMENTS = 2**20  # that a ring is tried with

Cells = dict[str, str]  # texts by grade_id


class Piece(NamedTuple):
    """A learner's function; without one, None and why."""

    function: Callable | None
    name: str
    why_not: str = ""

    @property
    def filled_in(self) -> Callable:
        """``function``, where there is one."""
        assert self.function is not None, self.why_not
        return self.function


def read(folder: Path | None) -> dict[Exercise, Cells | str]:
    """The answer cells of each exercise; why not, where there are none.  Without a folder nothing.

    Raises ValueError for what is no folder.
    """
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ValueError(f"mine={str(folder)!r}: expected a folder with your exercises")
    return {exercise: _read(folder / f"{exercise.name}.ipynb") for exercise in (RING, ACCUMULATION, BUCKETS)}


def _read(path: Path) -> Cells | str:
    try:
        return answer_cells(fill_master(path).notebook)
    except Unusable as problem:
        return f"{path.name}: {problem}"


def piece(
    exercise: Exercise, found: dict[Exercise, Cells | str], distributed: types.ModuleType = dist
) -> Piece:
    """Run the cells that were found, with ``distributed`` as ``dist``, and look for the piece in them."""
    cells = found.get(exercise, "")
    if isinstance(cells, str):
        return Piece(None, exercise.functions[0], cells)
    with_it = _TorchWith(distributed)
    defined: dict[str, Any] = {"__name__": f"exercise_{exercise.number}", "torch": with_it,
               "dist": distributed, "data_parallel": data_parallel}  # fmt: skip
    errors = [problem for name, text in cells.items() if (problem := _run(exercise, name, text, defined))]
    # A cell may have imported torch's again.
    ours = {torch: with_it, dist: distributed, dist.all_reduce: distributed.all_reduce}
    defined |= {name: ours[value] for name, value in defined.items() if _is_in(ours, value)}
    whys = []
    for name in exercise.functions:
        unfinished = _unfinished(name, defined, set())
        if not unfinished:
            return Piece(defined[name], name)
        whys.append(f"exercise {exercise.number}: {unfinished} is not filled in yet")
    return Piece(None, exercise.functions[0], " ".join(errors) or whys[0])


def _is_in(ours: dict, value: object) -> bool:
    return any(value is each for each in ours)


def _run(exercise: Exercise, name: str, text: str, defined: dict) -> str:
    """Run a cell; what was wrong, or ""."""
    error = run_cell(f"<exercise {exercise.number}, {name}>", text, defined)
    if error is None:
        return ""
    return f"exercise {exercise.number}: the cell {name} fails with {type(error).__name__}: {error}"


def _unfinished(name: str, defined: dict, seen: set[str]) -> str:
    """The function that ``name`` is, or needs, and that is not there or a stub; "" if there is none."""
    seen.add(name)
    codes = list(_codes(defined.get(name)))
    if not codes or any("NotImplementedError" in code.co_names for code in codes):
        return name
    needed = {other for code in codes for other in code.co_names if _codes_of(defined.get(other))} - seen
    return next((found for other in sorted(needed) if (found := _unfinished(other, defined, seen))), "")


def _codes_of(value: object) -> list[types.CodeType]:
    return list(_codes(value))


def _codes(value: object) -> Iterator[types.CodeType]:
    """Of a function or a class, with those inside."""
    if isinstance(value, type):
        for part in vars(value).values():
            yield from _codes(part) if isinstance(part, types.FunctionType) else ()
    code = getattr(value, "__code__", value)
    if isinstance(code, types.CodeType):
        yield code
        for constant in code.co_consts:
            yield from _codes(constant) if isinstance(constant, types.CodeType) else ()


class _TorchWith(types.ModuleType):
    """torch, whose ``distributed`` is another module."""

    def __init__(self, distributed: types.ModuleType):
        super().__init__("torch")
        self.distributed = distributed

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)


class SummedBy(types.ModuleType):
    """torch.distributed with another all-reduce: it starts beside the backward pass, and has ``wait()``."""

    def __init__(self, all_reduce: AllReduce, device: torch.device):
        super().__init__("torch.distributed")
        self._sum = channel.apart(all_reduce, device)
        self._channel = channel.beside(device, self._sum)

    def __getattr__(self, name: str) -> object:
        return getattr(dist, name)

    def all_reduce(self, tensor: torch.Tensor, op: object = dist.ReduceOp.SUM, group: object = None,
                   async_op: bool = False) -> object:  # fmt: skip
        if op != dist.ReduceOp.SUM or group not in (None, dist.group.WORLD):
            return dist.all_reduce(tensor, op, group, async_op)
        self._channel.follow()
        started = self._channel.start(tensor, self._sum)
        return started if async_op else started.wait()


def require_sum(ring: AllReduce, parameters: list[torch.nn.Parameter]) -> None:
    """Raises TrainingError on all ranks unless the learner's ring leaves the sum on all of them.

    It is tried with few elements, and with as many as there are of the parameters, in their type.
    """
    ranks = dist.get_world_size()
    total = sum(parameter.numel() for parameter in parameters)
    for elements in (3 * ranks + 1, min(total, _MOST_ELEMENTS)):
        own = _whole_numbers(elements, dist.get_rank()).to(parameters[0])
        ring(own)
        everyones = (_whole_numbers(elements, rank) for rank in range(ranks))
        expected = reduce(torch.add, everyones).to(parameters[0])
        is_right = gather([torch.equal(own, expected)])
        if wrong := [each for each, (right,) in enumerate(is_right) if not right]:
            raise TrainingError(
                f"Your ring of exercise 03 does not leave the sum of {elements:,} elements on {names(wrong)}."
                " See what it leaves with `course check` and the exercise's pictures; without --mine the run "
                "takes the library's."
            )


def _whole_numbers(elements: int, rank: int) -> torch.Tensor:
    """Other ones on each rank and in each place, so small that sums in any order are exact."""
    return torch.randint(-1000, 1001, (elements,), generator=torch.Generator().manual_seed(rank))
