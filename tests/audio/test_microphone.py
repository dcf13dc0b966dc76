"""The microphone, end to end: PulseAudio plays, PortAudio captures, the recognizer reads.

Code that uses PortAudio runs in a separate process, whose default microphone is the virtual one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from support import wait_until
from support.recording_process import LEAD_IN, counting, record
from support.virtual_microphone import VirtualMicrophone

from asr import Recognizer
from asr._core import RingBuffer
from asr.streaming import Final, MicrophoneError
from asr.streaming.audio.capture import Capture
from asr.streaming.audio.microphone import Block, Microphone, device_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "microphone.py"


def run(virtual_microphone: VirtualMicrophone, code: str, *arguments: str) -> str:
    """Runs Python `code` with the virtual microphone as the default; returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=virtual_microphone.env, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("ways", "seconds"),
    [((), 1), (("held-interpreter",), 5), (("python-callback",), 1)],
    ids=["free", "held-interpreter", "python-callback"],
)
def test_not_a_sample_is_lost_or_changed(
    virtual_microphone: VirtualMicrophone, tmp_path: Path, ways: tuple[str, ...], seconds: int
) -> None:
    """Even while a thread holds the GIL for half a second at a time, because capture does not need it."""
    audio = counting(seconds * 16000)
    recording = record(virtual_microphone, tmp_path, audio, *ways)
    assert recording.reports == [] and recording.sample_rate == 16000
    loud = np.flatnonzero(recording.samples)
    assert len(loud) == loud[-1] - loud[0] + 1 == len(audio)
    np.testing.assert_array_equal(recording.samples[loud] * 32768, audio)


def test_capture_does_not_wait_for_the_interpreter(virtual_microphone: VirtualMicrophone) -> None:
    """Samples arrive in the ring buffer while no Python code can run."""
    code = """
import ctypes, sys, time
from asr.streaming import Microphone
sys.setswitchinterval(60)  # no other thread runs between sleeping and reading
sleep = ctypes.PyDLL(None).usleep  # a C function that does not let go of the interpreter
with Microphone() as microphone:
    while microphone.read() is None:
        pass
    sleep(1_000_000)
    print(len(microphone.read(0).samples))
"""
    assert int(run(virtual_microphone, code)) > 8000  # of 16000


def test_a_device_that_does_not_start_is_closed() -> None:
    """Otherwise the device would still be in use when another rate is tried."""
    calls: list[str] = []

    class Broken:
        def __init__(self, **options: Any) -> None:
            calls.append("open")

        def start(self) -> None:
            calls.append("start")
            raise ValueError("Invalid sample rate")

        def close(self) -> None:
            calls.append("close")

    sounddevice = SimpleNamespace(RawInputStream=Broken, PortAudioError=OSError)
    with pytest.raises(ValueError, match="Invalid sample rate"):
        Capture(sounddevice, 0, "ALSA", 16000, 1, 0)
    assert calls == ["open", "start", "close"]


class Clock:
    """A fake time module, in which only sleeping advances the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("asr.streaming.audio.microphone.time", clock)
    return clock


@pytest.fixture
def sounddevice(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fake sounddevice module with one device, which cannot be opened."""

    def refuse(**_: object) -> None:
        raise OSError("Device unavailable")

    device = {"name": "USB", "hostapi": 0, "max_input_channels": 1, "default_samplerate": 16000.0}
    module = SimpleNamespace(
        query_hostapis=lambda: [{"name": "ALSA"}],
        query_devices=lambda: [device],
        default=SimpleNamespace(device={"input": 0}),
        RawInputStream=refuse,
        PortAudioError=OSError,
    )
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


@pytest.fixture
def opened(clock: Clock, sounddevice: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Microphone, Any]]:
    """A microphone, and its fake device, which delivers no audio by itself and once lost blocks whoever closes it."""
    ended = threading.Event()
    device: Any = SimpleNamespace(
        ring=RingBuffer(16000),
        sample_rate=16000,
        active=True,
        num_received=1,
        num_input_overflows=0,
        close=lambda abort=False: not abort or ended.wait(),
    )
    monkeypatch.setattr("asr.streaming.audio.microphone.Capture", lambda *_: device)
    with Microphone() as microphone:
        yield microphone, device
        ended.set()


def test_stopped_device_is_noticed_despite_a_busy_reader(clock: Clock, opened: tuple[Microphone, Any]) -> None:
    microphone, device = opened
    for _ in range(5):
        clock.now += 60  # the reader was busy, or the machine slept, so the device may still work
        assert microphone.read(0.05) is None
        device.num_received += 320
        assert microphone.read(0.05) is None
    assert microphone.read(0.4) is None
    block = microphone.read(0.4)
    assert block is not None and block.lost and block.error == "microphone 'USB' stopped; opening it again"


