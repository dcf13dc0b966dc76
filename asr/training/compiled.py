"""Compiles the layers of a network for training on a GPU, where launching small operators takes longer than computing.

All layers of a kind share one compiled form, for batches of any size: compiling a whole step would take minutes, again
for each of the row lengths of `asr.training.plans`. The first step compiles. On a CPU it does not pay
(docs/lab/tried.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def is_compiled(device: torch.device) -> bool:
    """Whether training on this device compiles the layers, in the first step."""
    return device.type == "cuda"


def compile_layers(network: nn.Module, backend: str | Callable[..., Any] = "inductor") -> None:
    """Compiles the members of each list of modules named `layers`, at their first call; changes no weight and no
    name."""
    for name, module in network.named_modules():
        if isinstance(module, nn.ModuleList) and name.rpartition(".")[2] == "layers":
            for layer in module:
                layer.compile(dynamic=True, backend=backend)
