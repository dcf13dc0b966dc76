"""Dictation with the real program: PulseAudio plays, asr-stream types, a window of Xvfb receives the text."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support import wait_until
from support.terminal import Recording
from support.virtual_microphone import VirtualMicrophone
from support.x_server import XServer

from asr import Recognizer
from asr.streaming import MicrophoneError
from asr.streaming.terminal.dictation import Dictation
from asr.streaming.terminal.live import Source
from asr.streaming.terminal.output import Output
from asr.streaming.terminal.toggle import Switch
from asr.streaming.terminal.typing_thread import TypingThread
from asr.streaming.terminal.typing_tools import TypingTool

COMMAND = [sys.executable, "-m", "asr.streaming.terminal.cli"]
LEAD_IN, LEAD_OUT = np.zeros(36000, np.int16), np.zeros(8000, np.int16)


def test_types_into_focus_and_closes_microphone_in_pauses(
    virtual_microphone: VirtualMicrophone, sample: np.ndarray, tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "play.wav", np.concatenate([LEAD_IN, sample, LEAD_OUT]), 16000)
    with XServer() as display:
        first, second = display.window(tmp_path / "first"), display.window(tmp_path / "second")
        first.focus()
        env = virtual_microphone.env | {"DISPLAY": display.env["DISPLAY"]}
        env.pop("WAYLAND_DISPLAY", None)

        def toggle() -> str:
            return subprocess.run([*COMMAND, "toggle"], env=env, check=True, capture_output=True, text=True).stdout

        def is_open() -> bool:
            return bool(virtual_microphone.control("list", "short", "source-outputs"))

        with open(tmp_path / "events", "w") as events:
            process = subprocess.Popen(
                [*COMMAND, "--type", "--paused", "--format", "json"], env=env, stdout=events, stderr=subprocess.PIPE
            )
        wait_until(lambda: (Path(env["XDG_RUNTIME_DIR"]) / "asr-stream.sock").exists())
        assert toggle() == "on\n"
        wait_until(is_open)
        with virtual_microphone.play(tmp_path / "play.wav") as player:
            wait_until(lambda: first.text)
            second.focus()
            player.wait(timeout=60)
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: not is_open())
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1].decode()
        assert (process.returncode, error) == (0, "")
        recognized = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
        finals = [event["text"] for event in recognized if event["type"] == "final"]
        assert finals and {event["type"] for event in recognized} == {"partial", "final"}
        assert first.text and second.text
        assert first.text + second.text == "".join(f"{text} " for text in finals)
        assert display.num_keys_pressed == 0


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    with Switch(on=True) as switch:
        yield switch


def test_captions_go_on_if_typing_or_microphone_fails(conversation: np.ndarray, switch: Switch, tmp_path: Path) -> None:
    recognizer = Recognizer(second_pass=False)
    display, typed = tmp_path / "display", tmp_path / "typed"
    script = f"if [ -e {display} ]; then cat >>{typed}; else cat >/dev/null; echo 'no such display' >&2; exit 1; fi"
    tool = TypingTool("xdotool", ("sh", "-c", script))
    typing = TypingThread(tool)
    microphones: list[Any] = [Recording(conversation[100000:150000]), MicrophoneError("there is no microphone")]

    def open_microphone() -> Any:
        if isinstance(found := microphones.pop(), MicrophoneError):
            raise found
        return found

    with Output(("json",), str(tmp_path / "events")) as output:
        source = Source(Recording(conversation[:80000], num_left=5), recognizer.stream())  # type: ignore[arg-type]
        dictation = Dictation(source, open_microphone, switch, typing, output, with_stats=False)
        for _ in range(40):
            dictation.step()
        wait_until(lambda: typing.fault)
        switch.on = False
        dictation.step()
        paused_at = source.stream.sample_offset
        assert source.microphone is None and not dictation.step()
        display.touch()
        for _ in range(2):  # the first time, no microphone is available
            switch.on = True
            dictation.step()
        while dictation.step():
            pass
        dictation.finish()
    recognized = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert paused_at == 45 * 1600  # the audio in the ring buffer is recognized; the pause takes no time
    assert any(event["type"] == "final" and event["end"] * 16000 <= paused_at for event in recognized)
    assert any(event["type"] == "final" and event["start"] * 16000 > paused_at for event in recognized)
    errors = [event["text"] for event in recognized if event["type"] == "error"]
    assert errors[:2] == [
        "typing has stopped, captions continue: xdotool: no such display; to try again: asr-stream toggle, twice",
        "there is no microphone",
    ]
    later = [event["text"] for event in recognized if event["type"] == "final" and event["start"] * 16000 > paused_at]
    assert typed.read_text().endswith("".join(f"{text} " for text in later))


def test_second_dictation_or_missing_display_is_reported(
    switch: Switch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, restore_signals: None
) -> None:
    from asr.streaming.terminal.cli import main

    monkeypatch.setattr("asr.streaming.terminal.typing_tools.find_tool", lambda _: TypingTool("true", ("true",)))
    assert main(["--type"]) == 1
    monkeypatch.undo()
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["--type"]) == 1
    error = capsys.readouterr().err
    assert "dictation is already running: asr-stream toggle switches it on and off" in error
    assert "no program can type into windows here" in error
