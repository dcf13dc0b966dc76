"""A part of a recording on the command line: its words at their times in the whole recording."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support.recognition import recognize

from asr import Recognizer
from asr.streaming.terminal.cli import main

pytestmark = pytest.mark.usefixtures("restore_signals")

START_S, DURATION_S = 4.5, 5.0
PART = ["--start", "0:04.5", "--duration", "5"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, conversation: np.ndarray) -> Path:
    """With two channels, of which the second one begins a second later."""
    path = tmp_path_factory.mktemp("audio") / "talk.wav"
    late = np.append(np.zeros(16000, np.float32), conversation[:-16000])
    soundfile.write(path, np.stack([conversation, late], axis=1), 16000, subtype="FLOAT")
    return path


def finals(recognizer: Recognizer, samples: np.ndarray, start_s: float = START_S) -> list[dict[str, Any]]:
    """The finals of the part."""
    first = round(start_s * 16000)
    events = recognize(recognizer, samples[first : first + round(DURATION_S * 16000)])
    return [event.shifted(start_s).to_dict() for event in events if event.type == "final"]


def shown(text: str) -> list[dict[str, Any]]:
    return [event for line in text.splitlines() if (event := json.loads(line))["type"] == "final"]


def command(tiny_onnx: Path, *arguments: str) -> list[str]:
    return ["--model", str(tiny_onnx), "--format", "json", *arguments]


def test_words_have_the_times_of_the_whole(
    recognizer: Recognizer, tiny_onnx: Path, path: Path, conversation: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tiny_onnx, str(path), "--channel", "1", *PART)) == 0
    found = shown(capsys.readouterr().out)
    assert found == finals(recognizer, conversation)
    assert all(START_S <= event["start"] < event["end"] <= START_S + DURATION_S + 0.1 for event in found) and found


def test_each_channel(
    recognizer: Recognizer, tiny_onnx: Path, path: Path, conversation: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tiny_onnx, str(path), "--channel", "each", *PART)) == 0
    found = shown(capsys.readouterr().out)
    first = [event for event in found if event.pop("label") == "channel 1"]
    assert first == finals(recognizer, conversation) and len(found) > len(first)


def test_every_file_and_its_errors(
    recognizer: Recognizer,
    tiny_onnx: Path,
    path: Path,
    conversation: np.ndarray,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = tmp_path / "short.wav"
    soundfile.write(short, conversation[:64000], 16000, subtype="FLOAT")
    assert main(command(tiny_onnx, str(short), str(path), "--channel", "1", *PART)) == 1
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    (error,) = (event for event in events if event["type"] == "error")
    assert (
        error["text"] == f"{short} lasts 4.0 s; the start is 4.5 s: choose one before its end" and error["start"] == 4.5
    )
    assert shown(out) == [event | {"file": str(path)} for event in finals(recognizer, conversation)] and err == ""


def test_realtime_reads_only_the_part(
    recognizer: Recognizer, tiny_onnx: Path, path: Path, conversation: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    assert main(command(tiny_onnx, str(path), "--channel", "1", "--realtime", *PART)) == 0
    assert DURATION_S - 0.2 < time.monotonic() - begun < DURATION_S + 5
    assert shown(capsys.readouterr().out) == finals(recognizer, conversation)


def test_standard_input_of_raw_samples(
    recognizer: Recognizer, tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path
) -> None:
    samples = (conversation * 32767).astype(np.int16) if conversation.dtype.kind == "f" else conversation
    arguments = command(tiny_onnx, "-", "--raw-rate", "16000", *PART)
    asr_stream = [sys.executable, "-m", "asr.streaming.terminal.cli", *arguments]
    done = subprocess.run(asr_stream, input=samples.tobytes(), capture_output=True, check=True)
    assert shown(done.stdout.decode()) == finals(recognizer, samples)


def test_subtitles_and_time_stamps_of_a_part(
    tiny_onnx: Path, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--format", "text,srt,vtt,ass", "--output", f"{tmp_path}/", "--timestamps", "--word-timestamps"]
    assert main(["--model", str(tiny_onnx), str(path), *PART, *options]) == 0
    texts = {file.suffix: file.read_text() for file in tmp_path.iterdir()}
    assert sorted(texts) == [".ass", ".srt", ".txt", ".vtt"] and capsys.readouterr() == ("", "")
    assert texts[".txt"].startswith("[00:00:0") and " --> 00:00:" in texts[".txt"]
    begin = texts[".txt"][1:13]
    assert f"\n{begin.replace('.', ',')} --> " in texts[".srt"]
    assert f"\n{begin} --> " in texts[".vtt"]
    assert f"\nDialogue: 0,{begin[1:11]}," in texts[".ass"]


def test_the_bundled_recording(tiny_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tiny_onnx), "--sample", "--start", "2", "--timestamps"]) == 0
    assert capsys.readouterr().out.startswith("[00:00:0")
    assert main(["--model", str(tiny_onnx), "--sample", "--start", "100"]) == 1
    assert "sample.wav lasts 5.7 s; the start is 100 s" in capsys.readouterr().err
