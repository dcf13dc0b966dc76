"""`asr label`: a teacher, which is a Whisper model of faster-whisper (MIT), writes transcripts to train on.

The teacher runs on this machine, from a folder; nothing is downloaded. Its transcripts are kept if it is sure of them.
Whisper encodes 30 s at a time; for recordings of at most 14 s, half of that is encoded here, in a third of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from asr.command import counted, how_to_install
from asr.cores import num_cores
from asr.files import require_folder
from asr.streaming.audio.audio_file import read_blocks
from asr.streaming.corpus.progress import Progress
from asr.streaming.corpus.recordings import find_recordings
from asr.streaming.resampler import SAMPLE_RATE, Resampler
from asr.tables import Recording, Refusal, lines_of, tsv_line

DESCRIPTION = """\
Transcribe recordings that have no text with a teacher, a Whisper model in a
folder, as faster-whisper uses it, and keep the transcripts that it is sure of:
a table for `asr prepare manifest`. Run it again to continue after Ctrl-C. Look
at some of the transcripts before you train on them.
"""
EXAMPLES = """\
examples:
  asr label clips/ --teacher whisper-base -o labels.tsv
  asr label clips.tsv --teacher whisper-base -o labels.tsv --least-log-prob -0.3
  asr prepare manifest labels.tsv --out data

