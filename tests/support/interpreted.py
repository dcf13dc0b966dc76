"""Runs the Triton kernels in Triton's interpreter, in a process of its own: its first import decides how it runs.

python interpreted.py FILE: calls asr.model.kernels with the arguments in FILE, and replaces them by the results.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch


def interpreted(*calls: tuple[str, tuple[Any, ...]]) -> list[Any]:
    """The results of calls of asr.model.kernels, each a name and arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.pt"
        torch.save(calls, path)
        environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
        found = subprocess.run([sys.executable, __file__, path], env=environment, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        results: list[Any] = torch.load(path)
        return results


if __name__ == "__main__":
    from asr.model import kernels

    given = torch.load(sys.argv[1])
    torch.save([getattr(kernels, name)(*arguments) for name, arguments in given], sys.argv[1])
