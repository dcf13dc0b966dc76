"""Measures how many real-time streams a device can serve.

    python benchmarks/device_streams.py data/dev --provider cuda --first 512
    python benchmarks/device_streams.py data/dev --provider cuda --first 128 \
      --recipe librispeech-960h model.encoder_layers=9

Runs the server's scheduler with greedy search and one pass, in this process; benchmarks/streams.py includes sockets.
Each stream gets real utterances in real time, chunk by chunk, with its own phase. The delay of a chunk is the time from
its last sample until it is recognized. Doubling and bisection find the largest number of streams for which 99 % of the
delays are below --limit-ms; each number is tried for --seconds.

--recipe uses a network of that recipe's shape with random weights, which is as slow as a trained one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from pathlib import Path

import numpy as np
from streams import SAMPLE_RATE, largest, read_audio

from asr import Recognizer
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.streaming.server.scheduler import Job, Report, Scheduler

SKIPPED_S = 2.0  # skipped after each change of the number of streams
FIRST_MORE = SAMPLE_RATE // 20  # in samples; the windows of the last frames extend beyond a chunk


@dataclass
class Step:
    """The result for a number of streams."""

    num_streams: int
    delays_ms: np.ndarray
    cpu_ms: float
    """CPU time of this process per second of a stream's audio"""
    mean_batch: float


class Speaker:
    """A stream that receives its audio in real time, chunk by chunk."""

    def __init__(
        self, recognizer: Recognizer, scheduler: Scheduler, audio: np.ndarray, position: int, begins: float
    ) -> None:
        self.due = begins + recognizer.chunk_ms / 1000
        self._chunk = recognizer.chunk_ms * SAMPLE_RATE // 1000
        self._chunk_s = recognizer.chunk_ms / 1000
        self._audio, self._position = audio, position
        self._scheduler = scheduler
        self._fed: list[float] = []
        self.delays: list[float] = []
        self._job = Job(recognizer, self._report)

    def feed(self) -> None:
        size = self._chunk if self._fed else self._chunk + FIRST_MORE
        if self._position + size > len(self._audio):
            self._position = 0
        piece = self._audio[self._position : self._position + size]
        self._position += size
        self._fed.append(self.due)
        self.due += self._chunk_s
        self._scheduler.submit(self._job, lambda stream: stream.accept_waveform(piece), len(piece) / SAMPLE_RATE)

    def _report(self, report: Report) -> None:
        now = time.monotonic()
        for _ in range(report.num_done):
            self.delays.append(now - self._fed[len(self.delays)])

    def end(self) -> None:
        """Ends the stream. A chunk that was not recognized counts with its waiting time."""
        if self._job.failed:
            raise SystemExit("a stream failed; its error is above")
        self._scheduler.drop(self._job)
        now = time.monotonic()
        self.delays += [now - fed for fed in self._fed[len(self.delays) :]]


def speak(recognizer: Recognizer, audio: np.ndarray, num_streams: int, args: argparse.Namespace) -> Step:
    """Runs `num_streams` streams for the duration in `args`."""
    scheduler = Scheduler(args.threads, args.max_batch)
    generator = random.Random(num_streams)
    begin, cpu = time.monotonic() + 0.1, time.process_time()
    chunk_s = recognizer.chunk_ms / 1000
    speakers = []
    for number in range(num_streams):
        position = number * len(audio) // num_streams
        speakers.append(Speaker(recognizer, scheduler, audio, position, begin + generator.uniform(0, chunk_s)))
    heap = [(speaker.due, number) for number, speaker in enumerate(speakers)]
    heapify(heap)
    while heap[0][0] < begin + args.seconds:
        due, number = heap[0]
        time.sleep(max(0.0, due - time.monotonic()))
        speakers[number].feed()
        heapreplace(heap, (speakers[number].due, number))
    time.sleep(args.limit_ms / 1000)
    for speaker in speakers:
        speaker.end()
    scheduler.close()
    cpu = time.process_time() - cpu
    skipped = round(SKIPPED_S / chunk_s)
    delays = np.array([1000 * delay for speaker in speakers for delay in speaker.delays[skipped:]])
    return Step(num_streams, delays, 1000 * cpu / num_streams / args.seconds, scheduler.num_served / scheduler.num_runs)


def network(recipe: str, overrides: Sequence[str], path: Path) -> Path:
    """Writes a model file with a network of the recipe's shape and random weights."""
    from asr.export.write import export_model
    from asr.model.model import AsrModel, with_vocab
    from asr.recipe import load_config
    from asr.tokenizer import Tokenizer
    from asr.training.pretrained import Pretrained

    config = load_config(recipe, overrides)
    tokens = ("<blk>", "<unk>", "<sos/eos>", *(f"▁{number}" for number in range(497)))
    weights = AsrModel(with_vocab(config.model, len(tokens))).state_dict()
    export_model(Pretrained(config, Tokenizer("char", tokens), weights), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--provider", choices=("cpu", "cuda"), default="cpu")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--model", type=Path, help="default: the bundled one in float32")
    shape.add_argument("--recipe", nargs="+", metavar=("NAME", "KEY=VALUE"), help="a network of this shape instead")
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--limit-ms", type=float, default=200.0)
    parser.add_argument("--threads", type=int, default=4, help="of the scheduler (default 4)")
    parser.add_argument("--max-batch", type=int, default=512, metavar="N", help="streams in one run (default 512)")
    parser.add_argument("--seconds", type=float, default=15.0, help="that each number of streams is tried (default 15)")
    parser.add_argument("--first", type=int, default=32, metavar="N", help="streams to begin with (default 32)")
    parser.add_argument("--most", type=int, default=20000, metavar="N", help="try no more streams (default 20000)")
    parser.add_argument("--resolution", type=float, default=0.1, help="share of the number found (default 0.1)")
    args = parser.parse_args()
    if args.seconds <= 2 * SKIPPED_S:
        parser.error(f"--seconds {args.seconds:g} must be more than {2 * SKIPPED_S:g}: the first are not counted")

    audio = read_audio(args.data, 100)
    print("| streams | p50 / p95 / p99 ms | CPU, ms for a second of audio | streams in a run |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = args.model or bundled_model("float32")
        if args.recipe:
            path = network(args.recipe[0], args.recipe[1:], Path(folder) / "model.onnx")
        onnx = OnnxModel(path, provider=args.provider)
        recognizer = Recognizer(onnx, chunk_ms=args.chunk_ms, search="greedy", lm=None, second_pass=False, text="plain")

        def is_held(num_streams: int) -> bool:
            step = speak(recognizer, audio, num_streams, args)
            p50, p95, p99 = np.percentile(step.delays_ms, [50, 95, 99])
            times = f"{p50:.0f} / {p95:.0f} / {p99:.0f}"
            print(f"| {num_streams} | {times} | {step.cpu_ms:.2f} | {step.mean_batch:.1f} |", flush=True)
            return bool(p99 < args.limit_ms)

        print(f"{largest(is_held, args.first, args.resolution, args.most)} streams", flush=True)


if __name__ == "__main__":
    main()
