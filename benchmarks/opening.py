"""CPU time of opening the default recognizer, by part, and the memory that a second process has of its own.

    python benchmarks/opening.py

Each run is a fresh process, and the least of the runs counts, because other processes slow one down but never speed it
up. Memory is what only this process has (Private_Clean and Private_Dirty of /proc, which needs Linux), in MB of 1e6
bytes, while another process has the recognizer open.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PARTS = {"numpy": "import of NumPy", "imports": "other imports", "_open_model": "model", "Punctuation": "punctuation",
         "load_lm": "language model", "NeuralLmFile": "neural language model", "new_fusion": "search",
         "rest": "everything else"}  # fmt: skip


def opened() -> tuple[Any, dict[str, float]]:
    """An open stream, the CPU seconds of each part of opening it, and the process's own memory with it."""
    clock = time.process_time
    start = clock()
    import numpy as np

    spent = {"numpy": clock() - start}
    start = clock()
    import onnxruntime  # noqa: F401

    from asr.streaming import recognizer

    spent["imports"] = clock() - start

    def timed(name: str, function: Any) -> Any:
        def measured(*args: Any) -> Any:
            start = clock()
            result = function(*args)
            spent[name] = clock() - start
            return result

        return measured

    for name in PARTS:
        function: Any = getattr(recognizer, name, None)
        if isinstance(function, type):  # it is used as a type, too
            function.__init__ = timed(name, function.__init__)  # type: ignore[misc]
        elif function:
            setattr(recognizer, name, timed(name, function))
    before, start = sum(spent.values()), clock()
    stream = recognizer.Recognizer().stream()
    spent["rest"] = clock() - start - (sum(spent.values()) - before)
    stream.accept_waveform(np.zeros(16000, np.float32))
    for _ in stream.events():
        pass
    fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    spent["own_mb"] = sum(int(fields[f"Private_{kind}"].split()[0]) for kind in ("Clean", "Dirty")) * 1024 / 1e6
    return stream, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num-runs", type=int, default=10)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        _stream, spent = opened()
        print(json.dumps(spent), flush=True)
        sys.stdin.read()
        return
    command = [sys.executable, __file__, "--child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        runs = [
            json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout)
            for _ in range(args.num_runs)
        ]
        other.communicate()
    least = {name: min(run[name] for run in runs) for name in runs[0]}
    for name, text in PARTS.items():
        print(f"{text:24}{least[name]:7.3f} s")
    total = min(sum(run[name] for name in PARTS) for run in runs)
    without = min(sum(run[name] for name in PARTS if name != "numpy") for run in runs)
    print(f"{'all of it':24}{total:7.3f} s, without the import of NumPy {without:.3f} s")
    print(f"{'own memory':24}{least['own_mb']:7.0f} MB of a second process")


if __name__ == "__main__":
    main()
