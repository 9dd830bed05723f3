"""What accelerators have: memory, speed, links.  Each number stands beside its source.

    card = ACCELERATORS["h100-sxm"]
    card.memory_bytes   # as the driver shows it, not as on the box
    card.bf16_flops     # dense; None where the card can't, or where no source settles it
    card.sources["bf16_flops"]

Vendors also print FLOP/s for matrices in which half of the elements are zero, exactly twice as many; training
does not reach those, and they are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from course_lib.arguments import Catalog

# Repositories and papers where these numbers were read.  "Several lists" are transcriptions that agree.
_ML_ENGINEERING = "stas00/ml-engineering"
_LIGHTNING = "pytorch-lightning, throughput.py"
_NVIDIA_SMI = "nvidia-smi, as reported by several users"
_OLD_NVIDIA_SMI = "nvidia-smi of older drivers, as reported by several users"
_LISTS = "several lists that agree"
_BLACKWELL = "NVIDIA RTX Blackwell whitepaper, two transcriptions"

_PCIE_4 = (31, f"PCIe 4 x16, {_ML_ENGINEERING}")
_PCIE_5 = (63, f"PCIe 5 x16, {_ML_ENGINEERING}")
_NVLINK_2 = (150, f"NVLink 2, {_ML_ENGINEERING}")
_NVLINK_3 = (300, f"NVLink 3, {_ML_ENGINEERING}")
_NVLINK_4 = (450, f"NVLink 4, {_ML_ENGINEERING}")
_NVLINK_5 = (900, f"NVLink 5, {_ML_ENGINEERING}")

_Sourced = tuple[float, str]


@dataclass(frozen=True)
class Accelerator:
    """One device as a program sees it.  None: it can't, or the number is not confirmed.

    ``memory_gb``: what the vendor calls it, "80 GB".  ``memory_bytes``: what the driver shows.
    ``bf16_flops``, ``fp16_flops``: dense matrix peaks in FLOP/s that accumulate in fp32.
    ``bandwidth``: of the memory, bytes/s.  ``link_bandwidth``: to other devices, bytes/s in one direction.
    ``sources``: where each number that is not None was read, by the name of its field.
    """

    name: str
    memory_gb: int
    memory_bytes: int | None
    bf16_flops: float | None
    fp16_flops: float | None
    bandwidth: float | None
    link_bandwidth: float | None
    sources: Mapping[str, str]


def _card(
    name: str,
    memory_gb: int,
    mebibytes: _Sourced | None = None,
    teraflops: _Sourced | None = None,
    gigabytes_per_second: _Sourced | None = None,
    link: _Sourced | None = None,
    bf16: bool = True,
    fp16: bool = True,
) -> Accelerator:
    """An Accelerator in the units of data sheets.  ``teraflops`` holds for each 16-bit type it has."""
    fields = {
        "memory_bytes": (mebibytes, 2**20),
        "bf16_flops": (teraflops if bf16 else None, 1e12),
        "fp16_flops": (teraflops if fp16 else None, 1e12),
        "bandwidth": (gigabytes_per_second, 1e9),
        "link_bandwidth": (link, 1e9),
    }
    numbers: dict[str, Any] = {
        field: sourced and sourced[0] * unit for field, (sourced, unit) in fields.items()
    }
    sources = {field: sourced[1] for field, (sourced, _) in fields.items() if sourced}
    return Accelerator(name, memory_gb, **numbers, sources=MappingProxyType(sources))


ACCELERATORS = Catalog("accelerator", {
    "rtx-3060": _card("RTX 3060", 12, (12288, _NVIDIA_SMI), link=_PCIE_4),
    "rtx-3090": _card("RTX 3090", 24, (24576, _NVIDIA_SMI), (71.2, _BLACKWELL), link=_PCIE_4),
    "rtx-4090": _card(
        "RTX 4090", 24, (24564, _NVIDIA_SMI), (165.2, "NVIDIA Ada whitepaper, six transcriptions"),
        (1008, _LISTS), _PCIE_4),
    "rtx-5090": _card("RTX 5090", 32, (32607, _NVIDIA_SMI), (209.5, _BLACKWELL), link=_PCIE_5),
    "t4": _card("T4", 16, (15360, _NVIDIA_SMI), (65, _LIGHTNING), (320, _LISTS), bf16=False),
    "l4": _card("L4", 24, (23034, _NVIDIA_SMI), (121, _LISTS), (300, _LISTS), _PCIE_4),
    "a10": _card("A10", 24, None, (125, "NVIDIA data sheet, transcribed"), (600, _LISTS), _PCIE_4),
    # Not the A10's speed; lists say 125, 70 or 62.5.
    "a10g": _card("A10G", 24, (23028, _NVIDIA_SMI), None, (600, _LISTS)),
    "l40s": _card("L40S", 48, (46068, _NVIDIA_SMI), (362, _ML_ENGINEERING), (864, _LISTS), _PCIE_4),
    "v100-16gb": _card(
        "V100 SXM2 16 GB", 16, (16160, _OLD_NVIDIA_SMI), (125, _LIGHTNING), (900, _LISTS), _NVLINK_2,
        bf16=False),
    "v100-32gb": _card(
        "V100 SXM2 32 GB", 32, (32768, _NVIDIA_SMI), (125, _LIGHTNING), (900, _LISTS), _NVLINK_2, bf16=False),
    "a100-40gb": _card(
        "A100 40 GB", 40, (40960, _NVIDIA_SMI), (312, _ML_ENGINEERING), (1555, _LISTS), _NVLINK_3),
    "a100-80gb": _card(
        "A100 SXM 80 GB", 80, (81920, _NVIDIA_SMI), (312, _ML_ENGINEERING), (2039, _LISTS), _NVLINK_3),
    "h100-pcie": _card("H100 PCIe", 80, None, (756, _ML_ENGINEERING), (2000, _ML_ENGINEERING), _PCIE_5),
    "h100-sxm": _card(
        "H100 SXM", 80, (81559, _NVIDIA_SMI), (989.4, "NVIDIA H100 whitepaper V1.04, transcribed"),
        (3350, _ML_ENGINEERING), _NVLINK_4),
    "h200": _card(
        "H200 SXM", 141, (143771, _NVIDIA_SMI), (989, _ML_ENGINEERING), (4800, _ML_ENGINEERING), _NVLINK_4),
    "b200": _card(
        "B200", 180, (183359, _NVIDIA_SMI), (2250, _ML_ENGINEERING), (8000, _ML_ENGINEERING), _NVLINK_5),
    "gb200": _card(
        "GB200, each GPU", 186, None, (2500, _ML_ENGINEERING), (8000, _ML_ENGINEERING), _NVLINK_5),
    # One board shows up as two devices; these are the numbers of one of them.
    "mi250x": _card(
        "MI250X, each of its two devices", 64, None, (191.5, f"half of a board, {_ML_ENGINEERING}"),
        (1640, f"half of a board, {_ML_ENGINEERING}")),
    "mi300x": _card(
        "MI300X", 192, None, (1300, _ML_ENGINEERING), (5300, _ML_ENGINEERING),
        (448, f"to all other devices together, {_ML_ENGINEERING}")),
    "tpu-v4": _card("TPU v4", 32, None, (275, _ML_ENGINEERING), (1200, _ML_ENGINEERING), fp16=False),
    "tpu-v5e": _card("TPU v5e", 16, None, (197, _ML_ENGINEERING), (820, _ML_ENGINEERING), fp16=False),
    "tpu-v5p": _card("TPU v5p", 95, None, (459, _ML_ENGINEERING), (2760, _ML_ENGINEERING), fp16=False),
})
