"""Published training runs for the map of data parallelism, each with its split, its utilization and source.

A few of them are data parallelism as this course builds it.  The others hold less than the whole model state
on each GPU: sharded, or with layers and matrices divided among GPUs; ``kind`` says which.
"""

from __future__ import annotations

from typing import NamedTuple

from course_lib.explorers.units import count

ALONE, SHARDED, DIVIDED = KINDS = ("data parallelism alone", "model state sharded", "model divided, too")


class Run(NamedTuple):
    """``ranks``: data-parallel ones, GPUs / those that share one model.  ``utilization``: as published."""

    name: str
    kind: str
    parameters: float
    gpus: int
    card: str
    ranks: int
    utilization: str
    source: str


_ZERO = "ZeRO, arXiv 1910.02054, table 2"
_MEGATRON = "Megatron-LM, arXiv 2104.04473, table 1"
_FOUNDRY = "mosaicml/llm-foundry, scripts/train/benchmarking"
_LLAMA = "Llama 3, arXiv 2407.21783, table 4 (transcribed)"

# HFU counts recomputation: MFU is about 3/4 of it.  llm-foundry's runs are all FULL_SHARD.
RUNS = [
    Run("ZeRO's baseline", ALONE, 1.3e9, 64, "V100 32 GB", 64, "", _ZERO),
    Run("Megatron-LM", ALONE, 1.7e9, 32, "A100", 32, "44% HFU", _MEGATRON),
    Run("MPT", SHARDED, 125_311_488, 8, "A100 80 GB", 8, "44.8%", _FOUNDRY),
    Run("MPT", SHARDED, 1_315_950_592, 8, "H100", 8, "41.8%", _FOUNDRY),
    Run("MPT", SHARDED, 2_651_837_440, 64, "H100", 64, "40.8%", _FOUNDRY),
    Run("MPT", SHARDED, 6_658_859_008, 128, "A100 40 GB", 128, "50.1%", _FOUNDRY),
    Run("MPT", SHARDED, 29_975_214_080, 32, "H100", 32, "43.9%", _FOUNDRY),
    Run("MPT", SHARDED, 64_862_437_376, 64, "H100", 64, "42.6%", _FOUNDRY),
    Run("Megatron-LM", DIVIDED, 7.5e9, 128, "A100", 32, "46% HFU", _MEGATRON),
    Run("Megatron-LM", DIVIDED, 145.6e9, 1536, "A100", 24, "47% HFU", _MEGATRON),
    Run("Llama 3", DIVIDED, 405e9, 16384, "H100", 128, "41%", _LLAMA),
    Run("Megatron-LM", DIVIDED, 1008e9, 3072, "A100", 6, "52% HFU", _MEGATRON),
]


def line(run: Run) -> str:
    """A run in a few words, for a list."""
    split = f"{run.gpus:,} {run.card}" + (f", N = {run.ranks}" if run.ranks != run.gpus else "")
    return f"{run.name} {_parameters(run)}, {split}: {run.utilization or 'largest that ran'}"


def _parameters(run: Run) -> str:
    return count(float(f"{run.parameters:.3g}"))
