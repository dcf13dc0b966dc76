"""Measures recognition of files on all cores: benchmarks/files.py data/dev [--jobs 1,2] [--plot files.png]

`asr-stream --file` reads recordings of equal length, made from the utterances of a data set, with different numbers of
jobs, each in its own process. The speed-up is that of the wall clock without loading the model, so the machine should
be idle. If it is not, the printed share of the cores shows it, and CPU time shows the cost of threads. All jobs must
write the same text.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asr.cores import num_cores
from asr.data.speech import Speech
from asr.features import SAMPLE_RATE

PAUSE_S = 1.0


def write_recordings(folder: Path, data: Path, num_files: int, minutes: float) -> list[str]:
    """Paths of `num_files` recordings of `minutes` each: utterances with pauses."""
    clips = list(Speech.load(data))
    pause = np.zeros(round(PAUSE_S * SAMPLE_RATE), np.float32)
    paths = []
    for number in range(num_files):
        mine = clips[number::num_files]
        pieces: list[np.ndarray] = []
        wanted = round(minutes * 60 * SAMPLE_RATE)
        while sum(map(len, pieces)) < wanted:
            pieces += [mine[len(pieces) // 2 % len(mine)].waveform(), pause]
        path = folder / f"{number}.flac"
        soundfile.write(path, np.concatenate(pieces)[:wanted], SAMPLE_RATE)
        paths.append(str(path))
    return paths


def measure(paths: list[str], jobs: int, options: list[str]) -> dict[str, Any]:
    """Wall-clock and CPU seconds of one run, and its text."""
    program = [sys.executable, "-m", "asr.streaming.terminal.cli"]
    command = [*program, "--stats", "--jobs", str(jobs), *options, "--file", *paths]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    audio_s, wall_s = (float(found) for found in re.findall(r"([\d.]+) s", done.stderr)[:2])
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"jobs": jobs, "audio_s": audio_s, "wall_s": wall_s, "cpu_s": cpu_s, "output": done.stdout}


def plot(path: Path, rows: list[dict[str, Any]]) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    jobs = [row["jobs"] for row in rows]
    speeds = [row["audio_s"] / row["wall_s"] for row in rows]
    axes.plot(jobs, [speeds[0] * number / jobs[0] for number in jobs], "--", color="0.6", label="in proportion")
    axes.plot(jobs, speeds, "o-", label="asr-stream --file")
    axes.set(xlabel="files at a time", ylabel="seconds of audio per second", xticks=jobs, ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--jobs", default=f"1,{num_cores()}", metavar="N,...", help="default 1 and one for each core")
    parser.add_argument("--num-files", type=int, metavar="N", help="default: the most jobs")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each file (default 3)")
    parser.add_argument("--model", help="default: the bundled one")
    parser.add_argument("--plot", type=Path, metavar="OUT.png")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    jobs = [int(number) for number in args.jobs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        paths = write_recordings(Path(folder), args.data, args.num_files or max(jobs), args.minutes)
        rows = [measure(paths, number, ["--model", args.model] if args.model else []) for number in jobs]
    if len({row.pop("output") for row in rows}) != 1:
        sys.exit("the text depends on the number of jobs")
    for row in rows:
        row["speed_up"] = rows[0]["wall_s"] / row["wall_s"]
        row["cores"] = row["cpu_s"] / row["wall_s"]
        row["cpu_ratio"] = row["cpu_s"] / rows[0]["cpu_s"]
    if args.plot:
        plot(args.plot, rows)
    if args.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['jobs']:3} jobs: {row['audio_s'] / row['wall_s']:6.1f} s of audio per second; "
            f"speed-up {row['speed_up']:.2f}; CPU {row['cpu_s']:.1f} s ({row['cpu_ratio']:.3f} of {jobs[0]}), "
            f"on {row['cores']:.2f} cores"
        )


if __name__ == "__main__":
    main()
