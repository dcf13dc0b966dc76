"""Files of an alignment, and `asr align`."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import sys
from pathlib import Path

import pytest

from asr.cli import main
from asr.runtime.search import Word
from asr.streaming.alignment import AlignedWord, Alignment
from asr.streaming.alignment.aligner import Phone
from asr.streaming.alignment.files import FORMATS

ALIGNMENT = Alignment(
    3.0,
    (
        AlignedWord("\u201cOh \u2014", 0, 0.5, 0.75, 0.91234, (Phone("OW", 0.5, 0.75),)),
        AlignedWord("never", 0),
        AlignedWord('"Yes"', 1, 0.75, 1.2, 0.5, (Phone("Y", 0.75, 0.9), Phone("EH", 0.9, 0.9), Phone("S", 0.9, 1.2))),
        AlignedWord("1,000.", 1, 2.0, 2.5, 0.25),
    ),
    (Word("UM", 1.5, 1.6, 0.4),),
)


def test_json_has_everything() -> None:
    values = json.loads(FORMATS["json"](ALIGNMENT, "a talk.mp3"))
    assert values["audio_filepath"] == "a talk.mp3" and values["duration"] == 3.0
    assert values["extra"] == [{"word": "UM", "start": 1.5, "end": 1.6}]
    assert values["words"][0] == {
        "word": "\u201cOh \u2014",
        "paragraph": 0,
        "start": 0.5,
        "end": 0.75,
        "confidence": 0.912,
        "phones": [{"phone": "OW", "start": 0.5, "end": 0.75}],
    }
    assert values["words"][1] == {"word": "never", "paragraph": 0}
    assert "phones" not in values["words"][3]


def test_ctm_has_five_fields_and_a_confidence() -> None:
    assert FORMATS["ctm"](ALIGNMENT, "a talk.mp3").splitlines() == [
        "a_talk.mp3 1 0.500 0.250 \u201cOh_\u2014 0.912",
        'a_talk.mp3 1 0.750 0.450 "Yes" 0.500',
        "a_talk.mp3 1 2.000 0.500 1,000. 0.250",
    ]


def test_a_textgrid_covers_the_recording_without_overlap() -> None:
    text = FORMATS["textgrid"](ALIGNMENT, "talk")
    assert text.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n')
    tiers = text.split("    item [")[1:]
    assert len(tiers) == 2 and "size = 2" in text
    rows = [re.findall(r'xmin = ([\d.]+)\n +xmax = ([\d.]+)\n +text = "(.*)"', tier) for tier in tiers]
    assert [label for _, _, label in rows[0]] == ["", "\u201cOh \u2014", '""Yes""', "", "1,000.", ""]
    assert [label for _, _, label in rows[1]] == ["", "OW", "Y", "S", ""]
    for intervals, tier in zip(rows, tiers, strict=True):
        assert f"intervals: size = {len(intervals)}" in tier
        assert intervals[0][0] == "0.000" and intervals[-1][1] == "3.000"
        assert all(before[1] == after[0] for before, after in itertools.pairwise(intervals))
    without = Alignment(1.0, (AlignedWord("a", 0, 0.1, 0.2, 0.5),))
    assert "phones" not in FORMATS["textgrid"](without, "")


def test_subtitles_and_text_keep_paragraphs() -> None:
    assert FORMATS["srt"](ALIGNMENT, "").startswith("1\n00:00:00,500 --> 00:00:01,500\n\u201cOh \u2014\n\n2\n")
    assert FORMATS["vtt"](ALIGNMENT, "").startswith("WEBVTT\n\n00:00:00.500")
    text = '0.500\t0.750\t\u201cOh \u2014\n\n0.750\t1.200\t"Yes"\n2.000\t2.500\t1,000.\n'
    assert FORMATS["txt"](ALIGNMENT, "") == text


SAMPLE = Path(sys.modules["asr"].__file__ or "").parent / "samples" / "sample.wav"


def test_the_command_writes_files_by_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The old tall man walked slowly down the road\n\nand the children ran", encoding="utf-8-sig")
    outputs = [tmp_path / "out.TextGrid", tmp_path / "out.srt"]
    assert main(["align", str(SAMPLE), str(text), "-o", *map(str, outputs)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "12 words of 13 aligned; 1 not said: tall; 2 said but not in the text: AFTER HIM\n"
    assert '"TextGrid"' in outputs[0].read_text() and "and the children ran" in outputs[1].read_text()


def test_names_of_recordings_may_not_be_utf8(tmp_path: Path) -> None:
    odd, outputs = tmp_path / os.fsdecode(b"\xff.wav"), [tmp_path / "out.json", tmp_path / "out.ctm"]
    odd.write_bytes(SAMPLE.read_bytes())
    (tmp_path / "text.txt").write_text("The old man walked slowly")
    assert main(["align", str(odd), str(tmp_path / "text.txt"), "-o", *map(str, outputs)]) == 0
    assert json.loads(outputs[0].read_text())["words"] and "\\udcff" in outputs[1].read_text()


def test_the_command_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("The old man walked slowly"))
    assert main(["align", str(SAMPLE), "-"]) == 0
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == [
        "The",
        "old",
        "man",
        "walked",
        "slowly",
    ]


def test_the_command_names_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"\xff\xfe")
    for arguments, message in (
        ([str(SAMPLE), str(text)], f"{text} cannot be read as UTF-8 text"),
        ([str(SAMPLE), str(tmp_path / "no.txt")], "no.txt: No such file or directory"),
        (
            [str(SAMPLE), str(text), "-o", str(tmp_path / "a.doc")],
            "a.doc: the suffix must be one of .json, .ctm, .textgrid, .srt, .vtt, .txt",
        ),
        ([str(SAMPLE), str(text), "-o", str(tmp_path / "no" / "a.srt")], "there is no folder"),
    ):
        assert main(["align", *arguments]) == 1
        assert message in capsys.readouterr().err
    text.write_text("unrelated economics")
    assert main(["align", str(SAMPLE), str(text)]) == 1
    assert f"{SAMPLE} has none of the words of {text}: is it the right text?" in capsys.readouterr().err