def test_a_device_may_take_seconds_to_start(opened: tuple[Microphone, Any]) -> None:
    microphone, device = opened
    device.num_received = 0
    assert microphone.read(4.0) is None
    block = microphone.read(2.0)
    assert block is not None and block.lost


def test_overflows_are_counted_and_reported_at_intervals(clock: Clock, opened: tuple[Microphone, Any]) -> None:
    """The last overflows are reported when the microphone is closed."""
    microphone, device = opened
    reports = []
    for second in range(31):
        device.num_received += 16000
        device.num_input_overflows += 1
        block = microphone.read(0.001)
        if block is not None:
            reports.append((second, block.error.removeprefix("the sound system lost audio before it got here, ")))
        clock.now += 1
    assert reports == [(0, "once"), (10, "10 times"), (20, "10 times"), (30, "10 times")]
    device.num_input_overflows += 2
    microphone.close()
    block = microphone.read()
    assert block is not None and block.error.endswith("2 times") and not block.lost
    assert microphone.read() is None


class Command:
    """A running `asr-stream --json`: its events, each with the time at which it came."""

    def __init__(self, virtual_microphone: VirtualMicrophone, *arguments: str) -> None:
        command = [sys.executable, "-m", "asr.streaming.terminal.cli", "--format", "json", *arguments]
        self.process = subprocess.Popen(
            command, env=virtual_microphone.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.events: list[tuple[float, dict[str, Any]]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append((time.monotonic(), json.loads(line)))

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for _, event in list(self.events) if event["type"] in types]

    def at(self, type: str) -> float:
        """The time of the first event of this type."""
        return next(when for when, event in self.events if event["type"] == type)

    def wait_for(self, type: str, seconds: float = 60.0) -> dict[str, Any]:
        """The first event of this type; fails if none comes in time."""
        end = time.monotonic() + seconds
        while not self.of(type):
            assert time.monotonic() < end and self.process.poll() is None, f"no {type} among {self.events}"
            time.sleep(0.02)
        return self.of(type)[0]

    def stop(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        error = self.process.stderr.read()
        assert self.process.wait(timeout=60) == 0, error
        self._reader.join()
        assert error == ""


def test_speech_becomes_text_while_it_is_spoken(
    virtual_microphone: VirtualMicrophone, sample: np.ndarray, tmp_path: Path
) -> None:
    """With the bundled model. The text is nearly that of the file, because the chunk boundaries differ."""
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample]), 16000)
    command = Command(virtual_microphone, "--chunk-ms", "320")
    wait_until(lambda: virtual_microphone.control("list", "short", "source-outputs"))
    with virtual_microphone.play(tmp_path / "play.wav") as player:
        assert player.wait(timeout=60) == 0
        played = time.monotonic()
    time.sleep(1)
    command.stop()  # in the silence that ends the utterance, or after it
    partials = [when for when, event in command.events if event["type"] == "partial"]
    assert sum(when < played for when in partials) >= 5, "text came only after the audio"
    assert command.of("gap", "error") == []
    (final,) = command.of("final")
    possible = []
    recognizer = Recognizer(chunk_ms=320)
    for shift in range(0, 16000 * 320 // 1000, 1280):
        stream = recognizer.stream()
        stream.accept_waveform(np.concatenate([np.zeros(16000 + shift, np.int16), sample]))
        stream.finish()
        possible += [event for event in stream.events() if isinstance(event, Final)]
    nearest = max(possible, key=lambda event: similarity(final["text"], event.text))
    assert similarity(final["text"], nearest.text) > 0.75
    assert final["end"] - final["start"] == pytest.approx(nearest.end - nearest.start, abs=0.5)


def similarity(first: str, second: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


def test_the_example_prints_what_it_recognizes(
    virtual_microphone: VirtualMicrophone, tiny_onnx: Path, sample: np.ndarray, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample]), 16000)
    command = [sys.executable, str(EXAMPLE), str(tiny_onnx)]
    with subprocess.Popen(command, env=virtual_microphone.env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "Listening to default\n"
            with virtual_microphone.play(tmp_path / "play.wav") as player:
                # On a busy machine, other reports of the sound system may come first.
                assert any(" partial " in line for line in process.stdout)
                player.kill()
            process.send_signal(signal.SIGINT)
            assert " final " in process.stdout.read().splitlines()[-1]
        except BaseException:
            process.kill()  # otherwise leaving the block would wait for it
            raise
    assert process.returncode == 0


def test_ctrl_c_within_a_sentence_flushes_last_words(
    virtual_microphone: VirtualMicrophone, tiny_onnx: Path, sample: np.ndarray, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample]), 16000)
    command = Command(virtual_microphone, "--model", str(tiny_onnx))
    wait_until(lambda: virtual_microphone.control("list", "short", "source-outputs"))
    with virtual_microphone.play(tmp_path / "play.wav") as player:
        command.wait_for("partial")
        time.sleep(1)
        command.stop()
        assert player.poll() is None  # it was still speaking
        player.kill()
    last = command.events[-1][1]
    assert last["type"] == "final" and last["end"] > command.of("partial")[-1]["start"]


