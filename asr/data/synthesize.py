"""`asr synthesize`: sentences spoken by the free synthesizers of the machine, to train on together with real speech.

Every utterance has a synthesizer, voice, rate and pitch of its own, drawn from the seed and its number alone: an
interrupted run goes on where it ended, and gives what an uninterrupted one would have. Written are 16 kHz FLAC
files and `DIR/manifest.tsv` (path, text, speaker, duration_s), which `asr prepare manifest` reads.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import lzma
import random
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from asr.cores import num_cores
from asr.data.audio import read_audio
from asr.features import SAMPLE_RATE
from asr.files import replacing

INSTALL = "apt-get install espeak-ng flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts"
RATES = (0.8, 1.25)
PITCHES = (0.8, 1.25)
MIN_WORDS, MAX_WORDS = 2, 35  # about 1 to 15 s
TIMEOUT_S = 120
MAX_FAILURES = 20

_COLUMNS = ("path", "text", "speaker", "duration_s")
# Voices of other sexes and ages; the further variants of espeak-ng are robots, whispers and jokes.
_ESPEAK_VARIANTS = ("", *(f"+m{i}" for i in range(1, 9)), *(f"+f{i}" for i in range(1, 6)))
_FESTIVAL_ENGLISH = re.compile(r"(kal|ked|rab|don|el)_diphone|cmu_us_\w+|nitech_us_\w+|(us|en)\d_mbrola")


@dataclass(frozen=True)
class Voice:
    """synthesizer: a key of SYNTHESIZERS; name: what that program calls the voice."""

    synthesizer: str
    name: str

    @property
    def speaker(self) -> str:
        return f"{self.synthesizer}-{self.name}"


def _espeak_voices() -> list[str]:
    listed = (line.split() for line in _output("espeak-ng", "--voices=en").splitlines()[1:])
    # mb/: needs MBROLA; variants are not accents
    accents = [row[1] for row in listed if len(row) > 4 and row[4].startswith("gmw/")]
    return [accent + variant for accent in accents for variant in _ESPEAK_VARIANTS]


def _espeak(voice: str, rate: float, pitch: float, text: Path, audio: Path) -> list[str]:
    settings = ("-s", f"{165 * rate:.0f}", "-p", f"{50 * pitch:.0f}")
    return ["espeak-ng", "-v", voice, *settings, "-f", str(text), "-w", str(audio)]


def _flite_voices() -> list[str]:
    # awb_time speaks times of day only; kal has 8 kHz and is the same man as kal16
    names = _output("flite", "-lv").partition(":")[2].split()
    return [name for name in names if name not in ("awb_time", "kal")]


def _flite(voice: str, rate: float, pitch: float, text: Path, audio: Path) -> list[str]:
    mean_hz = (170 if voice == "slt" else 105) * pitch
    settings = ("--setf", f"duration_stretch={1 / rate:.3f}", "--setf", f"int_f0_target_mean={mean_hz:.0f}")
    return ["flite", "-voice", voice, *settings, "-f", str(text), "-o", str(audio)]


def _festival_voices() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "voices.scm")
        script.write_text("(print (voice.list))")
        names = re.findall(r"\w+", _output("festival", "-b", str(script)))
    return [name for name in names if _FESTIVAL_ENGLISH.fullmatch(name)]


def _festival(voice: str, rate: float, pitch: float, text: Path, audio: Path) -> list[str]:
    setup = f"(begin (voice_{voice}) (Parameter.set 'Duration_Stretch {1 / rate:.3f})"
    if voice.endswith("_diphone"):  # the others bring their own melody
        setup += f" (set! int_lr_params '((target_f0_mean {105 * pitch:.0f}) (target_f0_std 14)"
        setup += " (model_f0_mean 170) (model_f0_std 34)))"
    return ["text2wave", "-eval", setup + ")", "-o", str(audio), str(text)]


Command = Callable[[str, float, float, Path, Path], list[str]]
SYNTHESIZERS: dict[str, tuple[str, Callable[[], list[str]], Command]] = {
    "espeak-ng": ("espeak-ng", _espeak_voices, _espeak),
    "flite": ("flite", _flite_voices, _flite),
    "festival": ("text2wave", _festival_voices, _festival),
}
"""Synthesizers by name: the program that each needs, its English voices, the command for a text file."""


def find_voices(synthesizers: Sequence[str] | None = None) -> dict[str, list[Voice]]:
    """The English voices of the synthesizers that are installed, or of those named.

    Raises ValueError with the line that installs them when there is none, or one of those named is missing.
    """
    names = list(synthesizers or SYNTHESIZERS)
    missing = [name for name in names if shutil.which(SYNTHESIZERS[name][0]) is None]
    if missing and (synthesizers or len(missing) == len(names)):
        raise ValueError(f"no {', '.join(missing)} on this machine; on Debian or Ubuntu: {INSTALL}")
    found = {name: [Voice(name, voice) for voice in SYNTHESIZERS[name][1]()] for name in names if name not in missing}
    found = {name: voices for name, voices in found.items() if voices}
    if not found:
        raise ValueError(f"{', '.join(names)}: no English voice; on Debian or Ubuntu: {INSTALL}")
    return found


def read_sentences(path: str | Path) -> list[str]:
    """The lines of a text file, plain, .gz or .xz, of 2 to 35 words; ValueError when there is none."""
    opener: Callable[..., object] = {".gz": gzip.open, ".xz": lzma.open}.get(Path(path).suffix, open)  # type: ignore[assignment]
    try:
        with opener(path, "rt", encoding="utf-8") as file:  # type: ignore[attr-defined]
            lines = [" ".join(line.split()) for line in file]
    except (OSError, UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be read: {error}; expected UTF-8 text, a sentence a line") from error
    sentences = [line for line in lines if MIN_WORDS <= len(line.split()) <= MAX_WORDS]
    if not sentences:
        raise ValueError(f"{path} holds no line of {MIN_WORDS} to {MAX_WORDS} words; expected a sentence a line")
    return sentences


@dataclass(frozen=True)
class Job:
    """One utterance to synthesize. path: of the FLAC file, relative to the folder of the manifest."""

    path: str
    text: str
    voice: Voice
    rate: float
    pitch: float


def plan(sentences: Sequence[str], voices: dict[str, list[Voice]], seed: int) -> Iterator[Job]:
    """Jobs without end: the sentences in random order, again and again, each time in another voice."""
    order = random.Random(seed).sample(range(len(sentences)), len(sentences))
    for number in count():
        rng = random.Random(f"{seed} {number}")
        voice = rng.choice(voices[rng.choice(sorted(voices))])
        path = f"audio/{number // 1000:04d}/{number:07d}.flac"
        yield Job(path, sentences[order[number % len(order)]], voice, rng.uniform(*RATES), rng.uniform(*PITCHES))


def speak(job: Job, folder: Path) -> float:
    """Writes `folder / job.path`, 16 kHz FLAC; returns its length in seconds. Raises ValueError if it fails."""
    import numpy as np
    import soundfile

    with tempfile.TemporaryDirectory(prefix="asr-synthesize-") as scratch:
        text, audio = Path(scratch, "text.txt"), Path(scratch, "speech.wav")
        # Words in capitals would be spelled.
        text.write_text((job.text.lower() if job.text.isupper() else job.text) + "\n", encoding="utf-8")
        _output(*SYNTHESIZERS[job.voice.synthesizer][2](job.voice.name, job.rate, job.pitch, text, audio))
        samples = read_audio(audio).samples
    peak = float(np.abs(samples).max(initial=0.0))
    if peak < 0.01:
        raise ValueError(f"{job.voice.speaker} was silent for {job.text!r}")
    target = folder / job.path
    target.parent.mkdir(parents=True, exist_ok=True)
    flac = io.BytesIO()
    soundfile.write(flac, samples * min(1.0, 0.99 / peak), SAMPLE_RATE, format="FLAC")
    with replacing(target) as part:
        part.write_bytes(flac.getbuffer())  # a full disk is an OSError
    return len(samples) / SAMPLE_RATE


def synthesize(
    jobs: Iterator[Job],
    out_dir: str | Path,
    num: int | None = None,
    hours: float | None = None,
    num_jobs: int = 1,
    on_progress: Callable[[int, float], object] | None = None,
) -> tuple[int, float, list[str]]:
    """Speaks `jobs` until there are `num` utterances or `hours` of them, what an earlier run left included.

    on_progress: called with the numbers of utterances and seconds so far.
    Returns both, and why utterances were left out. Raises ValueError when the folder holds the outcome of other
    jobs, or 20 jobs fail in a row.
    """
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "manifest.tsv"
    done = _read_manifest(manifest)
    total_s = sum(float(row[3]) for row in done.values())
    num_done, failures, in_a_row = len(done), [], 0
    pool = ThreadPoolExecutor(num_jobs)
    pending: deque[tuple[Job, Future[float]]] = deque()
    try:
        with manifest.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
            if file.tell() == 0:
                writer.writerow(_COLUMNS)
            while not ((num and num_done >= num) or (hours and total_s >= 3600 * hours)):
                while len(pending) < (2 * num_jobs if num is None else min(2 * num_jobs, num - num_done)):
                    job = next(jobs)
                    if job.path not in done:
                        pending.append((job, pool.submit(speak, job, folder)))
                    elif done[job.path][1:3] != [job.text, job.voice.speaker]:
                        raise ValueError(
                            f"{manifest} holds {job.path} of another text, seed or set of voices: "
                            "choose another --out, or the former arguments"
                        )
                job, future = pending[0]  # it leaves the queue when its outcome is known: until then Ctrl-C removes it
                try:
                    duration_s = future.result()
                except (ValueError, subprocess.SubprocessError) as error:
                    pending.popleft()
                    failures.append(f"{job.voice.speaker}: {error}")
                    in_a_row += 1
                    if in_a_row >= MAX_FAILURES:
                        raise ValueError(f"{in_a_row} utterances failed in a row; the last: {failures[-1]}") from error
                    continue
                in_a_row = 0
                pending.popleft()
                writer.writerow((job.path, job.text, job.voice.speaker, f"{duration_s:.3f}"))
                file.flush()
                num_done, total_s = num_done + 1, total_s + duration_s
                if on_progress is not None:
                    on_progress(num_done, total_s)
    finally:
        pool.shutdown(cancel_futures=True)
        for job, _ in pending:  # spoken in advance, not in the manifest
            (folder / job.path).unlink(missing_ok=True)
    return num_done, total_s, failures


def _read_manifest(manifest: Path) -> dict[str, list[str]]:
    """Rows by path. A last line that was being written when the machine stopped is removed from the file."""
    if not manifest.exists():
        return {}
    text = manifest.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        with replacing(manifest) as part:
            part.write_text(whole, encoding="utf-8")
    header, *rows = [line.split("\t") for line in whole.splitlines()] or [list(_COLUMNS)]
    if header != list(_COLUMNS) or any(len(row) != len(_COLUMNS) for row in rows):
        raise ValueError(f"{manifest} was not written by asr synthesize; choose another --out")
    return {row[0]: row for row in rows}


def _output(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise ValueError(f"{command[0]} ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `asr synthesize`'s arguments on `parser`."""
    parser.add_argument("text", type=Path, metavar="TEXT", help="one sentence per line; plain text, .gz or .xz")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for manifest.tsv and audio/")
    parser.add_argument("--num", type=int, metavar="N", help="stop at this many utterances")
    parser.add_argument("--hours", type=float, metavar="H", help="stop at this much speech")
    parser.add_argument(
        "--synthesizers", nargs="+", choices=list(SYNTHESIZERS), metavar="NAME", help="default: all that are installed"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed for the order, voices, rates and pitches (default: 1)"
    )
    parser.add_argument("--jobs", type=int, default=min(8, num_cores()), metavar="N", help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """`asr synthesize` with parsed arguments; returns the exit status (130 after Ctrl-C)."""
    from rich.console import Console
    from rich.progress import Progress

    if args.num is None and args.hours is None:
        raise ValueError("--num, --hours or both are needed: how much to synthesize")
    for name, value in (("--num", args.num), ("--hours", args.hours), ("--jobs", args.jobs)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value}; expected more than 0")
    sentences, voices = read_sentences(args.text), find_voices(args.synthesizers)
    console = Console()
    kinds = ", ".join(f"{name} ({len(several)} voices)" for name, several in voices.items())
    console.print(f"{len(sentences)} sentences; {kinds}", soft_wrap=True, highlight=False)
    try:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("speaking", total=1.0)

            def show(num: int, seconds: float) -> None:
                shares = (num / (args.num or float("inf")), seconds / (3600 * (args.hours or float("inf"))))
                progress.update(task, completed=max(shares), description=f"{num} utterances, {seconds / 3600:.2f} h")

            num, seconds, failures = synthesize(
                plan(sentences, voices, args.seed), args.out, args.num, args.hours, args.jobs, show
            )
    except KeyboardInterrupt:
        console.print("interrupted: what is spoken stays, the same command goes on from there")
        return 130
    console.print(f"{args.out / 'manifest.tsv'}: {num} utterances, {seconds / 3600:.2f} hours", soft_wrap=True)
    if failures:
        console.print(f"{len(failures)} left out, the last of them: {failures[-1]}", soft_wrap=True, markup=False)
    return 0
