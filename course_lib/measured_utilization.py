"""U of training steps on this machine, and the parts of a step, each measured by itself.

    measured = measure_parts(CONFIG, batch=8, sequence=128, count=2)
    measured.parts.utilization, measured.parts.shares(), measured.spread
    shown(measured)                                                # for a figure, with its origin

All of it comes from one run of ranks, which do the same thing at the same time; the parts take turns, so that
whatever else the machine does meets all of them.  A small GPT learns the course's text.
"""

from __future__ import annotations

import copy
import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.distributed as dist

from course_lib import corpus, measurements, ranks, timeline
from course_lib.all_reduce import ring
from course_lib.arguments import whole_number
from course_lib.machine import usable_cores
from course_lib.overlap import BucketedDataParallel
from course_lib.timing import seconds_of
from course_lib.transformer import GPT, TransformerConfig, a_config
from course_lib.utilization import MOST_UNEXPLAINED, Parts

if TYPE_CHECKING:
    from course_lib.links import Links

SIZES = (256, 512, 1024)  # of square matrices; the best size differs between machines
_SECONDS_OF_PRODUCTS = 0.05
_WARM_UP = 2  # rounds, in which buffers are made


@dataclass(frozen=True)
class MeasuredParts:
    """``parts`` are medians over the ``repeats``.  ``spread``: how much the repeats of the whole step differ.

    Where it is above ``measurements.CALM`` the machine was busy, and the parts should not be shown.
    ``conditions``: what was chosen, such as ranks, bucket_mb, overlap.  ``device``: ``cpu`` or ``cuda``.
    """

    parts: Parts
    tokens_per_second: float
    spread: float
    repeats: int
    conditions: dict[str, measurements.Condition]
    links: Links | None = None
    device: str = "cpu"

    @property
    def setting(self) -> str:
        """The conditions that matter most, for a title."""
        has = self.conditions
        many = f"{has['ranks']} rank{'s' * (has['ranks'] != 1)}"
        links = [] if self.links is None else [self.links.label]
        overlap = "overlapped" if has["overlap"] else "not overlapped"
        return ", ".join([many, *links, f"buckets of {has['bucket_mb']} MiB", overlap])


class ShownParts(NamedTuple):
    """``setting`` and ``label``: what a picture must say of the conditions, and of the origin of its numbers.

    ``note``: why they are not this machine's, or why they should not be trusted; "" if neither.
    """

    parts: Parts
    setting: str
    label: str
    note: str


def shown(measured: MeasuredParts) -> ShownParts:
    """The parts for a picture: kept, or where the machine was busy the course's recorded ones in their place.

    As ``measurements.Series.finish``.  Recorded ones take their place only if they were measured under the
    same conditions.  Where much of the step is left unexplained, ``note`` says that, too.
    """
    parts, label, why = _chosen(measured)
    return ShownParts(parts, measured.setting, label, " ".join(filter(None, [why, _unexplained(parts)])))


def _chosen(measured: MeasuredParts) -> tuple[Parts, str, str]:
    if measured.spread <= measurements.CALM:
        measurements.keep(_points(measured))
        return measured.parts, "measured here", ""
    busy = f"This machine was busy: repeats of the step differ by {measured.spread:.0%}."
    stand_in = [point for point in measurements.recorded("step-parts") if _is_same(point, measured)]
    if not stand_in:
        return measured.parts, "measured here, on a busy machine", f"{busy} Do not trust these parts."
    origin = measurements.origin_of(stand_in[0])
    seconds = {str(point.conditions["part"]): point.value for point in stand_in}
    # Shares need the time at peak only, which a peak of 1 FLOP/s makes of the FLOPs.
    parts = Parts(peak_flops=1.0, flops=seconds.pop("at_peak"), **seconds)
    return parts, origin, f"{busy} So these parts were {origin}."


def _is_same(point: measurements.Measurement, measured: MeasuredParts) -> bool:
    conditions = {name: value for name, value in point.conditions.items() if name != "part"}
    same = measured.conditions, _label(measured.links), measured.device
    return (conditions, point.links, point.device) == same


def _unexplained(parts: Parts) -> str:
    if parts.is_explained:
        return ""
    share = f"{abs(parts.unexplained) / parts.step:.0%}"
    what = f"leave {share} of the step unexplained"
    if parts.unexplained < 0:
        what = f"are together {share} longer than the step"
    return f"The parts {what}, and {MOST_UNEXPLAINED:.0%} is the most that should be: do not trust them."


def _label(links: Links | None) -> str:
    return "" if links is None else links.label


