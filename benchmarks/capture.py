"""Measures audio lost to a busy interpreter: python benchmarks/capture.py [--seconds 60]

A thread of the capturing process holds the interpreter for half a second at a time, and releases it for a millisecond.
Meanwhile a counting signal is captured from the virtual microphone (PulseAudio, whose server buffers for a late client)
and from the virtual sound card (whose buffer is as small as a real one's), both from tests/: with the microphone's C
callback, and with its fallback, a Python callback. Every missing sample is counted. Needs Linux, with the Debian
packages of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.recording_process import Recording, RecordingProcess, counting, record
from support.sound_card import SoundCard, num_missing
from support.virtual_microphone import SAMPLE_RATE, VirtualMicrophone

CALLBACKS = {"C callback": (), "Python callback": ("python-callback",)}


def from_server(microphone: VirtualMicrophone, folder: Path, seconds: float, *ways: str) -> tuple[Recording, float]:
    """The recording, and the seconds of the played audio that are missing in it."""
    num_samples = round(seconds * SAMPLE_RATE)
    recording = record(microphone, folder, counting(num_samples), "held-interpreter", *ways)
    return recording, (num_samples - np.count_nonzero(recording.samples)) / SAMPLE_RATE


def from_card(card: SoundCard, folder: Path, seconds: float, *ways: str) -> tuple[Recording, float]:
    process = RecordingProcess(card.env, folder / "recording.npy", "held-interpreter", *ways)
    time.sleep(seconds)
    recording = process.finish()
    return recording, num_missing(recording.samples).sum() / recording.sample_rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each capture (default 60)")
    args = parser.parse_args()
    print("| device | callback | captured | missing | reported gaps |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with VirtualMicrophone(folder) as microphone:
            for callback, ways in CALLBACKS.items():
                report("sound server", callback, *from_server(microphone, folder, args.seconds, *ways))
        card = SoundCard(folder)
        for callback, ways in CALLBACKS.items():
            report("sound card", callback, *from_card(card, folder, args.seconds, *ways))


def report(device: str, callback: str, recording: Recording, missing_s: float) -> None:
    captured_s = len(recording.samples) / recording.sample_rate
    gaps_s = sum(report["gap"] for report in recording.reports) / recording.sample_rate
    print(f"| {device} | {callback} | {captured_s:.2f} s | {missing_s:.3f} s | {gaps_s:.3f} s |", flush=True)


if __name__ == "__main__":
    main()
