"""Recognizes an hour in one piece: benchmarks/long_recording.py data/dev data/dev_cv --minutes 60

Utterances of data sets are concatenated to one recording: runs of up to six by one speaker with short pauses, longer
pauses between runs, and noise or music after two of three runs (`--noise DIR`: recordings; otherwise colored noise;
music is synthesized). `asr-stream --file` recognizes it, in its own process; a `Recognizer` with the same options
recognizes each utterance alone. Compares:

- WER of the recording over that of the utterances alone. A word belongs to the utterance at its time or next to it;
  words in a pause count as insertions.
- drift: how much later, on average, words of the last third are than words of the first third, relative to the times in
  the utterance alone and its position in the recording. p95: of the absolute difference, over all words in both. Chunks
  coincide only by chance, so differences of up to half an encoder frame, 20 ms, are expected.
- words in noise and music without speech.
- memory of the process after the first tenth of the recording, and its maximum growth after that; of the growth, how
  much was in the second half. Read from /proc, which needs Linux.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from command import by_speaker, progress, recognize, room_tone, show
from memory import resident_mb

from asr.data.audio import MAX_NOISE_S, find_sounds, read_audio
from asr.data.speech import Speech, evenly_spread
from asr.evaluation.wer import WordErrors, count_errors, matched_words
from asr.features import SAMPLE_RATE
from asr.runtime.search import Word
from asr.streaming.terminal.arguments import new_parser
from asr.streaming.terminal.options import new_recognizer
from asr.training.sounds import colored_noise

MAX_RUN = 6  # maximum utterances per run
PAUSES_S, TURN_PAUSES_S, NOISE_S = (0.2, 1.5), (0.8, 4.0), (4.0, 20.0)
MARGIN_S = 0.4
"""A word this far from an utterance still belongs to it, because times are accurate to about 0.1 s."""
SAME_S = 0.5
"""Words further apart than this are not the same word at different times."""
NOISE_LEVEL = 0.03  # root mean square; read speech has about 0.06


@dataclass(frozen=True)
class Span:
    """A part of the recording. text: that of an utterance, or None if there is no speech. samples: (n,) float32."""

    start_s: float
    samples: np.ndarray
    text: str | None
    is_noise: bool = False

    @property
    def end_s(self) -> float:
        return self.start_s + len(self.samples) / SAMPLE_RATE


def music(num_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Chords of plucked strings in a meter, and a beat: (num_samples,) float32 of power 1 or so."""
    time = np.arange(num_samples + SAMPLE_RATE) / SAMPLE_RATE
    sound = np.zeros(len(time))
    beat_s, key = rng.uniform(0.3, 0.6), rng.uniform(110.0, 220.0)
    for number in range(int(num_samples / SAMPLE_RATE / beat_s) + 1):
        begin = int(number * beat_s * SAMPLE_RATE)
        local = time[: min(SAMPLE_RATE, len(time) - begin)]
        root = key * 2 ** ((0, 5, 7, 9)[number // 4 % 4] / 12)
        for step in (0, 4, 7, int(rng.choice([12, 14, 16]))):
            pitch = root * 2 ** (step / 12)
            note = sum(np.sin(2 * np.pi * k * pitch * local) / k for k in range(1, 6))
            sound[begin : begin + len(local)] += note * np.exp(-4 * local)
        sound[begin : begin + len(local)] += rng.standard_normal(len(local)) * np.exp(-60 * local)
    sound = sound[:num_samples]
    return (sound / np.sqrt(np.mean(sound**2))).astype(np.float32)


def background(num_samples: int, noises: Sequence[str], number: int, rng: np.random.Generator) -> np.ndarray:
    """Music or, every other time, noise: a part of one of the recordings `noises`, or colored noise."""
    if number % 2:
        sound = music(num_samples, rng)
    elif noises:
        recording = read_audio(noises[number // 2 % len(noises)], MAX_NOISE_S).samples
        sound = np.resize(np.roll(recording, -int(rng.integers(len(recording)))), num_samples)
    else:
        sound = colored_noise(num_samples, rng)
    faded = np.minimum(np.minimum(np.arange(num_samples), np.arange(num_samples)[::-1]) / (0.2 * SAMPLE_RATE), 1.0)
    return (NOISE_LEVEL * faded * sound / max(np.sqrt(np.mean(sound**2)), 1e-6)).astype(np.float32)


def runs(clips: Sequence[Any], seed: int) -> list[list[Any]]:
    """The utterances in runs of up to MAX_RUN by one speaker, in random order."""
    found: list[list[Any]] = []
    for group in by_speaker(clips):
        found += [group[i : i + MAX_RUN] for i in range(0, len(group), MAX_RUN)]
    random.Random(seed).shuffle(found)
    return found


def joined(clips: Sequence[Any], max_s: float, noises: Sequence[str], seed: int = 0) -> Iterator[Span]:
    """The spans of a recording of the utterances, not much longer than `max_s`."""
    rng = np.random.default_rng(seed)
    now = 0  # samples
    for number, run in enumerate(runs(clips, seed)):
        for i, clip in enumerate(run):
            samples = clip.waveform()
            bounds = PAUSES_S if i + 1 < len(run) else TURN_PAUSES_S
            for text, sound in ((clip.text, samples), (None, room_tone(samples, rng.uniform(*bounds)))):
                yield Span(now / SAMPLE_RATE, sound, text)
                now += len(sound)
            if now > max_s * SAMPLE_RATE:
                return
        if number % 3 < 2:
            sound = background(round(rng.uniform(*NOISE_S) * SAMPLE_RATE), noises, number // 3 * 2 + number % 3, rng)
            yield Span(now / SAMPLE_RATE, sound, None, is_noise=True)
            now += len(sound)


def run_program(path: Path, options: Sequence[str]) -> tuple[list[dict[str, Any]], list[tuple[float, float]]]:
    """Finals of `asr-stream --file`, and (seconds of audio, MB) at each of its events."""
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "--file", str(path), "--format", "json", *options]
    finals: list[dict[str, Any]] = []
    memory: list[tuple[float, float]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            memory.append((event["end"], resident_mb(process.pid)))
            if event["type"] == "final":
                finals.append(event)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return finals, memory


def words_of(finals: Sequence[dict[str, Any]]) -> list[Word]:
    """The raw text of the finals."""
    found = [word for final in finals for word in final.get("raw_words", final["words"])]
    return [Word(word["word"], word["start"], word["end"], word["confidence"]) for word in found]


@dataclass
class Comparison:
    """Compares the words of the recording with those of the utterances alone."""

    long: WordErrors = field(default_factory=WordErrors)
    alone: WordErrors = field(default_factory=WordErrors)
    in_pauses: int = 0
    in_noise: int = 0
    shifts: list[tuple[float, float]] = field(default_factory=list)
    """For words in both: seconds of the recording, and how much later, in s, the word begins there."""
    worse: list[tuple[int, float, str, str, str]] = field(default_factory=list)
    """Additional errors, position, reference, the words of the recording, those of the utterance alone."""

    def add(self, span: Span, found: Sequence[Word], alone: Sequence[Word]) -> None:
        """Adds an utterance: its words in the recording, and its words when recognized alone, with times from its own
        start."""
        assert span.text is not None
        texts = [" ".join(word.word for word in words).upper() for words in (found, alone)]
        errors = [count_errors([span.text], [text]) for text in texts]
        self.long += errors[0]
        self.alone += errors[1]
        more = errors[0].num_errors - errors[1].num_errors
        if more > 0:
            self.worse.append((more, span.start_s, span.text, *texts))
        for i, j in matched_words([word.word for word in alone], [word.word for word in found]):
            shift = found[j].start - span.start_s - alone[i].start
            if abs(shift) < SAME_S:
                self.shifts.append((found[j].start, shift))

    @property
    def ratio(self) -> float:
        """Errors of the recording, including words in pauses, over those of the utterances alone."""
        return (self.long.num_errors + self.in_pauses) / max(self.alone.num_errors, 1)

    def drift_ms(self) -> float:
        """How much later words are in the last third than in the first."""
        ordered = np.array([shift for _, shift in sorted(self.shifts)] or [np.nan])
        third = max(len(ordered) // 3, 1)
        return float(1000 * (ordered[-third:].mean() - ordered[:third].mean()))


def divide(words: Sequence[Word], spans: Sequence[Span]) -> list[list[Word]]:
    """The words of each span, by their middles. A word within MARGIN_S of an utterance belongs to it."""
    found: list[list[Word]] = [[] for _ in spans]
    spoken = [place for place, span in enumerate(spans) if span.text is not None]
    for word in words:
        middle = (word.start + word.end) / 2

        def distance(place: int, middle: float = middle) -> float:
            return max(spans[place].start_s - middle, middle - spans[place].end_s, 0.0)

        nearest = min(spoken, key=distance)
        if distance(nearest) > MARGIN_S:
            nearest = min(range(len(spans)), key=distance)
        found[nearest].append(word)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the recording (default 10)")
    parser.add_argument("--noise", type=Path, metavar="DIR", help="recordings of noise (default: colored noise)")
    parser.add_argument("--seed", type=int, default=0, help="of the order, the pauses and the noise (default 0)")
    parser.add_argument("--keep", type=Path, metavar="WAV", help="keep the recording, and its finals as WAV.json")
    parser.add_argument("--num-worse", type=int, default=0, metavar="N", help="print utterances that have become worse")
    parser.add_argument("--json", action="store_true", help="print rows for programs")
    parser.add_argument("options", nargs="*", help="of asr-stream, after --: -- --chunk-ms 160")
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    args, options = parser.parse_args(argv[:split]), argv[split + 1 :]

    noises = find_sounds(args.noise, "noise") if args.noise else ()
    clips = [clip for path in args.data for clip in Speech.load(path)]
    # Somewhat more than needed, so that all speakers are included even in a short recording.
    wanted_s = 60 * args.minutes
    share = min(1.0, 0.75 * wanted_s / sum(clip.seconds for clip in clips))
    spans = list(joined(evenly_spread(clips, max(1, round(share * len(clips)))), wanted_s, noises, args.seed))
    with tempfile.TemporaryDirectory() as folder:
        path = args.keep or Path(folder, "joined.wav")
        with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, "PCM_16") as file:
            for span in spans:
                file.write(np.clip(span.samples, -1.0, 1.0))
        finals, memory = run_program(path, options)
    if args.keep:
        args.keep.with_suffix(".wav.json").write_text(json.dumps(finals))

    recognizer = new_recognizer(new_parser().parse_args(["--sample", *options]))
    comparison = Comparison()
    for span, words in zip(progress(spans, "alone"), divide(words_of(finals), spans), strict=True):
        if span.text is not None:
            comparison.add(span, words, recognize(recognizer, as_stored(span.samples)))
        elif span.is_noise:
            comparison.in_noise += len(words)
        else:
            comparison.in_pauses += len(words)
    show([summary(spans, finals, memory, comparison)], args)
    for more, start_s, *texts in sorted(comparison.worse, reverse=True)[: args.num_worse]:
        print(f"{more} more at {start_s:.2f} s", *texts, sep="\n  ", file=sys.stderr)


def as_stored(samples: np.ndarray) -> np.ndarray:
    """`samples` rounded to 16 bits, so that both recognitions get the same audio."""
    return (np.round(np.clip(samples, -1.0, 1.0) * 32768).clip(-32768, 32767) / 32768).astype(np.float32)


def summary(
    spans: Sequence[Span],
    finals: Sequence[dict[str, Any]],
    memory: Sequence[tuple[float, float]],
    comparison: Comparison,
) -> dict[str, Any]:
    total_s = spans[-1].end_s
    begin_mb, half_mb, most_mb = (most_memory(memory, share * total_s) for share in (0.1, 0.5, 1.0))
    endpoints = [final["endpoint"] for final in finals]
    shifts_ms = 1000 * np.array([shift for _, shift in comparison.shifts] or [np.nan])
    return {
        "minutes": round(total_s / 60, 1),
        "utterances": sum(span.text is not None for span in spans),
        "finals": len(finals),
        "forced": endpoints.count("max_utterance"),
        "wer_alone": comparison.alone.rate,
        "wer": comparison.alone.rate * comparison.ratio,
        "ratio": comparison.ratio,
        "words_in_pauses": comparison.in_pauses,
        "words_in_noise": comparison.in_noise,
        "minutes_of_noise": round(sum(span.end_s - span.start_s for span in spans if span.is_noise) / 60, 2),
        "drift_ms": comparison.drift_ms(),
        "shift_ms_mean": float(shifts_ms.mean()),
        "shift_ms_p95": float(np.percentile(np.abs(shifts_ms), 95)),
        "begin_mb": begin_mb,
        "growth_mb": most_mb - begin_mb,
        "late_growth_mb": most_mb - half_mb,
    }


def most_memory(memory: Sequence[tuple[float, float]], end_s: float) -> float:
    """Maximum MB until a time in the recording; the last event may be after its end."""
    return max((mb for seconds, mb in memory if seconds <= end_s + 1), default=float("nan"))


if __name__ == "__main__":
    main()
