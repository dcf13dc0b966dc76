"""`asr label`: which transcripts of a teacher are kept, and that a run continues. No teacher is installed here."""

from __future__ import annotations

import csv
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.synth import write_audio

from asr.cli import main
from asr.data.manifests import read_table
from asr.streaming.corpus import label as label_module
from asr.streaming.corpus.label import Label


@pytest.mark.parametrize(
    ("text", "log_prob", "no_speech", "duration_s", "trouble"),
    [
        ("the old man walked", -0.1, 0.0, 2.0, ""),
        ("the old man walked", -0.41, 0.0, 2.0, "unsure"),
        ("the old man walked", -0.1, 0.6, 2.0, "no speech"),
        ("", -0.1, 0.0, 2.0, "no speech"),
        ("thanks", -0.1, 0.0, 1.0, "too few words"),
        ("the old man walked", -0.1, 0.0, 6.0, "too few words"),
        ("the old man walked", -0.1, 0.0, 0.7, "too many words"),
        ("this is so this is so", -0.1, 0.0, 3.0, ""),
        ("and so it is and so it is", -0.1, 0.0, 4.0, "repeats itself"),
    ],
)
def test_only_what_the_teacher_is_sure_of_is_kept(
    text: str, log_prob: float, no_speech: float, duration_s: float, trouble: str
) -> None:
    assert Label(text, log_prob, no_speech).trouble(duration_s, -0.4) == trouble


class Teacher:
    """Says how long the recording is; is unsure of long ones."""

    def __init__(self, folder: Path, language: str, beam_size: int, num_workers: int) -> None:
        self.heard: list[float] = []

    def __call__(self, samples: np.ndarray) -> Label:
        assert samples.dtype == np.float32
        seconds = len(samples) / 16000
        self.heard.append(seconds)
        return Label(" ".join(["word"] * round(seconds)), -0.1 if seconds < 4 else -1.0, 0.0)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, "excel-tab"))


def test_a_table_of_transcripts_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    teachers: list[Teacher] = []

    def new_teacher(*args: object) -> Teacher:
        teachers.append(Teacher(*args))  # type: ignore[arg-type]
        return teachers[-1]

    monkeypatch.setattr(label_module, "Teacher", new_teacher)
    clips = tmp_path / "clips"
    clips.mkdir()
    for name, seconds in (("a", 2), ("b", 5), ("long", 31)):
        write_audio(clips / f"{name}.wav", np.zeros(seconds * 8000, np.float32), 8000)
    (clips / "broken.wav").write_bytes(b"RIFF")
    output = tmp_path / "labels.tsv"
    command = ["label", str(clips), "--teacher", "whisper", "-o", str(output), "--jobs", "2"]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert "broken.wav" in err and "long.wav lasts" in err and "the maximum is 30 s" in err
    assert f"1 transcript in {output}, 1 in {tmp_path / 'labels.dropped.tsv'}, 2 failed" in err
    assert rows(output) == [["path", "text", "speaker", "log_prob"], [str(clips / "a.wav"), "word word", "", "-0.100"]]
    assert rows(tmp_path / "labels.dropped.tsv")[1][-1] == "unsure"

    for name in ("long", "broken"):
        (clips / f"{name}.wav").unlink()
    write_audio(clips / "c.wav", np.zeros(3 * 16000, np.float32), 16000)
    assert main(command) == 0
    assert "1 transcript in" in (err := capsys.readouterr().err) and "2 labeled earlier" in err
    assert teachers[-1].heard == [3.0]
    assert [row[0] for row in rows(output)[1:]] == [str(clips / "a.wav"), str(clips / "c.wav")]
    assert [each.text for each in read_table(output)] == ["word word", "word word word"]  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", ["row", "all"])
def test_a_table_that_a_full_disk_cut_off_continues(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with names that are quoted elsewhere, and beside one that fits into no table."""
    monkeypatch.setattr(label_module, "Teacher", Teacher)
    clips = tmp_path / '5" disc'
    for name in ("a", "b"):
        write_audio(clips / f"{name}.wav", np.zeros(32000, np.float32), 16000)
    strange = os.fsencode(clips) + b"/caf\xe9.wav"
    shutil.copy(clips / "a.wav", strange)
    output = tmp_path / "labels.tsv"
    command = ["label", str(clips), "--teacher", "whisper", "-o", str(output), "--jobs", "1"]
    assert main(command) == 1
    assert "does not fit into a table" in capsys.readouterr().err
    whole = output.read_text(encoding="utf-8")
    assert [each.audio for each in read_table(output)] == [clips / "a.wav", clips / "b.wav"]
    output.write_text(whole[: -len("d\t\t-0.100\n")] if damage == "row" else "")
    assert main(command) == 1
    assert output.read_text(encoding="utf-8") == whole


def test_wrong_input_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_audio(tmp_path / "a.wav", np.zeros(16000, np.float32), 16000)
    output = tmp_path / "labels.tsv"
    command = ["label", str(tmp_path), "--teacher", str(tmp_path)]
    assert main([*command, "-o", str(output), "--jobs", "0"]) == 1
    assert "--jobs is 0; it must be at least 1" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "labels.txt")]) == 1
    assert "the table of transcripts must end in .tsv" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert main([*command, "-o", str(output)]) == 1
    assert "asr label needs more packages" in (err := capsys.readouterr().err) and "[teacher]" in err
    assert not output.exists()