@pytest.mark.parametrize("how", ["falls silent", "is unplugged", "goes with its server"])
def test_lost_device_is_reported_and_reopened_after_gap(
    virtual_microphone: VirtualMicrophone, tiny_onnx: Path, sample: np.ndarray, tmp_path: Path, how: str
) -> None:
    """The last words do not wait for the device: their final comes together with the error."""
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample]), 16000)
    command = Command(virtual_microphone, "--model", str(tiny_onnx))
    with virtual_microphone.play(tmp_path / "play.wav") as player:
        command.wait_for("partial")
        lost = time.monotonic()
        lose, bring_back = {
            "falls silent": (
                lambda: virtual_microphone.signal(signal.SIGSTOP),
                lambda: virtual_microphone.signal(signal.SIGCONT),
            ),
            "is unplugged": (virtual_microphone.unplug, virtual_microphone.plug_in),
            "goes with its server": (lambda: virtual_microphone.signal(signal.SIGKILL), virtual_microphone.start),
        }[how]
        lose()
        error = command.wait_for("error")
        final = command.wait_for("final")
        player.kill()
    time.sleep(0.5)
    back = time.monotonic()
    bring_back()
    gap = command.wait_for("gap")
    found = time.monotonic()
    with virtual_microphone.play(tmp_path / "play.wav") as player:
        while not [event for event in command.of("partial") if event["start"] > gap["end"]]:
            assert time.monotonic() < found + 30 and command.process.poll() is None
            time.sleep(0.02)
        player.kill()
    command.stop()
    assert "stopped; opening it again" in error["text"]
    assert command.at("error") - lost < 1
    assert final["end"] <= error["start"] == gap["start"]
    assert back - lost - 0.3 <= gap["end"] - gap["start"] <= found - lost + 0.5
    assert command.of("error", "gap") == [error, gap]


def test_the_devices_are_listed(virtual_microphone: VirtualMicrophone) -> None:
    found = run(virtual_microphone, "from asr.streaming.terminal.cli import main; main(['--list-devices'])")
    assert found == "*   0  default  (ALSA, 32 channels, 44100 Hz)\n"
    code = """
from asr.streaming import Microphone, MicrophoneError
for wanted in (0, "def", "default", None):
    Microphone(wanted).close()
for wanted in (7, "nowhere"):
    try:
        Microphone(wanted)
    except MicrophoneError as error:
        print(error)
"""
    assert run(virtual_microphone, code) == (
        "no input device 7; there are: 0 'default'\nno input device 'nowhere'; there are: 0 'default'\n"
    )


@pytest.mark.usefixtures("sounddevice")
def test_a_device_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(MicrophoneError, match="cannot open microphone 'USB': Device unavailable"):
        Microphone()


@pytest.mark.parametrize("wanted", [None, "USB"])
def test_a_device_that_was_plugged_in_since_is_found(
    monkeypatch: pytest.MonkeyPatch, sounddevice: Any, wanted: str | None
) -> None:
    """PortAudio lists the devices of its start."""
    (usb,) = sounddevice.query_devices()
    found: list[dict[str, object]] = []
    sounddevice.query_devices = lambda: list(found)
    sounddevice._terminate = lambda: None
    sounddevice._initialize = lambda: found.append(usb)
    monkeypatch.setattr("asr.streaming.audio.microphone.Capture", lambda *_: SimpleNamespace(close=lambda: True))
    with pytest.raises(MicrophoneError, match="there is no microphone"):
        Microphone(wanted)
    with Microphone(wanted, rescan=True) as microphone:
        assert microphone.device.name == "USB"


def test_samples_that_overflow_the_ring_become_a_gap(tiny_onnx: Path) -> None:
    class Played(Microphone):
        """A fake microphone with the given blocks."""

        def __init__(self, blocks: list[Block]) -> None:
            self.blocks = blocks

        def read(self, timeout_s: float = 0.1) -> Block | None:
            return self.blocks.pop(0) if self.blocks else None

    second = np.zeros(16000, np.float32)
    microphone = Played([Block(second, 16000), Block(second, 16000, gap=4000), Block(second[:0], 16000, error="hum")])
    stream = Recognizer(tiny_onnx).stream()
    while microphone.read_into(stream):
        pass
    assert [(event.type, event.text, event.start, event.end) for event in stream.events()] == [
        ("gap", "0.250 s of audio were lost", 1.0, 1.25),
        ("error", "hum", 2.25, 2.25),
    ]
    assert stream.sample_offset == 36000


def test_a_device_is_a_number_or_name() -> None:
    assert [device_of(option) for option in (None, "3", "²", "USB 2")] == [None, 3, "²", "USB 2"]
