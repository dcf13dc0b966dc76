"""Counts the kernels that a training step would launch on a GPU.

The step is computed on the CPU, with the operators of a GPU where these differ. An operator that computes counts as one
kernel, one of a list of tensors as one for each LIST of them; views and allocations launch nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

LIST = 30
"""Tensors that one kernel of an operator on lists takes, at least."""
_FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_reshape_alias", "_unsafe_view"}
_FREE |= {"detach", "lift_fresh", "_local_scalar_dense", "result_type", "is_same_size"}


class Launches(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.copies: list[Any] = []
        """Copies from host to device for which the host waits, since the memory is not pinned."""

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name.split("::")[1]
        if name == "_to_copy" and args[0].device.type == "cpu" and not kwargs.get("non_blocking"):
            target = kwargs.get("device")
            self.copies += [args[0]] if target is not None and target.type == "cuda" else []
        aliases = any(each.alias_info and not each.alias_info.is_write for each in function._schema.returns)
        if not aliases and name not in _FREE:
            is_list = name.startswith(("_foreach", "_fused"))
            self.counts[name] += -(-len(args[0]) // LIST) if is_list else 1
        return function(*args, **(kwargs or {}))


class Kernel:
    """Stands for a Triton kernel: counts, and leaves its results as they are."""

    def __init__(self, name: str, launches: Launches) -> None:
        self._name, self._launches = name, launches

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **options: self._launches.counts.update([self._name])


def gpu_launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """A counter, and from now on the operators of a GPU."""
    launches = Launches()
    for name in ("_denominator_forward", "_denominator_backward", "_ctc_forward", "_ctc_backward"):
        monkeypatch.setattr(f"asr.model.kernels.{name}", Kernel(name, launches))
    for module in ("ctc", "denominator"):
        monkeypatch.setattr(f"asr.model.{module}.has_kernels", lambda _: True)
    monkeypatch.setattr("asr.model.layers.is_fused", lambda _: True)
    monkeypatch.setattr("asr.training.step.precision_on", lambda _, wanted: wanted)
    return launches
