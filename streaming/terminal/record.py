"""`asr record`: records you reading prompts aloud, and writes the recordings and a manifest for `asr prepare manifest`.

Each recording is on disk before the next prompt appears. If the session ends early, the same command continues with the
remaining prompts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

import asr
from asr.files import replacing
from asr.streaming.audio.microphone import Microphone, MicrophoneError, device_of
from asr.streaming.audio.reporting_thread import run_apart
from asr.streaming.resampler import SAMPLE_RATE, Resampler
from asr.tables import RECORDED, tsv_line

PROMPTS = Path(asr.__file__).parent / "samples" / "prompts.txt"
"""Bundled sentences, about five minutes of reading."""
COLUMNS = ("path", "text", "speaker")
_HEADER = tsv_line({name: name for name in COLUMNS})
MAX_RECORDING_S = 30.0
MIN_RECORDING_S = 0.5
TAIL_S = 0.25
"""Recording continues for this long after the key that ends it, because people press it before the last syllable
ends."""
QUIET_PEAK = 0.02
CLIPPED_SHARE = 1e-3
"""A recording with more samples at full scale than this is too loud."""


class Recorder:
    """The recordings of one folder and their manifest. Numbering continues after the last session's."""

    def __init__(self, folder: Path, speaker: str) -> None:
        """Opens or creates `folder`. Raises ValueError if its manifest is not from this command, and for a speaker that
        does not fit into it."""
        tsv_line({"speaker": speaker})
        self.folder = folder
        self.speaker = speaker
        folder.mkdir(parents=True, exist_ok=True)
        self.manifest = folder / RECORDED
        self.texts: list[str] = []
        if self.manifest.exists():
            self.texts = [text for _, text, _ in self._rows()]

    def _rows(self) -> list[list[str]]:
        """The rows of the manifest, whose last line is completed or removed if it has no line break."""
        content = self.manifest.read_bytes()
        *lines, last = content.decode(errors="replace").replace("\r\n", "\n").split("\n")
        rows = [line.split("\t") for line in lines]
        is_own = tuple(rows[0]) == COLUMNS if rows else _HEADER.startswith(last)
        if not is_own or any(len(row) != len(COLUMNS) for row in rows):
            raise ValueError(f"{self.manifest} is not a manifest of `asr record`; choose another --out")
        if last:  # a full disk cut it off, or an editor ended the file without a line break
            row, speakers = last.split("\t"), {self.speaker, *(row[2] for row in rows)}
            if len(row) == len(COLUMNS) and row[2] in speakers:
                rows.append(row)
                self._write("\n")
            elif len(row) == len(COLUMNS) and rows and row[2]:
                raise ValueError(
                    f"the last line of {self.manifest} may be cut off after {row[2]!r}: complete its speaker and "
                    "end it with a line break, or delete it"
                )
            else:
                os.truncate(self.manifest, content.rfind(b"\n") + 1)
        return rows[1:]

    def keep(self, samples: np.ndarray, text: str) -> Path:
        """Writes `samples`, (num_samples,) float32 at 16 kHz, and its line in the manifest."""
        import soundfile

        row = dict(zip(COLUMNS, ("", text, self.speaker), strict=True))
        tsv_line(row)  # raises ValueError before there is a recording without its line
        number = len(self.texts) + 1
        while (path := self.folder / f"{number:04d}.flac").exists():  # a session ended before the manifest was written
            number += 1
        with replacing(path) as part:
            soundfile.write(part, np.clip(samples, -1, 1), SAMPLE_RATE, "PCM_16", format="FLAC")
        is_new = not self.manifest.exists() or not self.manifest.stat().st_size
        self._write(_HEADER * is_new + tsv_line({**row, "path": path.name}))
        self.texts.append(text)
        return path

    def _write(self, lines: str) -> None:
        with self.manifest.open("a", encoding="utf-8", newline="") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())


def record(microphone: Microphone, stopped: Callable[[], bool]) -> tuple[np.ndarray, str]:
    """Records from now until `stopped`, and TAIL_S longer.

    Returns:
        (num_samples,) float32 at 16 kHz, and what spoiled it, as a message; empty if nothing did.
    """
    while microphone.read(0.0) is not None:
        pass  # discard audio recorded before
    pieces: list[np.ndarray] = []
    resampler = Resampler(microphone.sample_rate) if microphone.sample_rate != SAMPLE_RATE else None
    ends = time.monotonic() + MAX_RECORDING_S
    stopping = False
    while time.monotonic() < ends:
        if not stopping and stopped():
            stopping, ends = True, time.monotonic() + TAIL_S
        block = microphone.read(0.05)
        if block is None:
            continue
        if block.error or block.gap:
            return np.zeros(0, np.float32), block.error or f"{block.gap} samples were lost"
        pieces.append(resampler.accept(block.samples) if resampler else block.samples)
    if resampler:
        pieces.append(resampler.finish())
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    if not stopping:
        return samples, f"stopped after {MAX_RECORDING_S:g} s; press Enter when you are done"
    return samples, fault(samples)


