"""Latency and cost of live recognition: python benchmarks/latency.py [--model M] [--file F] [--chunk-ms MS]

Feeds audio in blocks of 20 ms, like a microphone's, and measures the time for a block that completes a chunk (the delay
of a partial) or an utterance (the delay of its final, including rescoring). The goals are ratios: 1.00 or less is good.
Run it pinned to a core, `taskset -c 0`, on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from memory import peak_mb

GOALS_MS = {"partial": 15.0, "final": 120.0}
GOAL_RTF = 0.03
GOAL_RSS_MB = 230.0
SAMPLE_RATE = 16000
BLOCK = 320  # samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="default: the bundled one")
    parser.add_argument("--file", help="default: the bundled recording")
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--search", choices=("greedy", "beam", "rescore"), default="rescore")
    parser.add_argument("--seconds", type=float, default=120.0, help="of audio; the file is repeated (default 120)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    from asr import Recognizer
    from asr.streaming.terminal.cli import SAMPLE

    stream = Recognizer(args.model, chunk_ms=args.chunk_ms, search=args.search).stream()
    delays_ms: dict[str, list[float]] = {"partial": [], "final": []}
    started_cpu = time.process_time()
    for block in blocks(args.file or SAMPLE, args.seconds):
        started = time.perf_counter()
        stream.accept_waveform(block)
        elapsed_ms = 1000 * (time.perf_counter() - started)
        for kind in {event.type for event in stream.events()} & set(delays_ms):
            delays_ms[kind].append(elapsed_ms)
    cpu_s = time.process_time() - started_cpu
    peak = peak_mb()

    found: dict[str, dict[str, float]] = {}
    for kind, values in delays_ms.items():
        if values:
            p50, p95 = np.percentile(values, [50, 95])
            found[f"{kind}_ms"] = {
                "n": len(values),
                "p50": p50,
                "p95": p95,
                "goal": GOALS_MS[kind],
                "ratio": p95 / GOALS_MS[kind],
            }
    rtf = cpu_s / args.seconds
    found["real_time_factor"] = {"value": rtf, "goal": GOAL_RTF, "ratio": rtf / GOAL_RTF}
    found["peak_memory_mb"] = {"value": peak, "goal": GOAL_RSS_MB, "ratio": peak / GOAL_RSS_MB}
    if args.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        print(f"{name:18}" + "  ".join(f"{key} {value:8.3f}" for key, value in row.items()))


def blocks(path: str | Path, seconds: float) -> Iterator[np.ndarray]:
    """Yields blocks of up to 20 ms: the audio of a file and a second of silence, which ends an utterance, repeatedly.

    The file is read on demand, so that the peak memory is that of the recognizer.
    """
    from asr.streaming.audio.audio_file import read_blocks

    left = int(seconds * SAMPLE_RATE)
    while left > 0:
        for piece, rate in chain(read_blocks(path), [(np.zeros(SAMPLE_RATE, np.float32), SAMPLE_RATE)]):
            if rate != SAMPLE_RATE:
                sys.exit(f"{path} has {rate} Hz; the benchmark takes {SAMPLE_RATE} Hz")
            for begin in range(0, min(len(piece), left), BLOCK):
                yield piece[begin : min(begin + BLOCK, left)]
            left -= min(len(piece), left)


if __name__ == "__main__":
    main()
