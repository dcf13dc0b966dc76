"""The switch of dictation: a socket that only the user can open, a signal, and rejected requests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from asr.streaming.terminal.toggle import Switch, ToggleError, main, request


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def ask(switch: Switch, *commands: str) -> list[str]:
    """The reply to each request, while `switch` waits."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.extend(map(request, commands)))
    thread.start()
    while thread.is_alive():
        switch.wait(0.01)
    return answers


def test_requests_and_signals_change_the_switch(folder: Path) -> None:
    with Switch(on=False) as switch:
        path = folder / "asr-stream.sock"
        assert path.stat().st_mode & 0o777 == 0o600
        assert ask(switch, "toggle", "on", "toggle", "off") == ["on", "on", "off", "off"]
        os.kill(os.getpid(), signal.SIGUSR1)
        assert switch.on
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(path))
            assert ask(switch, "toggle") == ["off"]  # a silent client does not block others for long
    assert not path.exists()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_killed_process_does_not_prevent_a_new_one(folder: Path) -> None:
    code = (
        "import time; from asr.streaming.terminal.toggle import Switch; Switch(True); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ToggleError, match="is already running"):
            Switch(on=True)
        process.kill()
    assert (folder / "asr-stream.sock").exists()
    with pytest.raises(ToggleError, match="is not running: start it with asr-stream --type"):
        request("toggle")
    with Switch(on=True) as switch:
        assert ask(switch, "toggle") == ["off"]


def test_the_command_reports_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    folder.chmod(0o777)
    assert main(["on"]) == 1
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "missing"))
    assert main([]) == 1
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert main(["off"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "asr-stream: dictation is not running: start it with asr-stream --type",
        f"asr-stream: XDG_RUNTIME_DIR is {folder}, which is not a folder that only you can write to",
        f"asr-stream: XDG_RUNTIME_DIR is {folder}/missing, which cannot be used: No such file or directory",
        "asr-stream: XDG_RUNTIME_DIR is not set: export XDG_RUNTIME_DIR=/run/user/$(id -u), or a folder of yours",
    ]


@pytest.mark.parametrize(("name", "action"), [("asr-stream.lock", "lock"), ("asr-stream.sock", "listen at")])
def test_file_that_cannot_be_used_is_named(folder: Path, name: str, action: str) -> None:
    (folder / name).mkdir()
    with pytest.raises(ToggleError, match=f"^cannot {action} {folder}/{name}: Is a directory$"):
        Switch(on=True)