def fault(samples: np.ndarray) -> str:
    """Why a recording, (num_samples,) float32 in ±1, cannot be used; empty if it can."""
    if len(samples) < MIN_RECORDING_S * SAMPLE_RATE:
        return f"only {len(samples) / SAMPLE_RATE:.1f} s long"
    if np.abs(samples).max() < QUIET_PEAK:
        return "too quiet: is this the right microphone, and is it switched on?"
    if (np.abs(samples) >= 0.999).mean() > CLIPPED_SHARE:
        return "too loud: move back, or turn the microphone down"
    return ""


def read_prompts(path: Path) -> list[str]:
    """One prompt per line; empty lines and lines that begin with # are skipped. Raises ValueError if there are none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"prompts {path} cannot be read: {error}") from error
    prompts = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]
    if not prompts:
        raise ValueError(f"{path} has no prompts: write one per line")
    for prompt in prompts:
        tsv_line({"prompt": prompt})  # refused here, not after it was recorded
    return prompts


class _Keys:
    """Lines of standard input, without blocking. Its end counts as q."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for line in sys.stdin:
                self._lines.put(line.strip().lower())
        finally:  # invalid UTF-8 also ends the session
            self._lines.put("q")

    def pressed(self) -> bool:
        return not self._lines.empty()

    def wait(self) -> str:
        while True:  # without a timeout, the wait would not notice Ctrl-C on Windows
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=0.2)


def walk(prompts: Iterable[str], recorder: Recorder, microphone: Microphone) -> int:
    """Presents the prompts to the reader; returns the number of recordings."""
    keys = _Keys()
    left = [prompt for prompt in prompts if prompt not in recorder.texts]
    recorded = 0
    print("Enter starts a recording, and Enter ends it. Then: Enter keeps it, r records again, s skips, q quits.\n")
    for number, prompt in enumerate(left, 1):
        print(f"[{number}/{len(left)}]  {prompt}", flush=True)
        while True:
            command = keys.wait()
            if command in ("s", "q"):
                break
            print("  recording ... Enter ends", flush=True)
            samples, error = record(microphone, keys.pressed)
            command = keys.wait() if keys.pressed() else ""
            if command == "q":
                break
            if error:
                print(f"  {error}. Enter records again", flush=True)
                continue
            peak_db = 20 * np.log10(np.abs(samples).max())
            print(f"  {len(samples) / SAMPLE_RATE:.1f} s, peak {peak_db:.0f} dB. Enter keeps it", flush=True)
            command = keys.wait()
            if command == "r":
                print("  Enter starts", flush=True)
                continue
            if command == "":
                recorder.keep(samples, prompt)
                recorded += 1
            break
        if command == "q":
            break
    return recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompts", type=Path, default=PROMPTS, metavar="FILE", help="one prompt per line (default: the bundled ones)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for recordings and manifest.tsv")
    parser.add_argument("--speaker", default="me", help="name for the manifest (default: %(default)s)")
    parser.add_argument("--device", metavar="ID", help="microphone, see asr-stream --list-devices")
    parser.add_argument(
        "--channel", type=int, default=1, metavar="N", help="channel of the microphone to record (default 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Entry of `asr record`; returns 130 after Ctrl-C, with all kept recordings on disk."""
    prompts = read_prompts(args.prompts)
    recorder = Recorder(args.out, args.speaker)
    status = 0
    try:
        opening = partial(Microphone, device_of(args.device), rescan=True, channel=args.channel)
        with run_apart("sound-system", opening) as microphone:
            walk(prompts, recorder, microphone)
    except KeyboardInterrupt:
        status = 130
    except MicrophoneError as error:
        raise ValueError(str(error)) from error
    if not recorder.texts:
        print("\nNothing was recorded.")
    else:
        print(f"\n{recorder.manifest}: {len(recorder.texts)} recordings.")
        print(f"Next:  asr prepare manifest {recorder.manifest} --out data --name mine")
    return status