def _points(measured: MeasuredParts) -> list[measurements.Measurement]:
    parts, links = measured.parts, measured.links
    seconds = {name: getattr(parts, name) for name in _Round.__dataclass_fields__}
    kind = "none" if links is None else "real" if links.is_real else "paced"
    return [
        measurements.Measurement(
            "step-parts", value, "s", {"part": name, **measured.conditions}, measured.repeats,
            measured.spread, kind, _label(links), measurements.machine(), measured.device,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        for name, value in {**seconds, "at_peak": parts.at_peak}.items()
    ]  # fmt: skip


def measure_peak_flops(
    count: int, *, sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float32, repeats: int = 5
) -> float:
    """FLOP/s of ``count`` ranks together, at the products of square matrices of random numbers.

    All ranks multiply at once, each with the threads it has.  The best of the sizes, each a median over the
    repeats.  For GPUs, what the data sheet says is the peak; this is what can be reached.

    Raises ValueError for more ranks than cores.
    """
    _require_a_core_each(count, _device_kind(count))
    return _best(ranks.run(_multiply, count, tuple(sizes), dtype, repeats))


def peak_flops_of_ranks(
    *, sizes: Sequence[int] = SIZES, dtype: torch.dtype = torch.float32, repeats: int = 5
) -> float:
    """As ``measure_peak_flops``, for ranks that are there: each of them calls it, and gets the same."""
    of_ranks: list = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, _multiply(sizes, dtype, repeats))
    return _best(of_ranks)


def measure_parts(
    config: TransformerConfig,
    batch: int,
    sequence: int,
    count: int,
    *,
    bucket_mb: float = 25.0,
    first_bucket_mb: float = 1.0,
    overlap: bool = True,
    all_reduce: Callable[[torch.Tensor], object] | None = None,
    links: Links | None = None,
    repeats: int = 9,
    sizes: Sequence[int] = SIZES,
) -> MeasuredParts:
    """Measure a training step of ``BucketedDataParallel`` on ``count`` ranks, and each of its parts.

    A rank's batch has ``batch`` pieces of ``sequence`` tokens; the other arguments are BucketedDataParallel's
    and ``ranks.run``'s.  Peak: as by ``measure_peak_flops``, with these ``sizes``, in fp32.  Compute: forward
    and backward of a copy of the module that communicates nothing.  Slowed: how much longer they take where
    buckets leave meanwhile, up to ``finish()``.  Optimizer and data: alone.  Exposed and idle: from the whole
    step, how long its ranks wait in ``finish()``, of which exposed is the wait of the rank that waits least.

    Raises ValueError for more ranks than cores: they would take turns, and no speed of theirs means anything.
    """
    device = _device_kind(count, links)
    _require_a_core_each(count, device)
    sequence = a_config(config).check_sequence(sequence)
    whole_number("batch", batch), whole_number("repeats", repeats)
    buckets = {"bucket_mb": bucket_mb, "first_bucket_mb": first_bucket_mb, "overlap": overlap}
    run = functools.partial(_Run, config, batch, sequence, buckets, all_reduce or ring)
    of_ranks = ranks.run(_measure, count, run, tuple(sizes), repeats, links=links)
    rounds = [_Round.of_ranks(each) for each in zip(*(rounds for _, rounds in of_ranks), strict=True)]
    parts = Parts(
        peak_flops=_best([rates for rates, _ in of_ranks]),
        flops=count * batch * sequence * config.flops_per_token(sequence),
        **{name: median(getattr(each, name) for each in rounds) for name in _Round.__dataclass_fields__},
    )
    conditions: dict[str, measurements.Condition] = {
        "ranks": count, "bucket_mb": f"{bucket_mb:g}", "first_bucket_mb": f"{first_bucket_mb:g}",
        "overlap": overlap, "all_reduce": _name(all_reduce or ring), "parameters": config.parameters,
        "batch": batch, "sequence": sequence,
    }  # fmt: skip
    tokens_per_second = count * batch * sequence / parts.step
    spread = measurements.spread(each.step for each in rounds)
    return MeasuredParts(parts, tokens_per_second, spread, repeats, conditions, links, device)


def _name(function: Callable) -> str:
    """Of an all-reduce: as it was defined; of a partial one, that of what it calls."""
    return getattr(getattr(function, "func", function), "__name__", type(function).__name__)


@dataclass(frozen=True)
class _Round:
    """Seconds of each part, once."""

    step: float
    compute: float
    exposed: float
    optimizer: float
    data: float
    idle: float
    slowed: float

    @classmethod
    def of_ranks(cls, seconds: Sequence[dict[str, float]]) -> _Round:
        mean = {name: fmean(each[name] for each in seconds) for name in seconds[0]}
        wait, exposed = mean.pop("wait"), min(each["wait"] for each in seconds)
        slowed = mean.pop("beside") - mean["compute"]
        return cls(**mean, exposed=exposed, idle=wait - exposed, slowed=slowed)


