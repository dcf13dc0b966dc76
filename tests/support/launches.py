"""Counts the kernels that a training step would launch on a GPU.

The step is computed on the CPU, with the operators of a GPU where these differ. An operator that computes counts as one
kernel, one of a list of tensors as one for each LIST of them; views and allocations launch nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

LIST = 30
"""Tensors that one kernel of an operator on lists takes, at least."""
_FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_reshape_alias", "_unsafe_view"}
_FREE |= {"detach", "lift_fresh", "_local_scalar_dense", "result_type", "is_same_size"}


class Launches(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = function._schema
        name = schema.name.split("::")[1]
        aliases = any(ret.alias_info is not None and not ret.alias_info.is_write for ret in schema.returns)
        if not aliases and name not in _FREE:
            size = len(args[0]) if args and isinstance(args[0], (list, tuple)) and name.startswith("_f") else 1
            self.counts[name] += -(-size // LIST)
        return function(*args, **(kwargs or {}))
