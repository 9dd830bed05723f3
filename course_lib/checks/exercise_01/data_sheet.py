"""Part 3: what a card's data sheet says, in bytes and in dense FLOP/s."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.checks import mistakes
from course_lib.checks.mistakes import AsIf
from course_lib.checks.part import ONE_PROCESS, Case, Compared, Part

# MiB as the driver shows them; TFLOP/s in 16 bits as the vendor prints them, with sparsity or without; bf16.
# All peaks are exact in binary, so the order in which they are multiplied makes no difference.
_SECRET = "A100 40 GB"
_SHEETS = {
    "H100 SXM": (81559, 1979.0, True, True),
    "A100 80 GB": (81920, 312.0, False, True),
    "L4": (23034, 242.0, True, True),
    "T4": (15360, 65.0, False, False),
    "B200": (183359, 4500.0, True, True),
    _SECRET: (40960, 624.0, True, True),
}


def _draw(ranks: int) -> list[Case]:
    return [
        Case.alone(f"{card}: {_in_words(*sheet)}", sheet, _read(*sheet), card == _SECRET)
        for card, sheet in _SHEETS.items()
    ]


def _in_words(memory_mib: int, tflops: float, sparse: bool, has_bf16: bool) -> str:
    more = f"{' with sparsity' if sparse else ''}{'' if has_bf16 else ', no bf16'}"
    return f"{memory_mib:,} MiB, {tflops:,.0f} TFLOP/s{more}"


def _read(memory_mib: int, tflops: float, sparse: bool, has_bf16: bool) -> tuple[int, float | None]:
    dense = tflops / 2 if sparse else tflops
    return memory_mib * 2**20, dense * 1e12 if has_bf16 else None


# --- What mistakes look like ---


def _sheet_with(**mistaken: bool) -> Callable:
    """What is read when ``sparse`` or ``has_bf16`` is not looked at, but taken as this."""

    def compute(memory_mib: int, tflops: float, sparse: bool, has_bf16: bool) -> tuple:
        return _read(memory_mib, tflops, **{"sparse": sparse, "has_bf16": has_bf16, **mistaken})

    return compute


def _memory_with(unit: float) -> Callable:
    """What is read when a MiB is taken as so many bytes."""

    def compute(memory_mib: int, *rest) -> tuple:
        return memory_mib * unit, _read(memory_mib, *rest)[1]

    return compute


def _not_two(wrong: Compared) -> str | None:
    value = wrong.played[0].value
    if not isinstance(value, tuple) or len(value) != 2:
        return "Two values are expected, in this order: the memory in bytes, and the peak in FLOP/s."
    return None


READ_DATA_SHEET = Part(
    "read_data_sheet(memory_mib, tflops, sparse, has_bf16)",
    _draw,
    mistakes.in_bytes(
        _not_two,
        AsIf(
            _memory_with(10**9 / 1024),
            "GiB are taken for GB: 1024 MiB are 1 GiB, and that is 2^30 bytes, 7% more than a GB.",
        ),
        AsIf(_memory_with(10**6), "MiB are taken for MB: 1 MiB is 2^20 bytes, 5% more than a MB."),
        AsIf(
            _sheet_with(sparse=False),
            "This is the sparse peak: it is for matrices in which half of the numbers are zero. Training has "
            "no such matrices, and the dense peak is half as much.",
        ),
        AsIf(
            _sheet_with(sparse=True), "The peak is halved, and this sheet's number is the dense one already."
        ),
        AsIf(
            _sheet_with(has_bf16=True),
            "This card has no bf16: the number is its peak for fp16, and for bf16 the answer is None.",
        ),
        AsIf(
            lambda *sheet: (_read(*sheet)[0], (peak := _read(*sheet)[1]) and peak / 1e12),
            "The peak is in TFLOP/s, and FLOP/s are asked for: 1 TFLOP/s is 10^12 FLOP/s.",
        ),
        AsIf(
            lambda *sheet: (_read(*sheet)[0], _read(*sheet)[1] or 0.0),
            "A card without bf16 has no peak for it, and that is None; 0 would be a speed.",
        ),
    ),
    mistakes.in_error,
    world_sizes=ONE_PROCESS,
)
