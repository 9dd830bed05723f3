"""Which type matrices are multiplied in, and the loss scaling that fp16 needs.

Weights, gradients and the optimizer's state stay in float32 (or float64), as ``autocast`` has it.
"""

from __future__ import annotations

import torch

TYPES = {
    "float32": torch.float32, "float64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16,
}  # fmt: skip
_HALF = ("bf16", "fp16")


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies in bf16 itself: of NVIDIA's, those from Ampere on (not T4, not V100)."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)


def chosen(asked: str, kind: str, all_have_bf16: bool) -> str:
    """The name of the type for devices of this kind.  Raises ValueError for bf16 where not all have it."""
    if asked == "auto":
        return "float32" if kind == "cpu" else "bf16" if all_have_bf16 else "fp16"
    if asked == "bf16" and not all_have_bf16:
        raise ValueError("dtype='bf16': not all of these GPUs have it, such as T4 and V100; expected 'fp16'")
    return asked


def prepare(module: torch.nn.Module, dtype: str, device: torch.device) -> None:
    """Put a module on its device in its type; in a half type, its forward pass runs under autocast."""
    module.to(device, torch.float64 if dtype == "float64" else torch.float32)
    if dtype in _HALF:
        module.forward = torch.autocast(device.type, TYPES[dtype])(module.forward)


def scaler(dtype: str, device: torch.device) -> torch.amp.GradScaler:
    """Multiplies losses in fp16, where small gradients would be 0, and passes them on unchanged in others.

    A step in which a gradient came out infinite is left out, and the next ones are scaled by less.  All ranks
    leave out the same steps: they look at averaged gradients, which are infinite or NaN on all ranks where
    they are on one.
    """
    return torch.amp.GradScaler(device.type, enabled=dtype == "fp16")
