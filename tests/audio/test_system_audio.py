"""System audio: the monitor of the default output of a real PulseAudio server."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support import wait_until
from support.recording_process import LEAD_IN, counting
from support.virtual_microphone import SINK, VirtualMicrophone

from asr.streaming import MicrophoneError
from asr.streaming.audio.system_audio import MonitorCapture, SystemAudio, default_output
from asr.streaming.terminal.live import ECHO


@pytest.fixture
def server(virtual_microphone: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualMicrophone]:
    """A sound server with a second output; programs started by this process use it."""
    for name in ("PULSE_SERVER", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, virtual_microphone.env[name])
    format = ("rate=16000", "channels=1", "format=float32le")
    module = virtual_microphone.control("load-module", "module-null-sink", "sink_name=headphones", *format).strip()
    virtual_microphone.control("set-default-sink", SINK)
    yield virtual_microphone
    virtual_microphone.control("unload-module", module)


def captured(audio: SystemAudio, num_loud: int, num_told: int) -> tuple[np.ndarray, list[str]]:
    """Once there are enough samples: those from the first to the last nonzero one, and the reports."""
    samples, told = np.zeros(0, np.float32), []
    end = time.monotonic() + 30
    while np.count_nonzero(samples) < num_loud or len(told) < num_told:
        assert time.monotonic() < end, f"{np.count_nonzero(samples)} samples came, and {told}"
        if block := audio.read():
            samples = np.concatenate([samples, block.samples])
            told += [block.error] if block.error else []
    loud = np.flatnonzero(samples)
    return samples[loud[0] : loud[-1] + 1] if num_loud else samples[:0], told


def test_played_audio_is_recognized_from_the_default_output(server: VirtualMicrophone, tmp_path: Path) -> None:
    audio = counting(8000)
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, audio]), 16000)
    with SystemAudio() as system:
        assert system.device.name == SINK
        wait_until(lambda: system.first_sample_ns)
        server.play(tmp_path / "play.wav")
        samples, told = captured(system, len(audio), 0)
        np.testing.assert_array_equal(samples * 32768, audio)
        assert told == []
        server.control("set-default-sink", "headphones")
        _, told = captured(system, 0, 2)
        server.play(tmp_path / "play.wav", "headphones")
        samples, more = captured(system, len(audio), 0)
        np.testing.assert_array_equal(samples * 32768, audio)
    assert told + more == [
        f"system audio {SINK!r} stopped; opening it again",
        f"system audio {SINK!r} is gone; listening to 'headphones' now",
    ]
    wait_until(lambda: not server.control("list", "short", "source-outputs"))


@pytest.mark.parametrize("keeps_echo", [True, False])
def test_two_sources_are_labeled_and_share_a_clock(
    keeps_echo: bool, server: VirtualMicrophone, sample: np.ndarray, tmp_path: Path
) -> None:
    """The microphone of this server is the monitor of the same output, so both record the same audio."""
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample[:40000]]), 16000)
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "--system-audio", "--microphone", "--format", "json"]
    command += ["--keep-echo"] * keeps_echo
    with subprocess.Popen(
        command, env=server.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: server.control("list", "short", "source-outputs").count("\n") == 2)
        time.sleep(2)  # PortAudio's first samples are late
        with server.play(tmp_path / "play.wav") as player:
            player.wait(timeout=60)
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "" if keeps_echo else f"asr-stream: {ECHO}\n")
    events = [json.loads(line) for line in output.splitlines()]
    finals = {label: [e for e in events if e["type"] == "final" and e["label"] == label] for label in ("me", "others")}
    if not keeps_echo:
        assert (len(finals["me"]), len(finals["others"])) == (0, 1)
        return
    (me,), (others,) = finals.values()
    assert {event["label"] for event in events if event["type"] == "partial"} == {"me", "others"}
    assert abs(me["start"] - others["start"]) <= 0.2 and abs(me["end"] - others["end"]) <= 0.2
    assert set(me["text"].lower().split()) & set(others["text"].lower().split())


def test_what_is_missing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(script: str) -> None:
        for name in ("pactl", "parec"):
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MicrophoneError, match=r"sudo apt-get install pulseaudio-utils.*BlackHole"):
        SystemAudio()
    program("echo 'Connection refused' >&2; exit 1")
    with pytest.raises(MicrophoneError, match=r"there is no sound server.*Connection refused"):
        default_output()
    program("echo 'Server Name: x'")
    with pytest.raises(MicrophoneError, match="has no output"):
        default_output()
    program("test $LC_ALL = C && echo 'Default Sink: usb'")
    assert default_output() == "usb"


@pytest.mark.parametrize("missing", ["parec", "pactl"])
def test_a_program_that_cannot_be_started_is_named(
    server: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Reopening is tried again after this error."""
    start, started = subprocess.Popen, []

    def limited(command: tuple[str, ...], **options: object) -> object:
        if command[:2] in (("parec", "--device=headphones.monitor"), ("pactl", "subscribe")) and command[0] == missing:
            raise OSError(errno.EMFILE, "Too many open files")
        started.append(start(command, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", limited)
    with pytest.raises(MicrophoneError, match=f"{missing} cannot be started: Too many open files"):
        MonitorCapture("headphones")
    assert all(process.poll() is not None for process in started)