def _ranks_here(count: int) -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", whole_number("count", count)))  # torchrun's


def _device_kind(count: int, links: Links | None = None) -> str:
    """``cpu`` or ``cuda``, as ``ranks.run`` will choose it: ranks with links are on the CPU."""
    return "cpu" if links is not None else ranks.device_kind(_ranks_here(count))


def _require_a_core_each(count: int, device: str) -> None:
    if device == "cpu" and _ranks_here(count) > usable_cores():
        raise ValueError(
            f"count={count}: expected at most {usable_cores()} ranks, one for each core; ranks that share a "
            "core take turns, so that neither their throughput nor their U says anything"
        )


# --- inside a rank ---


def _multiply(sizes: Sequence[int], dtype: torch.dtype, repeats: int) -> dict[int, list[float]]:
    """This rank's FLOP/s at products of each size, all ranks at once."""
    rates = {}
    for size in sizes:
        # Random, since some devices multiply zeros faster.
        first, second = (torch.randn(size, size, device=ranks.device()).to(dtype) for _ in range(2))
        product = torch.empty_like(first)
        multiply_once = functools.partial(torch.mm, first, second, out=product)
        multiply_once()
        times = max(1, math.ceil(_SECONDS_OF_PRODUCTS / seconds_of(multiply_once)))
        seconds = [seconds_of(functools.partial(_repeat, multiply_once, times)) for _ in range(repeats)]
        rates[size] = [times * 2 * size**3 / each for each in seconds]
    return rates


def _repeat(do: Callable[[], object], times: int) -> None:
    for _ in range(times):
        do()


def _best(of_ranks: Sequence[dict[int, list[float]]]) -> float:
    """The best size's FLOP/s: of all ranks together in a repeat, the median over repeats."""
    return max(
        median(map(sum, zip(*(rates[size] for rates in of_ranks), strict=True))) for size in of_ranks[0])


def _measure(
    make_run: Callable[[], _Run], sizes: Sequence[int], repeats: int
) -> tuple[dict[int, list[float]], list[dict[str, float]]]:
    """This rank's FLOP/s at matrix products, and for each repeat its seconds of each part."""
    run = make_run()
    rates: dict[int, list[float]] = {}
    rounds = []
    for number in range(_WARM_UP + repeats):
        products = _multiply(sizes, torch.float32, 1)
        seconds = run.round()
        if number >= _WARM_UP:
            rounds.append(seconds)
            for size, (rate,) in products.items():
                rates.setdefault(size, []).append(rate)
    return rates, rounds


class _Run:
    """A module that is trained on all ranks, and a copy of it that communicates nothing."""

    def __init__(
        self, config: TransformerConfig, batch: int, sequence: int, buckets: dict, all_reduce: Callable
    ) -> None:
        self._alone = GPT(config, attention="fused").to(ranks.device())
        self._together = BucketedDataParallel(copy.deepcopy(self._alone), all_reduce=all_reduce, **buckets)
        both = (self._alone, self._together.module)
        self._optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-4) for each in both]
        self._tokens, self._batch = corpus.tokens(), (batch, sequence)
        self._generator = torch.Generator().manual_seed(dist.get_rank())
        self._record = timeline.Recorder()

    def round(self) -> dict[str, float]:
        """Seconds of each part, alone, and of the whole step and the wait in it."""
        data = self._data()
        alone, together = self._optimizers
        seconds = {
            "data": seconds_of(self._data),
            "compute": seconds_of(lambda: self._backward(self._alone, data)),
            "optimizer": seconds_of(lambda: _update(alone)),
            "beside": seconds_of(lambda: self._backward(self._together, data), streams="current"),
        }
        self._together.finish()
        together.zero_grad()
        seconds["step"] = seconds_of(lambda: self._step(together))
        return seconds | {"wait": self._record.spans[-1].seconds}

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        self._backward(self._together, self._data())
        with self._record("idle", "wait"):
            self._together.finish()
        _update(optimizer)

    def _data(self) -> tuple[torch.Tensor, ...]:
        found = corpus.batch(self._tokens, *self._batch, self._generator)
        return tuple(part.to(ranks.device()) for part in found)

    def _backward(self, module: torch.nn.Module, data: tuple[torch.Tensor, ...]) -> None:
        inputs, targets = data
        torch.nn.functional.cross_entropy(module(inputs).flatten(0, 1), targets.flatten()).backward()


def _update(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    optimizer.zero_grad()
