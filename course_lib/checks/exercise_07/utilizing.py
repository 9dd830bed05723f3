"""Part 5: the model FLOPs utilization of a run, and the hardware FLOPs utilization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.checks import given, mistakes
from course_lib.checks.given import Run
from course_lib.checks.mistakes import as_if
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part
from course_lib.checks.tolerance import near, rounded

ARGUMENTS = (given.run, dict)

# Dense and sparse FLOP/s of one device, as vendors print them, in any order.  No place in the sheet, nor the
# largest or smallest number, is that of the type: of MI100 bf16 and fp16 differ, and an A100 has the same
# number twice.  (NVIDIA's and AMD's data sheets; for the types that course_lib.hardware has, as there.)
_SHEETS: dict[str, Mapping[str, float]] = {
    "TPU v4": {"bf16": 275e12},
    "A100": {"fp32": 19.5e12, "tf32": 156e12, "tf32 sparse": 312e12, "bf16 sparse": 624e12, "bf16": 312e12,
             "fp16 sparse": 624e12, "fp16": 312e12},
    "H100": {"fp8 sparse": 3957.8e12, "fp8": 1978.9e12, "bf16 sparse": 1978.9e12, "bf16": 989.4e12,
             "fp16 sparse": 1978.9e12, "fp16": 989.4e12, "tf32 sparse": 989.4e12, "tf32": 494.7e12,
             "fp32": 66.9e12},
    "MI100": {"fp32": 23.1e12, "fp32 matrix": 46.1e12, "fp16": 184.6e12, "bf16": 92.3e12, "fp64": 11.5e12},
    "V100": {"fp32": 15.7e12, "fp16": 125e12},
    "T4": {"fp16": 65e12, "fp32": 8.1e12},
}
_SECRET = "a model of 20B, 12 heads of 256, on 256 MI100"
# title: run, device.  PaLM is published (arXiv 2204.02311), and so are MPT-7B and MPT-70B (llm-foundry).
_SITUATIONS: dict[str, tuple[Run, str]] = {
    "MPT-7B on 8 A100, bf16": (
        Run(37_128, 8, 6_658_859_008, 32, 4096, 32, 128, 2048, "bf16", 0.0), "A100"),
    "MPT-70B on 64 H100, bf16, all of the forward pass recomputed": (
        Run(66_496, 64, 64_862_437_376, 80, 8192, 64, 128, 2048, "bf16", 1.0), "H100"),
    "PaLM 540B on 6,144 TPU v4, bf16, 3/4 of the forward pass recomputed": (
        Run(238_300, 6144, 540.35e9, 118, 18_432, 48, 256, 2048, "bf16", 0.75), "TPU v4"),
    "a model of 1.3B on one V100, bf16": (
        Run(1400, 1, 1_315_950_592, 24, 2048, 16, 128, 2048, "bf16", 0.0), "V100"),
    "the same on one V100, fp16": (
        Run(5900, 1, 1_315_950_592, 24, 2048, 16, 128, 2048, "fp16", 0.0), "V100"),
    "a model of 125M on 4 T4, fp16, half of the forward pass recomputed": (
        Run(96_000, 4, 125_311_488, 12, 768, 12, 64, 1024, "fp16", 0.5), "T4"),
    "a model of 2.7B on 16 MI100, bf16": (
        Run(25_000, 16, 2_651_837_440, 32, 2560, 20, 128, 2048, "bf16", 0.0), "MI100"),
    "a model of 1.3B, sequences of 65,536, on 16 H100, bf16": (
        Run(61_000, 16, 1_315_950_592, 24, 2048, 16, 128, 65_536, "bf16", 1.0), "H100"),
    _SECRET: (Run(61_000, 256, 20.6e9, 44, 6144, 12, 256, 4096, "bf16", 1.0), "MI100"),
}  # fmt: skip


def _draw(_: int) -> list[Case]:
    return [
        Case.alone(title, arguments, Way()(*arguments), title == _SECRET)
        for title, (run, device) in _SITUATIONS.items()
        for arguments in [(tuple(run), tuple(_SHEETS[device].items()))]
    ]


# --- Right, and what mistakes look like ---

_Pair = tuple[float, float]
_Sheet = Mapping[str, float]


class Flops(NamedTuple):
    """Of one token: what the weights take, and what attention takes, forward and backward."""

    weights: float
    attention: float


def _flops(run: Run) -> Flops:
    return Flops(6 * run.parameters, 12 * run.layers * run.heads * run.head_size * run.sequence)


def _peak(run: Run, sheet: _Sheet) -> float | None:
    return sheet.get(run.dtype)


def _rate(run: Run, peak: float) -> float:
    """Tokens for each FLOP that the devices could do."""
    return run.tokens_per_second / (run.devices * peak)


def _again(mfu: float, recomputed: float) -> _Pair:
    """The forward pass is a third of what the model needs."""
    return mfu, mfu * (1 + recomputed / 3)


@dataclass(frozen=True)
class Way:
    """How the two are found; what is not given is right."""

    flops: Callable[[Run], Flops] = _flops
    peak: Callable[[Run, _Sheet], float | None] = _peak
    rate: Callable[[Run, float], float] = _rate
    both: Callable[[float, float], tuple[float, ...]] = _again

    def __call__(self, run: tuple, sheet: tuple) -> tuple[float, ...] | None:
        taken = Run(*run)
        peak = self.peak(taken, dict(sheet))
        if peak is None:
            return None
        return self.both(sum(self.flops(taken)) * self.rate(taken, peak), taken.recomputed)


def _by_hidden(run: Run) -> Flops:
    return Flops(_flops(run).weights, 12 * run.layers * run.hidden * run.sequence)


def _scaled(weights: float, attention: float) -> Callable[[Run], Flops]:
    """So many times what is right."""
    return lambda run: Flops(weights * _flops(run).weights, attention * _flops(run).attention)


def _no_sequence(run: Run) -> Flops:
    return Flops(_flops(run).weights, _flops(run).attention / run.sequence)


def _no_layers(run: Run) -> Flops:
    return Flops(_flops(run).weights, _flops(run).attention / run.layers)


def _of_one_head(run: Run) -> Flops:
    return Flops(_flops(run).weights, _flops(run).attention / run.heads)


def _largest(run: Run, sheet: _Sheet) -> float:
    return max(sheet.values())


def _smallest(run: Run, sheet: _Sheet) -> float:
    return min(sheet.values())


def _first(run: Run, sheet: _Sheet) -> float:
    return next(iter(sheet.values()))


def _first_dense(run: Run, sheet: _Sheet) -> float:
    return next(peak for name, peak in sheet.items() if "sparse" not in name)


def _largest_dense(run: Run, sheet: _Sheet) -> float:
    return max(peak for name, peak in sheet.items() if "sparse" not in name)


def _sparse(run: Run, sheet: _Sheet) -> float | None:
    return sheet.get(f"{run.dtype} sparse", sheet.get(run.dtype))


def _fp16(run: Run, sheet: _Sheet) -> float:
    return sheet.get("fp16", max(sheet.values()))


def _fp32(run: Run, sheet: _Sheet) -> float:
    return sheet.get("fp32", max(sheet.values()))


def _none_where_there_is_one(wrong: Compared) -> str | None:
    if wrong.played[0].value is None:
        return (
            "None is for a run whose data sheet has no peak for what it multiplies, and here there is one. "
            "(A function without `return` gives None, too.)"
        )
    return None


def _a_peak_of_something_else(wrong: Compared) -> str | None:
    if wrong.case.expected[0] is None:
        return (
            "Such a device does not multiply in this type, or only by detours, and its data sheet has no "
            "peak for it. There is nothing to divide by: None is asked for."
        )
    return None


def _no_pair(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two numbers are expected: MFU, then HFU. Or None, where there is no peak."
    return None


def _right_first(wrong: Compared) -> str | None:
    if near(wrong.played[0].value[0], wrong.case.expected[0][0], 1e-9):
        return (
            "MFU is right, and HFU is not: forward takes a third of the model's FLOPs, and `recomputed` says "
            "how much of the forward pass is done a second time."
        )
    return None


MFU_AND_HFU = Part(
    "mfu_and_hfu(run, data_sheet)",
    _draw,
    (
        _none_where_there_is_one,
        *as_if(
            "The sparse peak is taken. Vendors print it for matrices in which half of the numbers are zero: "
            "training does not reach it.",
            Way(peak=_sparse),
        ),
        *as_if(
            "The peak of another type is taken: a device does more FLOPs in smaller types, and `run.dtype` "
            "says in which one this run multiplies.",
            *(Way(peak=each) for each in (
                _fp16, _fp32, _largest, _largest_dense, _smallest, _first, _first_dense)),
        ),
        _a_peak_of_something_else,
        _no_pair,
        mistakes.not_a_number,
        *as_if(
            "Attention is left out: 6P are the weights' FLOPs, and 12·L·H·Q·T come on top. With long "
            "sequences they are most of it.",
            Way(flops=_scaled(1, 0)),
        ),
        *as_if(
            "Only the forward pass is counted, 2P for the weights: the backward pass takes twice as many "
            "FLOPs, so that together there are 6P.",
            Way(flops=_scaled(1 / 3, 1)),
            Way(flops=_scaled(1 / 3, 1 / 3)),
            Way(flops=_scaled(1 / 3, 0)),
        ),
        *as_if(
            "Only the forward pass of attention is counted: 4·L·H·Q·T, and with the backward pass it is "
            "three times that.",
            Way(flops=_scaled(1, 1 / 3)),
        ),
        *as_if(
            "Attention is halved, since half of the scores are masked. That can be argued, but published "
            "MFUs count them all, and only then numbers can be compared.",
            Way(flops=_scaled(1, 1 / 2)),
        ),
        *as_if(
            "The hidden size is taken for heads times head size. They are equal in many models, and not in "
            "PaLM: attention has H·Q in it.",
            Way(flops=_by_hidden),
        ),
        *as_if(
            "Each token attends to all T of its sequence: T is missing.", Way(flops=_no_sequence)
        ),
        *as_if("Each of the L layers has attention: L is missing.", Way(flops=_no_layers)),
        *as_if("Attention has H heads of the size Q, and one is counted.", Way(flops=_of_one_head)),
        *as_if(
            "HFU stands in the place of MFU. What is computed a second time brings training no further: MFU "
            "does not count it.",
            Way(both=lambda mfu, share: (_again(mfu, share)[1],) * 2),
            Way(both=lambda mfu, share: _again(mfu, share)[::-1]),
            Way(both=lambda mfu, share: (mfu * (1 + share / 3), mfu * (1 + share / 3) ** 2)),
        ),
        *as_if(
            "HFU counts what the hardware does, with what it computes a second time. Here it is MFU.",
            Way(both=lambda mfu, share: (mfu, mfu)),
        ),
        *as_if(
            "HFU is taken as 4/3 of MFU everywhere: that is so only where all of the forward pass is "
            "computed again.",
            Way(both=lambda mfu, share: (mfu, mfu * 4 / 3)),
            Way(both=lambda mfu, share: (mfu, mfu * 4 / 3 if share else mfu)),
        ),
        *as_if(
            "HFU counts the forward pass as if it were all of the model's FLOPs: it is a third of them.",
            Way(both=lambda mfu, share: (mfu, mfu * (1 + share))),
            Way(both=lambda mfu, share: (mfu, mfu * (1 + share / 2))),
        ),
        *as_if(
            "The tokens are those of all devices together, and the peak is that of one of them: how many are "
            "there?",
            Way(rate=lambda run, peak: run.tokens_per_second / peak),
        ),
        *as_if(
            "The devices count twice: tokens per second of one device over the peak of all.",
            Way(rate=lambda run, peak: run.tokens_per_second / run.devices**2 / peak),
        ),
        *as_if(
            "The tokens are those of all devices together already.",
            Way(rate=lambda run, peak: run.tokens_per_second * run.devices / peak),
        ),
        *as_if(
            "These are per cent: a share of 1 is asked for.",
            Way(both=lambda mfu, share: tuple(100 * each for each in _again(mfu, share))),
        ),
        *as_if(
            "This is upside down: achieved over peak.",
            Way(both=lambda mfu, share: tuple(1 / each for each in _again(mfu, share))),
            Way(both=lambda mfu, share: _again(1 / mfu, share)),
        ),
        rounded,
        _right_first,
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
