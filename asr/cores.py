"""The number of cores that this process may use."""

from __future__ import annotations

import os


def num_cores() -> int:
    """CPU cores that this process may use: fewer than there are under `taskset` or in some containers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
