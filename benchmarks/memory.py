"""Memory of a process in MB (1e6 bytes), for other benchmarks."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path


def resident_mb(process: int | str = "self") -> float:
    """The present memory of a process, from /proc, which needs Linux."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    """The peak memory of this process."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
