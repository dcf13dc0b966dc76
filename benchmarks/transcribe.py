"""Measures the transcription of a corpus: benchmarks/transcribe.py data/dev [--num-files 40] [--jobs 1,2]

Files per second of `asr-stream --file`, with a process per file and one for all, and of `asr transcribe` with different
numbers of workers, including start and loading of the model. The wall clock is meaningful only on an idle machine, CPU
time per file on any. All must write the same text.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import soundfile

from asr.cores import num_cores
from asr.data.speech import Speech, evenly_spread
from asr.features import SAMPLE_RATE

STREAM = [sys.executable, "-m", "asr.streaming.terminal.cli", "--format", "json"]
TRANSCRIBE = [sys.executable, "-m", "asr.cli", "transcribe"]


def finals(path: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [event for event in events if event["type"] == "final"]


def measure(name: str, commands: list[list[str]], out: Path, num_files: int) -> dict[str, Any]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    texts = {path.stem: finals(path) for path in out.rglob("*.jsonl") if path.name != "manifest.jsonl"}
    return {
        "name": name,
        "files_per_s": num_files / wall_s,
        "cpu_s_per_file": cpu_s / num_files,
        "cores": cpu_s / wall_s,
        "texts": texts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--num-files", type=int, default=40, metavar="N", help="default 40")
    parser.add_argument("--jobs", default=f"1,{num_cores()}", metavar="N,...", help="default 1 and one for each core")
    parser.add_argument("--model", help="default: the bundled one")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    options = ["--model", args.model] if args.model else []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus = folder / "corpus"
        corpus.mkdir()
        clips = evenly_spread(Speech.load(args.data), args.num_files)
        for number, clip in enumerate(clips):
            soundfile.write(corpus / f"{number}.flac", clip.waveform(), SAMPLE_RATE)
        paths = [str(path) for path in sorted(corpus.iterdir())]
        each, every = folder / "each", folder / "every"
        one_by_one = [[*STREAM, *options, "--output", f"{each}/", "--file", path] for path in paths]
        in_one = [*STREAM, *options, "--output", f"{every}/", "--jobs", "1", "--file", *paths]
        rows = [
            measure("asr-stream --file, one by one", one_by_one, each, len(paths)),
            measure("asr-stream --file, all in one", [in_one], every, len(paths)),
        ]
        for jobs in args.jobs.split(","):
            out = folder / jobs
            command = [*TRANSCRIBE, *options, str(corpus), "--out", str(out), "--jobs", jobs]
            rows.append(measure(f"asr transcribe --jobs {jobs}", [command], out, len(paths)))
    texts = [row.pop("texts") for row in rows]
    if any(found != texts[0] for found in texts) or len(texts[0]) != len(paths):
        sys.exit("the texts differ")
    if args.json:
        print(json.dumps({"audio_s": sum(clip.seconds for clip in clips), "rows": rows}))
        return
    print(f"{len(paths)} files, {sum(clip.seconds for clip in clips):.0f} s of audio; all texts are the same")
    print("| | files per second | CPU s per file | cores |\n| --- | --- | --- | --- |")
    for row in rows:
        print(f"| `{row['name']}` | {row['files_per_s']:.2f} | {row['cpu_s_per_file']:.2f} | {row['cores']:.2f} |")


if __name__ == "__main__":
    main()
