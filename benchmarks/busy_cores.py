"""Training next to other programs: python benchmarks/busy_cores.py [--busy 1] [--spin]

Times steps of a recipe, alternately alone and next to programs that keep one core busy each. The system gives every
running thread the same time, so the fair slowdown of T threads next to B programs on C cores is (T + B) / C, if that is
above 1. Prints the slowdown relative to that: 1.0 is fair, the goal is 1.5. `--spin` measures PyTorch without the
settings of `asr train`: its threads spin while they wait.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from asr.cores import num_cores, share_cores

GOAL = 1.5
BUSY = "while True: pass"


def measure(step: Callable[[], None], rounds: int, num_busy: int) -> tuple[float, float]:
    """Median seconds per step, alone and next to `num_busy` programs."""
    step()  # excludes allocations and lazy initialization
    alone, busy = [], []
    for _ in range(rounds):
        alone.append(_seconds(step))
        programs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(num_busy)]
        try:
            time.sleep(0.2)
            busy.append(_seconds(step))
        finally:
            for program in programs:
                program.kill()
                program.wait()
    return statistics.median(alone), statistics.median(busy)


def _seconds(step: Callable[[], None]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="tiny", help="recipe with the encoder (default: tiny)")
    parser.add_argument("--busy", type=int, default=1, help="number of busy programs (default: 1)")
    parser.add_argument("--batch-s", type=float, default=15.0, help="audio of a step (default: 15)")
    parser.add_argument("--rounds", type=int, default=3, help="turns; the median counts (default: 3)")
    parser.add_argument("--spin", action="store_true", help="without the settings of asr train")
    args = parser.parse_args()
    if args.spin:
        os.environ["OMP_WAIT_POLICY"] = "active"
    else:
        share_cores()
    import torch  # imported after the settings, because OpenMP reads them once
    from train_throughput import Ours, make_batch, training_step

    from asr.recipe import load_config

    threads, cores = torch.get_num_threads(), num_cores()
    shape = dataclasses.replace(load_config(args.recipe).model, condition_layers=())
    step = training_step(Ours(shape).train(), make_batch(args.batch_s, "cpu"), None)
    alone, busy = measure(step, args.rounds, args.busy)
    fair = max(1.0, (threads + args.busy) / cores)
    print(
        f"{threads} threads on {cores} cores, waiting {os.environ['OMP_WAIT_POLICY']}: {alone:.2f} s per step alone, "
        f"{busy:.2f} s next to {args.busy} busy; {busy / alone / fair:.2f} times the fair share (goal {GOAL})"
    )


if __name__ == "__main__":
    main()
