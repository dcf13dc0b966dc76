"""What a process captures from the virtual microphone while something is played: `hear`.

Run as a program it is that process: hearing.py PATH NUM_SAMPLES WAY ...
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from virtual_microphone import SAMPLE_RATE, VirtualMicrophone

LEAD_IN = np.zeros(8000, np.int16)
"""Silence to begin a playback with."""
LATE_S = 3.0
"""Samples come so long after the playback at most, however busy the machine is."""
COUNT = 32767
WAYS = ("python-callback", "held-interpreter", "refuses-16-khz")


@dataclass(frozen=True)
class Heard:
    """samples: (num_samples,) float32 of `sample_rate` Hz; the rest is what the microphone said of losses."""

    samples: np.ndarray
    sample_rate: int
    gap: int
    errors: list[str]


def counting(num_samples: int) -> np.ndarray:
    """(num_samples,) int16 that count from 1 to COUNT again and again: every sample says which one it is."""
    return (np.arange(num_samples) % COUNT + 1).astype(np.int16)


def losses(heard: np.ndarray, num_samples: int) -> list[int]:
    """How many samples of `counting(num_samples)` are missing at each place where `heard`, float32, counts wrong.

    A loss of more than COUNT samples looks shorter by whole COUNTs; how many are missing in all is exact.
    """
    counts = np.rint(heard[heard != 0] * 32768).astype(int)
    ends = np.concatenate([[0], counts, [(num_samples % COUNT) + 1]])
    jumps = (np.diff(ends) - 1) % COUNT
    return jumps[jumps != 0].tolist()


def hear(virtual_microphone: VirtualMicrophone, folder: Path, audio: np.ndarray, *ways: str) -> Heard:
    """Plays `audio`, (num_samples,) int16 without zeros, while another process captures it in these WAYS."""
    soundfile.write(folder / "play.wav", np.concatenate([LEAD_IN, audio]), SAMPLE_RATE)
    command = [sys.executable, __file__, str(folder / "heard.npy"), str(len(audio)), *ways]
    with subprocess.Popen(
        command, env=virtual_microphone.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        with virtual_microphone.play(folder / "play.wav") as player:
            assert player.wait(timeout=len(audio) / SAMPLE_RATE + 60) == 0
        timer = threading.Timer(LATE_S, process.stdin.close)
        timer.start()
        summary = json.loads(process.stdout.read())
        timer.cancel()
    assert process.returncode == 0
    return Heard(np.load(folder / "heard.npy"), **summary)


def main(path: str, num_samples: str, *ways: str) -> None:
    from asr.streaming.capture import Capture
    from asr.streaming.microphone import Microphone

    if "python-callback" in ways:
        Capture._open_native = lambda *_: None
    if "refuses-16-khz" in ways:
        import sounddevice

        opened = Capture.__init__

        def refuse(self, sounddevice_, device, sample_rate, num_channels, *more):
            if sample_rate == 16000:
                raise sounddevice.PortAudioError("Invalid sample rate")
            opened(self, sounddevice_, device, sample_rate, num_channels, *more)

        Capture.__init__ = refuse

    def hold() -> None:
        usleep = ctypes.PyDLL(None).usleep  # a C function that does not let go of the interpreter
        while True:
            usleep(500_000)
            time.sleep(0.001)

    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
    pieces, gap, errors, num_heard = [], 0, [], 0
    with Microphone() as microphone:
        expected = int(num_samples) * microphone.sample_rate / SAMPLE_RATE
        while not told.is_set():
            block = microphone.read(0.05)
            if block is None:
                if num_heard >= expected:
                    break
                continue
            if not pieces:
                print("listening", flush=True)
                if "held-interpreter" in ways:
                    threading.Thread(target=hold, daemon=True).start()
            pieces.append(block.samples)
            num_heard += np.count_nonzero(block.samples)
            gap += block.gap
            errors += [block.error] * bool(block.error)
    while (block := microphone.read()) is not None:
        pieces.append(block.samples)
    np.save(path, np.concatenate(pieces))
    print(json.dumps({"sample_rate": microphone.sample_rate, "gap": gap, "errors": errors}))


if __name__ == "__main__":
    main(*sys.argv[1:])