exit status: 0 all done, 1 some failed, 130 after Ctrl-C
"""
MAX_S, SHORT_S = 30.0, 14.0
FRAMES, SHORT_FRAMES = 3000, 1500
"""Feature frames of 10 ms that the teacher encodes; half of them for at most SHORT_S."""
MAX_NO_SPEECH = 0.5
MIN_WORDS = 2
WORDS_PER_S = (0.7, 5.0)
NUM_REPEATED = 4
COLUMNS = ("path", "text", "speaker", "log_prob")


class Label(NamedTuple):
    """A transcript. log_prob: mean natural log-probability of a token; no_speech: probability of no speech."""

    text: str
    log_prob: float
    no_speech: float

    def trouble(self, duration_s: float, least_log_prob: float) -> str:
        """Why it is not used; else empty."""
        words = self.text.split()
        fewest, most = (rate * duration_s for rate in WORDS_PER_S)
        pieces = [tuple(words[i : i + NUM_REPEATED]) for i in range(len(words) - NUM_REPEATED + 1)]
        troubles = {
            "unsure": self.log_prob < least_log_prob,
            "no speech": self.no_speech > MAX_NO_SPEECH or not words,
            "too few words": len(words) < MIN_WORDS or len(words) < fewest,
            "too many words": len(words) > most,
            "repeats itself": any(a == b for a, b in zip(pieces, pieces[NUM_REPEATED:], strict=False)),
        }
        return next((name for name, is_so in troubles.items() if is_so), "")


class Teacher:
    """A Whisper model. Several threads may use it at once."""

    def __init__(self, folder: Path, language: str, beam_size: int, num_workers: int) -> None:
        """Raises ValueError for a folder without a model."""
        os.environ["HF_HUB_OFFLINE"] = "1"  # before faster-whisper loads the library that could look for models
        import ctranslate2
        from faster_whisper import WhisperModel
        from faster_whisper.tokenizer import Tokenizer

        if not (folder / "model.bin").is_file():
            raise ValueError(f"--teacher {folder}: there is no model.bin; name the folder of a faster-whisper model")
        try:
            self._model = WhisperModel(
                str(folder), compute_type="int8", cpu_threads=1, num_workers=num_workers, local_files_only=True
            )
        except (RuntimeError, OSError) as error:
            raise ValueError(f"--teacher {folder} cannot be used: {error}") from error
        self._tensor = ctranslate2.StorageView.from_array
        self._beam_size = beam_size
        hugging = self._model.hf_tokenizer
        self._tokenizer = Tokenizer(hugging, self._model.model.is_multilingual, task="transcribe", language=language)
        self._prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        # Numbers must be in words, as in all transcripts to train on.
        self._digits = [id for id in range(self._tokenizer.eot) if set("0123456789%$€£") & set(hugging.decode([id]))]

    def __call__(self, samples: np.ndarray) -> Label:
        """samples: (num_samples,) float32, 16 kHz, at most MAX_S."""
        num_frames = SHORT_FRAMES if len(samples) <= SHORT_S * SAMPLE_RATE else FRAMES
        padded = np.pad(samples, (0, max(0, int(MAX_S * SAMPLE_RATE) - len(samples))))
        features = self._model.feature_extractor(padded)[None, :, :num_frames]
        encoded = self._model.model.encode(self._tensor(np.ascontiguousarray(features, np.float32)))
        (found,) = self._model.model.generate(
            encoded,
            [self._prompt],
            beam_size=self._beam_size,
            max_length=len(self._prompt) + int(8 * MAX_S),
            suppress_tokens=[-1, *self._digits],
            return_scores=True,
            return_no_speech_prob=True,
        )
        text = " ".join(self._tokenizer.decode(found.sequences_ids[0]).split())
        return Label(text, float(found.scores[0]), float(found.no_speech_prob))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `asr label` on `parser`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("inputs", nargs="+", metavar="MANIFEST|FOLDER", help="as for asr transcribe")
    parser.add_argument("--teacher", type=Path, required=True, metavar="DIR", help="folder of a faster-whisper model")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.tsv", help="table of transcripts")
    parser.add_argument("--language", default="en", metavar="CODE", help="of the recordings (en)")
    parser.add_argument(
        "--least-log-prob",
        type=float,
        default=-0.4,
        metavar="NATS",
        help="drop transcripts with a lower mean log-probability of a token; on short read sentences, about 9%% of the "
        "words of those above -0.4 are wrong with Whisper base, and 5%% above -0.2 (-0.4)",
    )
    parser.add_argument("--beam-size", type=int, default=5, metavar="N", help="of the teacher (5)")
    parser.add_argument("--audio-root", metavar="DIR", help="base folder of relative paths in tables")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="recordings at a time (default: one for each core)")


@dataclass
class Counts:
    kept: int = 0
    dropped: int = 0
    failed: int = 0


def run(args: argparse.Namespace) -> int:
    """`asr label` with parsed arguments; returns the exit status. Raises ValueError and OSError."""
    jobs = num_cores() if args.jobs is None else args.jobs
    for name, value in (("--jobs", jobs), ("--beam-size", args.beam_size)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if args.output.suffix != ".tsv":
        raise ValueError(f"{args.output}: the table of transcripts must end in .tsv")
    require_folder(args.output, *args.inputs)
    found = find_recordings(args.inputs, args.audio_root)
    dropped_path = args.output.with_suffix(".dropped.tsv")
    done = {row[0] for path in (args.output, dropped_path) for row in _rows(path)}
    left = [each for each in found if isinstance(each, Recording) and str(each.audio) not in done]
    try:
        teacher = Teacher(args.teacher, args.language, args.beam_size, jobs)
    except ModuleNotFoundError as error:
        raise ValueError(f"asr label needs more packages ({error}): {how_to_install('teacher')}") from error
    counts = Counts(failed=sum(isinstance(each, Refusal) for each in found))
    with contextlib.ExitStack() as stack:
        kept, dropped = (stack.enter_context(_table(path)) for path in (args.output, dropped_path))
        progress = stack.enter_context(Progress(left))
        pool = stack.enter_context(_pool(jobs))
        for recording, outcome in zip(left, pool.map(lambda each: _labeled(teacher, each), left), strict=True):
            label, duration_s = outcome
            if isinstance(label, str):
                counts.failed += 1
                print(f"{recording.audio}: {label}", file=sys.stderr)
            else:
                trouble = label.trouble(duration_s, args.least_log_prob)
                row = [str(recording.audio), label.text, recording.speaker or "", f"{label.log_prob:.3f}"]
                _append(dropped if trouble else kept, [*row, trouble] if trouble else row)
                counts.kept += not trouble
                counts.dropped += bool(trouble)
            progress.add(duration_s, isinstance(label, str))
    print(
        f"{counted(counts.kept, 'transcript')} in {args.output}, {counts.dropped} in {dropped_path}"
        f"{f', {len(done)} labeled earlier' if done else ''}{f', {counts.failed} failed' if counts.failed else ''}",
        file=sys.stderr,
    )
    return int(bool(counts.failed))


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads; on an error or Ctrl-C, those that have not begun are dropped."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _labeled(teacher: Teacher, recording: Recording) -> tuple[Label | str, float]:
    """The label, or why there is none, and the duration in seconds."""
    pieces: list[np.ndarray] = []
    try:
        tsv_line({"path": str(recording.audio), "speaker": recording.speaker or ""})  # raises ValueError
        resampler = None
        for samples, rate in read_blocks(recording.audio, max_s=MAX_S):
            resampler = resampler or Resampler(rate)
            pieces.append(resampler.accept(np.ascontiguousarray(samples)))
        pieces += [resampler.finish()] if resampler else []
    except (ValueError, MemoryError) as error:
        return str(error), 0.0
    samples = np.concatenate(pieces)[: int(MAX_S * SAMPLE_RATE)]
    return teacher(samples), len(samples) / SAMPLE_RATE


def _rows(path: Path) -> Sequence[list[str]]:
    return [line[:-1].split("\t") for line in lines_of(path) if line.endswith("\n")][1:] if path.exists() else []


@contextlib.contextmanager
def _table(path: Path) -> Iterator[IO[str]]:
    with path.open("a+b") as former:
        former.seek(0)
        num_bytes = former.read().rfind(b"\n") + 1
        former.truncate(num_bytes)  # a full disk may have cut off the last row
    with path.open("a", encoding="utf-8", newline="", buffering=1) as file:
        if not num_bytes:
            _append(file, [*COLUMNS, "reason"] if ".dropped" in path.name else COLUMNS)
        yield file


def _append(file: IO[str], row: Sequence[str]) -> None:
    file.write("\t".join(row) + "\n")  # in asr.tables, a quote is an ordinary character
