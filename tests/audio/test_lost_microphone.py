"""A microphone that is lost while PortAudio itself fails, with a fake PortAudio."""

from __future__ import annotations

import runpy
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import wait_until

from asr.streaming.audio import microphone as module
from asr.streaming.audio.microphone import Block, Microphone, MicrophoneError

BLOCK = 320
EXAMPLE = Path(__file__).parents[2] / "examples" / "microphone.py"


class PortAudio:
    """The parts of `sounddevice` that are used. Each stream gives one block, then nothing. `failing`: the calls that
    raise, and how often; `error`: what they raise."""

    class PortAudioError(Exception):
        pass

    def __init__(self) -> None:
        self.default = SimpleNamespace(device={"input": 0})
        self.failing: dict[str, int] = {}
        self.error: type[Exception] = self.PortAudioError
        self.num_initialized = 1
        self.names = ["USB"]
        self.num_started = self.num_open = 0

    def fail(self, call: str) -> None:
        if self.failing.get(call):
            self.failing[call] -= 1
            raise self.error("Unanticipated host error")

    def query_hostapis(self) -> list[dict[str, Any]]:
        self.fail("query_hostapis")
        return [{"name": "ALSA"}]

    def query_devices(self) -> list[dict[str, Any]]:
        self.fail("query_devices")
        device = {"hostapi": 0, "max_input_channels": 1, "default_samplerate": 16000.0}
        return [{"name": name} | device for name in self.names]

    def _terminate(self) -> None:
        self.fail("_terminate")
        if not self.num_initialized:
            raise self.PortAudioError("PortAudio not initialized")
        self.num_initialized -= 1

    def _initialize(self) -> None:
        self.fail("_initialize")
        self.num_initialized += 1

    def RawInputStream(self, callback: Any, **options: Any) -> Any:
        def start() -> None:
            self.fail("start")
            self.num_started += 1
            callback(bytearray(4 * BLOCK), BLOCK, None, SimpleNamespace(input_overflow=False))

        def nothing() -> None: ...

        def close() -> None:
            self.num_open -= 1

        self.num_open += 1
        return SimpleNamespace(start=start, stop=nothing, abort=nothing, close=close, active=True)


@pytest.fixture
def portaudio(monkeypatch: pytest.MonkeyPatch) -> PortAudio:
    portaudio = PortAudio()
    monkeypatch.setitem(sys.modules, "sounddevice", portaudio)
    monkeypatch.setattr(module, "BACK_OFF_S", (0.01,))
    return portaudio


def until_lost(microphone: Microphone) -> None:
    while (block := microphone.read()) is None or not block.lost:
        pass


def next_audio(microphone: Microphone) -> Block:
    end = time.monotonic() + 60
    while (block := microphone.read()) is None or not len(block.samples):
        assert time.monotonic() < end, "it is lost for good"
    return block


@pytest.mark.parametrize("call", ["_terminate", "_initialize", "query_hostapis", "query_devices", "start"])
def test_lost_microphone_is_retried_when_portaudio_fails(portaudio: PortAudio, call: str) -> None:
    with Microphone(rescan=True) as microphone:
        assert len(next_audio(microphone).samples) == BLOCK
        portaudio.failing[call] = 3
        until_lost(microphone)
        assert len(next_audio(microphone).samples) == BLOCK
    assert portaudio.failing[call] < 3


def test_microphone_closed_while_lost_leaves_nothing_open(portaudio: PortAudio) -> None:
    with Microphone(rescan=True) as microphone:
        until_lost(microphone)
        wait_until(lambda: portaudio.num_started == 2)
        wait_until(lambda: "reopen-microphone" not in {thread.name for thread in threading.enumerate()})
        assert portaudio.num_open == 1
    assert portaudio.num_open == 0


@pytest.mark.parametrize("call", ["abort", "open"])
def test_a_device_that_hangs_does_not_keep_the_process(
    portaudio: PortAudio, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PortAudio's cleanup at the end of the process would wait for it."""
    kept: list[Any] = []
    portaudio._exit_handler = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr("atexit.unregister", kept.append)
    for name in ("capture", "microphone"):
        monkeypatch.setattr(f"asr.streaming.audio.{name}.CLOSE_TIMEOUT_S", 0.01)
    asked, done = threading.Event(), threading.Event()

    def hang(**_: object) -> None:
        asked.set()
        done.wait()

    with Microphone(rescan=True) as microphone:
        if call == "abort":
            microphone._capture._stream.abort = hang  # type: ignore[union-attr]
        else:
            monkeypatch.setattr(portaudio, "RawInputStream", hang)
        until_lost(microphone)
        wait_until(asked.is_set)
        if call == "abort":
            wait_until(lambda: bool(kept))
    done.set()
    assert kept and set(kept) == {portaudio._exit_handler}  # type: ignore[attr-defined]


def test_a_device_is_the_one_of_this_name(portaudio: PortAudio) -> None:
    """Of devices whose names only contain the wanted one, the first is taken."""
    portaudio.names, portaudio.default.device["input"] = ["USB 2", "USB", "sysdefault"], 2
    for wanted, index in (("USB", 1), ("usb", 0), ("sys", 2), (None, 2), (0, 0)):
        with Microphone(wanted) as microphone:
            assert microphone.device.index == index


def test_other_errors_than_portaudios_reach_the_reader(portaudio: PortAudio) -> None:
    with Microphone(rescan=True) as microphone:
        next_audio(microphone)
        portaudio.error, portaudio.failing = ZeroDivisionError, {"query_devices": 1}
        with pytest.raises(ZeroDivisionError):
            next_audio(microphone)


def test_failure_to_list_devices_is_a_microphone_error(portaudio: PortAudio) -> None:
    portaudio.failing = {"query_devices": 1}
    with pytest.raises(MicrophoneError, match="Unanticipated host error"):
        Microphone()


class UntilReopened:
    """A recognizer, and its stream, that presses Ctrl-C when audio comes from the reopened device."""

    def __init__(self, portaudio: PortAudio) -> None:
        self.portaudio = portaudio
        self.errors: list[str] = []

    def __call__(self, *_: object, **__: object) -> UntilReopened:
        return self

    stream = __call__

    def accept_waveform(self, samples: np.ndarray, sample_rate: int) -> None:
        self.portaudio.names = ["headset"]  # the default from now on
        if len(samples) and self.errors:
            raise KeyboardInterrupt

    def report_error(self, error: str) -> None:
        self.errors.append(error)

    def gap(self, *_: object) -> None: ...

    def end_utterance(self) -> None: ...

    def finish(self) -> None: ...

    def events(self) -> list[object]:
        return []


def test_the_example_follows_the_default_device(portaudio: PortAudio, monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer = UntilReopened(portaudio)
    monkeypatch.setattr("asr.Recognizer", recognizer)
    runpy.run_path(str(EXAMPLE))["main"]()
    assert recognizer.errors == [
        "microphone 'USB' stopped; opening it again",
        "microphone 'USB' is gone; listening to 'headset' now",
    ]
