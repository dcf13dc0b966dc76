"""Two speakers on two channels of a file, who speak at the same time: each is recognized as if alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support.recognition import finals, recognize

from asr import Recognizer
from asr.streaming.audio import audio_file
from asr.streaming.terminal.cli import main

FAST = ("--lm", "none", "--search", "greedy", "--no-second-pass")

pytestmark = pytest.mark.usefixtures("restore_signals")


@pytest.fixture(scope="module")
def channels(conversation: np.ndarray) -> np.ndarray:
    """(num_samples, 2) int16: the second speaker begins 1 s later, and both overlap."""
    other = np.concatenate([np.zeros(16000, np.float32), conversation])[: len(conversation)]
    return np.stack([conversation * 32767, other * 20000], axis=1).astype(np.int16)


@pytest.fixture(scope="module")
def call(channels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "call.wav"
    soundfile.write(path, channels, 16000)
    return path


@pytest.fixture(scope="module")
def alone(channels: np.ndarray) -> list[str]:
    """The text of each channel in a file of its own."""
    recognizer = Recognizer(lm=None, search="greedy", second_pass=False)
    texts = [finals(recognize(recognizer, np.ascontiguousarray(channels[:, i]))) for i in range(2)]
    assert all(len(text.split()) > 10 for text in texts)
    return texts


def texts_of(lines: str) -> list[str]:
    """The text of each channel in JSON lines."""
    events = [event for line in lines.splitlines() if (event := json.loads(line))["type"] == "final"]
    assert {event["label"] for event in events} == {"channel 1", "channel 2"}
    return [
        " ".join(event.get("raw", event["text"]) for event in events if event["label"] == f"channel {number}")
        for number in (1, 2)
    ]


def test_each_channel_has_its_own_text(call: Path, alone: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*FAST, str(call)]
    assert main([*arguments, "--channel", "each", "--format", "json"]) == 0
    assert texts_of(capsys.readouterr().out) == alone
    for number in (1, 2):
        assert main([*arguments, "--channel", str(number), "--format", "json"]) == 0
        events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        said = [event.get("raw", event["text"]) for event in events if event["type"] == "final"]
        assert " ".join(said) == alone[number - 1] and not any("label" in event for event in events)


def test_lines_and_cues_name_their_channel(call: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*FAST, "--channel", "each", str(call)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line[:11] for line in lines} == {"channel 1: ", "channel 2: "}
    assert main([*arguments, "--format", "srt"]) == 0
    cues = capsys.readouterr().out
    assert set(re.findall(r"^channel \d: ", cues, re.MULTILINE)) == {"channel 1: ", "channel 2: "}
    begins = re.findall(r"^(\S+) --> ", cues, re.MULTILINE)
    assert begins == sorted(begins)


def test_a_corpus_of_calls(call: Path, alone: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from asr.cli import main as asr

    arguments = ["transcribe", str(call.parent), "--out", str(tmp_path), *FAST, "--jobs", "1"]
    assert asr([*arguments, "--channel", "each", "--srt"]) == 0
    (text,) = tmp_path.rglob("call.jsonl")
    assert texts_of(text.read_text()) == alone
    cues = text.with_suffix(".srt").read_text()
    begins = re.findall(r"^(\S+) --> ", cues, re.MULTILINE)
    assert begins == sorted(begins) and "channel 1: " in cues and "channel 2: " in cues
    assert "no manifest for training" in capsys.readouterr().err and not list(tmp_path.glob("manifest*"))
    assert asr([*arguments, "--srt"]) == 1
    assert "texts made with --channel each, now it is --channel mix" in capsys.readouterr().err


def test_wrong_channel_of_a_corpus(call: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from asr.cli import main as asr

    assert asr(["transcribe", str(call.parent), "--out", str(tmp_path), "--channel", "left"]) == 1
    assert "--channel is 'left'; it must be mix, each or a number from 1 to 1024" in capsys.readouterr().err


def test_trouble_of_a_recording_is_said(
    channels: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without failing: of channels that cancel each other, the first one has the words."""
    from asr.cli import main as asr

    path, left = tmp_path / "calls" / "inverted.wav", channels[:, :1]
    path.parent.mkdir()
    soundfile.write(path, np.concatenate([left, -left], axis=1), 16000)
    said = f"{path}: its channels cancel each other, so only the first one is used, as with --channel 1"
    assert main([*FAST, str(path), "--format", "json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["text"] for event in events if event["type"] == "error"] == [said]
    arguments = ["--out", str(tmp_path / "texts"), *FAST, "--jobs", "1"]
    assert asr(["transcribe", str(path.parent), *arguments]) == 0
    assert said in capsys.readouterr().err


def test_no_memory_is_no_fault_of_the_file(
    call: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(audio_file, "_read", read)
    assert main([*FAST, str(call)]) == 1
    assert capsys.readouterr().err == f"asr-stream: there is not enough memory to read {call}\n"


def test_a_name_that_begins_with_a_hyphen(
    call: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-x.wav").write_bytes(call.read_bytes())
    for arguments in (["--", "-x.wav"], ["--channel", "2", "--", "-x.wav"], [str(call), "--", "-x.wav"]):
        assert main([*FAST, *arguments]) == 0
        assert capsys.readouterr().out.strip()
