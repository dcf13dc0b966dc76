"""System audio: what the computer plays, recorded from the monitor of the default output of PulseAudio or PipeWire.

PortAudio usually does not see monitors, so pactl names the output and parec, from the same package, records it. Both
work with PulseAudio and PipeWire's pipewire-pulse. If another output becomes the default, for example when headphones
are plugged in, capture switches to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import numpy as np

from asr._core import RingBuffer
from asr.streaming.audio.capture import CLOSE_TIMEOUT_S, RING_S
from asr.streaming.audio.microphone import SAMPLE_RATE, InputDevice, Microphone, MicrophoneError
from asr.streaming.audio.reporting_thread import ReportingThread
from asr.text import printable

LATENCY_MS = 50
PIECE = 4 * SAMPLE_RATE // 50
"""Maximum bytes per read: 20 ms."""
ASK_S = 5.0
_ENVIRONMENT = {"LC_ALL": "C"}


class SystemAudio(Microphone):
    """The sound that the computer plays, with the interface of a microphone."""

    KIND = "system audio"
    # An idle output delivers no audio, and parec ends if its output is gone, so there is no limit.
    SILENCE_LIMIT_S = START_LIMIT_S = float("inf")

    def __init__(self) -> None:
        """Raises MicrophoneError if there is no sound server, no output, or no program to record it."""
        self._rescan, self._wanted = True, None
        self._find_again()
        self._begin()

    def _find_again(self) -> None:
        sink = default_output()
        self.device = InputDevice(-1, sink, "PulseAudio", 1, SAMPLE_RATE, True)

    def _open(self) -> MonitorCapture:
        return MonitorCapture(self.device.name)


def default_output() -> str:
    """The name of the default output. Raises MicrophoneError."""
    if shutil.which("pactl") is None or shutil.which("parec") is None:
        raise MicrophoneError(
            "--system-audio needs pactl and parec, which record from PulseAudio and PipeWire: sudo apt-get install "
            "pulseaudio-utils. On macOS and Windows install a virtual cable, such as BlackHole or VB-CABLE, and name "
            "it with --device"
        )
    try:
        done = subprocess.run(
            ["pactl", "info"], env=os.environ | _ENVIRONMENT, capture_output=True, timeout=ASK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MicrophoneError("the sound server does not answer pactl") from error
    except OSError as error:
        raise MicrophoneError(f"pactl cannot be started: {error.strerror}") from error
    if done.returncode:
        errors = printable(" ".join(done.stderr.decode(errors="replace").split()))
        raise MicrophoneError(f"there is no sound server, PulseAudio or PipeWire with pipewire-pulse: pactl: {errors}")
    fields = dict(line.partition(": ")[::2] for line in done.stdout.decode(errors="replace").splitlines())
    sink = fields.get("Default Sink", "")
    if not sink or sink == "@DEFAULT_SINK@":
        raise MicrophoneError("the sound server has no output that could be recorded: see pactl list short sinks")
    return sink


def _start(*command: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # Ctrl-C must not end it: the rest of the pipe is still read
            bufsize=0,
        )
    except OSError as error:  # such as too many open files
        raise MicrophoneError(f"{command[0]} cannot be started: {error.strerror}") from error


class MonitorCapture:
    """A running parec that fills a ring buffer, with the interface of `Capture`."""

    sample_rate = SAMPLE_RATE
    num_input_overflows = 0

    def __init__(self, sink: str) -> None:
        """sink: the output's name. If parec ends immediately, `active` is false.

        Raises MicrophoneError if a program cannot be started.
        """
        self.ring = RingBuffer(int(RING_S * SAMPLE_RATE))
        self.first_sample_ns = self.last_sample_ns = 0
        format = ("--raw", "--format=float32le", f"--rate={SAMPLE_RATE}", "--channels=1")
        options = (f"--device={sink}.monitor", "--client-name=asr-stream", f"--latency-msec={LATENCY_MS}")
        self._recorder = _start("parec", *options, *format)
        try:
            self._watcher = _start("pactl", "subscribe")
        except MicrophoneError:
            self._recorder.terminate()
            self._recorder.wait()
            raise
        self._sink = sink
        self._threads = [ReportingThread("system-audio", work) for work in (self._record, self._watch)]

    @property
    def num_received(self) -> int:
        """See `Capture`."""
        return self.ring.num_written + self.ring.num_dropped

    @property
    def active(self) -> bool:
        """False if parec has ended, or another output is the default. Raises the exception of a thread."""
        for thread in self._threads:
            thread.check()
        return self._threads[0].is_alive()

    def close(self, abort: bool = False) -> bool:
        """Stops recording. Always returns True, because nothing can stay open."""
        for process in (self._recorder, self._watcher):
            process.terminate()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT_S)
        for process in (self._recorder, self._watcher):
            process.wait()
        return True

    def _record(self) -> None:
        assert self._recorder.stdout is not None
        rest = b""
        with self._recorder.stdout as pipe:
            while data := pipe.read(PIECE):
                data = rest + data
                whole = len(data) // 4 * 4
                rest = data[whole:]
                self.last_sample_ns = time.monotonic_ns()
                self.first_sample_ns = self.first_sample_ns or self.last_sample_ns - whole * 10**9 // (4 * SAMPLE_RATE)
                self.ring.write(np.frombuffer(data[:whole], np.float32))

    def _watch(self) -> None:
        assert self._watcher.stdout is not None
        with self._watcher.stdout as lines:
            for line in lines:
                if b" on server" in line and self._has_moved():
                    self._recorder.terminate()

    def _has_moved(self) -> bool:
        try:
            return default_output() != self._sink
        except MicrophoneError:
            return False  # parec ends if its output is gone
