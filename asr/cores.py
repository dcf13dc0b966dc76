"""The number of cores for this process, and how libraries share them with other programs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Limits of containers and services: `cpu.max` of cgroup v2, or `cpu/cpu.cfs_*` of v1."""
OWN_CGROUPS = Path("/proc/self/cgroup")


def num_cores() -> int:
    """CPU cores that this process may use; `taskset`, containers and services may allow fewer than the machine has."""
    return min(_num_allowed(), _quota() or _num_allowed())


def share_cores() -> None:
    """Configures the threads of numpy and PyTorch, so that training slows down by no more than the share of other
    running programs.

    Call it before they are imported. numpy's OpenBLAS would start a thread for each core of the machine, which a
    container may not allow, although no product of matrices is large here. OpenMP's threads spin while they wait for
    each other. If another program uses one of the cores, they spend whole time slices spinning in each of the thousands
    of loops of a step; with the policy "passive" they sleep. OpenMP does not know a CPU quota and would start a thread
    for each core of the machine. Variables that the user has set are kept.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    quota = _quota()
    if quota and quota < _num_allowed():
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))


def _num_allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quota() -> int | None:
    """The CPU quota in cores, rounded up; None if there is no limit."""
    quotas = [quota for group in _groups() if (quota := _quota_of(group)) is not None]
    return min(quotas, default=None)


def _groups() -> list[Path]:
    """The folders of this process's control groups and of those around them, whose quotas hold, too."""
    groups = {CGROUP, CGROUP / "cpu"}
    with contextlib.suppress(OSError, ValueError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                base = CGROUP / "cpu" if controllers else CGROUP
                names = [name for name in path.split("/") if name not in ("", "..")]
                groups |= {base.joinpath(*names[:depth]) for depth in range(1, len(names) + 1)}
    return list(groups)


def _quota_of(group: Path) -> int | None:
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(1, -(-int(quota) // int(period))) if int(quota) > 0 else None
    except (OSError, ValueError):  # "max": no limit
        return None
