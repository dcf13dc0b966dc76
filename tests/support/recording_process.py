"""A process that records from the default microphone: `RecordingProcess`.

Run as a program, in tests/, it is that process: python -m support.recording_process PATH NUM_SAMPLES WAY ...
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
from types import SimpleNamespace
from typing import Any

import numpy as np
import soundfile

from support.virtual_microphone import SAMPLE_RATE, VirtualMicrophone

LEAD_IN = np.zeros(8000, np.int16)
"""Silence to play before the audio."""
LATE_S = 3.0
"""The maximum delay of samples after playback, even on a busy machine."""
COUNT = 32767


@dataclass(frozen=True)
class Recording:
    """samples: (num_samples,) float32 of `sample_rate` Hz. reports: see `RecordingProcess`."""

    samples: np.ndarray
    sample_rate: int
    reports: list[dict[str, Any]]


class RecordingProcess:
    """The process; it records from the first sample that it gets.

    reports: of every block that has a gap or an error, when it came (`time.monotonic`), at which `position` in the
    samples, its `gap`, its `error`, and whether the device is `lost`.
    """

    def __init__(self, env: dict[str, str], path: Path, *ways: str, num_samples: int = 0, channel: int = 1) -> None:
        """Ends by itself when it has recorded `num_samples` that are not zero, if that is given.

        ways: "python-callback" has PortAudio call Python; "held-interpreter" keeps everything else in the process
        from running, half a second at a time.
        """
        command = [sys.executable, "-m", "support.recording_process", str(path), str(num_samples), str(channel), *ways]
        self.reports: list[dict[str, Any]] = []
        self._path = path
        self._process = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        self._sample_rate = int(line)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.reports.append(json.loads(line))

    def wait_for(self, key: str, seconds: float = 30.0) -> dict[str, Any]:
        """Waits for the first report with a value at `key`."""
        end = time.monotonic() + seconds
        while not (found := [report for report in self.reports if report[key]]):
            assert time.monotonic() < end and self._process.poll() is None, f"no {key} in {self.reports}"
            time.sleep(0.01)
        return found[0]

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def finish(self, timeout_s: float = 0.0) -> Recording:
        """Stops the process after `timeout_s`, unless it has already ended."""
        assert self._process.stdin is not None
        self._reader.join(timeout_s)
        self._process.stdin.close()
        self._reader.join()
        assert self._process.wait() == 0
        return Recording(np.load(self._path), self._sample_rate, self.reports)


def counting(num_samples: int) -> np.ndarray:
    """(num_samples,) int16 that count from 1 to COUNT repeatedly, so that every sample identifies itself."""
    return (np.arange(num_samples) % COUNT + 1).astype(np.int16)


def record(virtual_microphone: VirtualMicrophone, folder: Path, audio: np.ndarray, *ways: str) -> Recording:
    """Plays `audio`, (num_samples,) int16 without zeros, while a `RecordingProcess` captures it."""
    soundfile.write(folder / "play.wav", np.concatenate([LEAD_IN, audio]), SAMPLE_RATE)
    process = RecordingProcess(virtual_microphone.env, folder / "recording.npy", *ways, num_samples=len(audio))
    with virtual_microphone.play(folder / "play.wav") as player:
        assert player.wait(timeout=len(audio) / SAMPLE_RATE + 60) == 0
    return process.finish(LATE_S)


def main(path: str, num_samples: str, channel: str, *ways: str) -> None:
    import sounddevice

    from asr.streaming.audio.microphone import Microphone

    if "python-callback" in ways:  # as with a release of sounddevice that has no longer what native callbacks need
        names = {name: value for name, value in vars(sounddevice).items() if name != "_StreamBase"}
        sys.modules["sounddevice"] = SimpleNamespace(**names)

    def hold() -> None:
        usleep = ctypes.PyDLL(None).usleep  # a C function that does not release the interpreter lock
        while True:
            usleep(500_000)
            time.sleep(0.001)

    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    pieces: list[np.ndarray] = []
    position = num_loud = 0

    def take(block) -> None:
        nonlocal position, num_loud
        if not pieces:
            print(block.sample_rate, flush=True)
            if "held-interpreter" in ways:
                threading.Thread(target=hold, daemon=True).start()
        if block.gap or block.error:
            about = {"gap": block.gap, "error": block.error, "lost": block.lost}
            print(json.dumps({"when": time.monotonic(), "position": position, **about}), flush=True)
        pieces.append(block.samples)
        position += len(block.samples)
        num_loud += np.count_nonzero(block.samples)

    with Microphone(rescan=True, channel=int(channel)) as microphone:
        while not stopping.is_set():
            block = microphone.read(0.05)
            if block is not None:
                take(block)
            elif num_loud and num_loud >= int(num_samples) > 0:
                break
    while (block := microphone.read()) is not None:
        take(block)
    np.save(path, np.concatenate(pieces))


if __name__ == "__main__":
    main(*sys.argv[1:])
