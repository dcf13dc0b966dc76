"""Whether to compute in bfloat16: GPUs do, and CPUs with instructions for it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch


@cache
def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a CPU has instructions for products of bfloat16; True for other devices.

    Without them, bfloat16 is several times as slow as float32.
    """
    if device.type != "cpu":
        return True
    return any(value for name, value in torch.cpu.get_capabilities().items() if name.endswith("bf16"))


def precision_on(device: torch.device, wanted: str) -> str:
    """The precision that training uses on `device`: `wanted`, a value of `train.precision`, or else fp32."""
    return wanted if multiplies_bfloat16(device) else "fp32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """A context that computes in `precision`, bf16 or fp32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()
