"""The number of cores for this process, and how PyTorch shares them with other programs."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""A container's own limits: `cpu.max` of cgroup v2, or `cpu/cpu.cfs_*` of v1."""


def num_cores() -> int:
    """CPU cores that this process may use; `taskset` and containers may allow fewer than the machine has."""
    return min(_num_allowed(), _quota() or _num_allowed())


def share_cores() -> None:
    """Configures PyTorch's OpenMP so that training slows down by no more than the share of other running programs.

    Call it before PyTorch is imported. OpenMP's threads spin while they wait for each other. If another program uses
    one of the cores, they spend whole time slices spinning in each of the thousands of loops of a step; with the policy
    "passive" they sleep. OpenMP does not know a container's CPU quota and would start a thread for each core of the
    machine. Variables that the user has set are kept.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    quota = _quota()
    if quota and quota < _num_allowed():
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))


def _num_allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quota() -> int | None:
    """The container's CPU quota in cores, rounded up; None if it has no limit."""
    try:
        if (CGROUP / "cpu.max").exists():
            quota, period = (CGROUP / "cpu.max").read_text().split()
        else:
            quota, period = ((CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(1, -(-int(quota) // int(period))) if int(quota) > 0 else None
    except (OSError, ValueError):  # "max": no limit
        return None
