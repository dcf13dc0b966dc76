"""Runs hours of audio at full speed: python benchmarks/endurance.py [--hours H] [--json FILE] [--plot FILE]

Feeds one stream the bundled recording and pauses, repeatedly, in blocks of 20 ms like a microphone's, and records for
every minute of audio the memory of the process, the cost of a chunk, and every final. Then one stream gets digital
silence for `--silence-hours`, another for a second: the speech that follows must give the same text. Times are CPU
times, so that a busy machine does not matter. Memory is read from /proc, which needs Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from memory import resident_mb

from asr import Recognizer
from asr.streaming import Final
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.terminal.cli import SAMPLE

SAMPLE_RATE = 16000
BLOCK = 320  # samples, 20 ms
CHUNK_MS = 640
CHUNK = CHUNK_MS * SAMPLE_RATE // 1000  # samples
PERIOD = 24 * CHUNK
"""Number of samples in a repetition: whole chunks, so that each repetition is divided into chunks alike."""
WARM_UP_MINUTES = 10
"""Memory growth is measured from this much audio on."""
GOAL_GROWTH_MB = 8.0
GOAL_RATIO = 1.1
"""Maximum ratio of the last tenth's CPU time per chunk to the first tenth's."""


@dataclass(frozen=True)
class Minute:
    """CPU time for a minute of audio: total, and of the most expensive block in each chunk."""

    memory_mb: float
    cpu_s: float
    chunk_ms_p50: float
    chunk_ms_p95: float


Utterance = tuple[str, float, float]
"""Text, start and end of a final; times in seconds from the start of its repetition."""


def repetition(sample: np.ndarray) -> np.ndarray:
    """(PERIOD,) float32: the recording, a pause, its first half more softly, a pause."""
    audio = np.zeros(PERIOD, np.float32)
    half = sample[: len(sample) // 2]
    audio[: len(sample)] = sample
    audio[PERIOD * 5 // 8 :][: len(half)] = 0.3 * half
    return audio


def endure(recognizer: Recognizer, audio: np.ndarray, num_minutes: int) -> tuple[list[Minute], Counter[Utterance]]:
    """Repeats `audio`: the cost of each minute, and how often each utterance was recognized.

    Nothing else is kept, so the measured memory is that of recognition.
    """
    stream = recognizer.stream()
    minutes: list[Minute] = []
    utterances: Counter[Utterance] = Counter()
    chunks_ms: list[float] = []
    dearest = position = 0
    begun = time.process_time_ns()
    while len(minutes) < num_minutes:
        offset = position % PERIOD
        started = time.process_time_ns()
        stream.accept_waveform(audio[offset : offset + BLOCK])
        dearest = max(dearest, time.process_time_ns() - started)
        position += BLOCK
        if position % CHUNK == 0:
            chunks_ms.append(dearest / 1e6)
            dearest = 0
            for event in stream.events():
                if isinstance(event, Final):
                    since = int(event.start * SAMPLE_RATE) // PERIOD * PERIOD / SAMPLE_RATE
                    utterances[event.raw, round(event.start - since, 3), round(event.end - since, 3)] += 1
        if position % (60 * SAMPLE_RATE) == 0:
            p50, p95 = np.percentile(chunks_ms, [50, 95])
            minutes.append(Minute(resident_mb(), (time.process_time_ns() - begun) / 1e9, float(p50), float(p95)))
            chunks_ms.clear()
            begun = time.process_time_ns()
            if len(minutes) % 60 == 0:
                print(f"{len(minutes) // 60} h: {minutes[-1]}", file=sys.stderr, flush=True)
    assert stream.sample_offset == position
    return minutes, utterances


def after_silence(recognizer: Recognizer, seconds: float, sample: np.ndarray) -> tuple[str, float]:
    """The text of the recording after digital silence, and how many seconds after it the first word began."""
    stream = recognizer.stream()
    silence = np.zeros(SAMPLE_RATE, np.float32)
    for _ in range(round(seconds)):
        stream.accept_waveform(silence)
    assert stream.events() == []
    stream.accept_waveform(sample)
    stream.finish()
    (final,) = [event for event in stream.events() if isinstance(event, Final)]
    return final.raw, round(final.start - seconds, 3)


def plot(minutes: list[Minute], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    hours = [(index + 1) / 60 for index in range(len(minutes))]
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    memory = [minute.memory_mb for minute in minutes]
    upper.plot(hours, memory)
    upper.set(ylabel="resident memory, MB", ylim=(0, 1.2 * max(memory)))
    lower.plot(hours, [minute.chunk_ms_p95 for minute in minutes], label="95 % of the chunks")
    lower.plot(hours, [minute.chunk_ms_p50 for minute in minutes], label="half of them")
    lower.set(xlabel="hours of audio", ylabel="CPU time, ms", ylim=(0, None))
    lower.legend(title="dearest block of a chunk, below this in", loc="center right")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="default: the bundled one")
    parser.add_argument("--hours", type=float, default=10.0, help="of speech and pauses (default 10)")
    parser.add_argument("--silence-hours", type=float, default=1.0, help="before speech (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every minute's numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them")
    args = parser.parse_args()

    sample = np.concatenate([samples for samples, _ in read_blocks(SAMPLE)])
    recognizer = Recognizer(args.model, chunk_ms=CHUNK_MS)
    minutes, utterances = endure(recognizer, repetition(sample), max(1, round(60 * args.hours)))
    if args.json:
        args.json.write_text(json.dumps({"minutes": [asdict(m) for m in minutes]}))
    if args.plot:
        plot(minutes, args.plot)

    memory = [minute.memory_mb for minute in minutes]
    growth = max(memory) - memory[min(WARM_UP_MINUTES, len(memory)) - 1]
    print(f"memory            {memory[-1]:8.1f} MB, growth {growth:.2f} MB, goal below {GOAL_GROWTH_MB:g} MB")
    tenth = max(1, len(minutes) // 10)
    for name in ("chunk_ms_p50", "chunk_ms_p95"):
        first, last = (
            float(np.median([getattr(m, name) for m in part])) for part in (minutes[:tenth], minutes[-tenth:])
        )
        print(
            f"{name}      {first:8.2f} ms in the first tenth, {last:.2f} ms in the last: "
            f"ratio {last / first:.3f}, goal {GOAL_RATIO:g}"
        )
    print(f"real-time factor  {sum(minute.cpu_s for minute in minutes) / 60 / len(minutes):8.4f}")
    print(f"utterances, how often, and when in {PERIOD / SAMPLE_RATE:g} s that are repeated:")
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for text, start, end in utterances.elements():
        spans[text].append((start, end))
    for text, times in sorted(spans.items(), key=lambda item: -len(item[1])):
        (start, end), spread = np.mean(times, axis=0), np.ptp(times, axis=0).max()
        print(f"  {len(times):5} x {start:6.2f} to {end:5.2f} s, within {spread:.2f} s  {text}")
    silence_s = 1 + 16 * round(225 * args.silence_hours)  # 16 s are 25 chunks: the chunk grid stays the same
    short, long = (after_silence(recognizer, seconds, sample) for seconds in (1, silence_s))
    print(f"after {silence_s} s of silence: {'the same' if long == short else f'{long}, not {short}'} as after 1 s")


if __name__ == "__main__":
    main()
