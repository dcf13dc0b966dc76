"""Output to files, folders, pipes and terminals, and write errors of each."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.terminal import Terminal

from asr.runtime.search import Word
from asr.streaming.events import Error, Event, Final, Gap, Partial
from asr.streaming.terminal.formats import FORMATS, format_of, output_path
from asr.streaming.terminal.layout import Layout
from asr.streaming.terminal.output import Output, OutputError
from asr.streaming.terminal.subtitles import document


def final(text: str) -> Event:
    words = tuple(Word(word, i, i + 0.5, 0.5) for i, word in enumerate(text.split()))
    return Final(text, 0.0, len(words) - 0.5, words)


PARTIAL = Partial("A", 0.0, 0.5)
TROUBLE = Error("trouble", 1.0, 1.0)
GAP = Gap("0.500 s of audio were lost", 2.0, 2.5)
EVENTS = (PARTIAL, final("A B"), TROUBLE, GAP, final("É C"))
CUES = "1\n00:00:00,000 --> 00:00:01,417\nA B\n\n2\n00:00:01,500 --> 00:00:03,000\nÉ C\n\n"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")


def show(output: Output, *events: Event, name: str = "a.wav", several: bool = False) -> None:
    output.begin(name, several)
    for event in events:
        output.show(event)


# ---- without a terminal ----


@pytest.mark.parametrize(("format", "written"), [("text", "A B\nÉ C\n"), ("srt", CUES)])
def test_finals_are_written_and_errors_are_reported(
    format: str, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Output((format,)) as output:
        show(output, *EVENTS)
    reported = "asr-stream: trouble\nasr-stream: 0.500 s of audio were lost at 2.00 s\n"
    assert capsys.readouterr() == (written, reported)
    assert not output.failed and not output.wants_partials


def test_json_has_every_event_and_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    with Output(("json",)) as output:
        assert output.wants_partials
        show(output, *EVENTS)
        show(output, GAP, name="b.wav", several=True)
    out, err = capsys.readouterr()
    *first, last = (json.loads(line) for line in out.splitlines())
    assert first == [event.to_dict() for event in EVENTS] and "É" in out and err == ""
    assert last == GAP.to_dict() | {"file": "b.wav"}


def test_nothing_waits_in_a_buffer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(written, 1 << 16)))
    with Output(("text",)) as output, Output(("text",), str(tmp_path / "a.txt")) as file:
        show(output, *EVENTS)
        show(file, *EVENTS)
        assert written.getvalue().decode() == (tmp_path / "a.txt").read_text() == "A B\nÉ C\n"


def test_a_folder_takes_a_file_for_each_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "subtitles"
    with Output(("srt",), f"{folder}/") as output:
        for name in ("somewhere/talk.mp3", "-", "silent.wav"):
            show(output, *(EVENTS[:2] if name != "silent.wav" else ()), name=name, several=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "talk.srt": "1\n00:00:00,000 --> 00:00:02,000\nA B\n\n",
        "stdin.srt": "1\n00:00:00,000 --> 00:00:02,000\nA B\n\n",
        "silent.srt": "",
    }
    with Output(("text",), str(folder)) as output:
        show(output, *EVENTS[:2], several=True)
    assert (folder / "a.txt").read_text() == "A B\n"  # its name says what it is about
    assert capsys.readouterr() == ("", "")


def test_several_formats_are_files_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(max_words=1, timestamps=True)
    with Output(("text", "json", "srt"), f"{tmp_path}/", layout=layout) as output:
        assert output.wants_partials
        show(output, *EVENTS, name="talk.mp3")
        show(output, TROUBLE, name="broken.mp3", several=True)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(texts) == ["talk.jsonl", "talk.srt", "talk.txt"]
    assert texts["talk.txt"] == "[00:00:00.000 --> 00:00:01.500] A B\n[00:00:00.000 --> 00:00:01.500] É C\n"
    assert [json.loads(line) for line in texts["talk.jsonl"].splitlines()] == [event.to_dict() for event in EVENTS]
    assert texts["talk.srt"].count("-->") == 4
    trouble = "asr-stream: trouble\n"  # of the text, and of the recording without files
    assert capsys.readouterr() == ("", f"{trouble}asr-stream: 0.500 s of audio were lost at 2.00 s\n{trouble}")


def test_one_of_several_files_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.srt").mkdir()
    with Output(("text", "srt"), f"{tmp_path}/") as output:
        show(output, *EVENTS[:2])
    assert output.failed and (tmp_path / "a.txt").read_text() == "A B\n"
    out, err = capsys.readouterr()
    assert out == "1\n00:00:00,000 --> 00:00:02,000\nA B\n\n"
    assert err.startswith(f"asr-stream: cannot write {tmp_path}/a.srt: ") and err.count("\n") == 1


def test_an_output_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (f"{tmp_path}/missing/notes.txt", f"{tmp_path}/file/"):
        with pytest.raises(OutputError, match=f"cannot write {path}: "):
            Output(("text",), path)


@pytest.mark.parametrize(
    ("path", "format"),
    [(None, "text"), ("notes", "text"), ("a.SRT", "srt"), ("a.vtt", "vtt"), ("a.json", "json"), ("a.jsonl", "json")],
)
def test_the_name_of_the_output_chooses_its_format(path: str | None, format: str) -> None:
    assert format_of(path) == format


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("in_folder", [True, False])
def test_unreadable_recording_changes_no_file(
    format: str, in_folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / f"old.{format}", tmp_path / f"new.{format}"
    if in_folder:
        old, new = (output_path(tmp_path, path.name, format) for path in (old, new))
    old.write_text("former")
    for path in (old, new):
        with Output((format,), str(tmp_path if in_folder else path), existing="overwrite") as output:
            show(output, TROUBLE, name=path.name)
    assert old.read_text() == "former" and not new.exists()
    assert capsys.readouterr() == ("", "asr-stream: trouble\n" * 2)


@pytest.mark.parametrize("format", FORMATS)
def test_unreadable_recording_leaves_nothing_to_the_next(format: str, tmp_path: Path) -> None:
    alone, after = tmp_path / "alone", tmp_path / "after"
    for folder, names in ((alone, ["b.wav"]), (after, ["a.wav", "b.wav"])):
        with Output((format,), f"{folder}/") as output:
            for name in names:
                show(output, TROUBLE if name == "a.wav" else final("A B"), name=name, several=True)
    (path,) = after.iterdir()
    assert path.read_text() == (alone / path.name).read_text()


def test_json_names_all_errors_once_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("former")
    with Output(("json",), str(path), existing="overwrite") as output:
        show(output, TROUBLE, name="a.wav", several=True)
        assert path.read_text() == "former"
        show(output, final("A B"), TROUBLE, name="b.wav", several=True)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["type"], row["file"]) for row in found] == [("error", "a.wav"), ("final", "b.wav"), ("error", "b.wav")]
    assert capsys.readouterr() == ("", "asr-stream: trouble\n")


@pytest.mark.parametrize(
    ("format", "empty"), [("text", ""), ("json", ""), ("srt", ""), ("vtt", "WEBVTT\n\n"), ("ass", document("ass", []))]
)
def test_silent_recording_replaces_an_older_text(format: str, empty: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("former")
    with Output((format,), str(path), existing="overwrite") as output:
        show(output)
    assert path.read_text() == empty


def test_longer_text_is_replaced_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("former, which is longer\n")
    with Output(("text",), str(path), existing="overwrite") as output:
        show(output, name="a.wav", several=True)
        show(output, TROUBLE, name="b.wav", several=True)
        assert path.read_text() == "== a.wav ==\n"
        show(output, *EVENTS, name="c.wav", several=True)
    with Output(("text",), str(path), existing="append") as output:
        show(output, final("D"))
    assert path.read_text() == "== a.wav ==\n== b.wav ==\n== c.wav ==\nA B\nÉ C\nD\n"


# ---- write errors ----


def test_text_a_full_file_refuses_goes_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.srt"
    blocks = [f"{block}\n\n" for block in CUES.rstrip().split("\n\n")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with Output(("srt",), str(path)) as output:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(CUES) - 5, before[1]))  # accepts a part of the second cue
            show(output, *EVENTS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    out, err = capsys.readouterr()
    assert path.read_text() == blocks[0]  # no partial cue remains
    assert out == blocks[1] and output.failed
    assert err.splitlines()[-1].startswith(f"asr-stream: cannot write {path}: File too large; ")


def test_full_disks_everywhere(tiny_onnx: Path) -> None:
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "--model", str(tiny_onnx), "--sample"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, "--output", "/dev/full"], stdout=full, stderr=subprocess.PIPE, text=True)
    first, second, *rest = done.stderr.splitlines(keepends=True)
    assert done.returncode == 1 and "".join(rest) == said
    assert "cannot write /dev/full: No space left" in first and "cannot write to standard output: No space" in second


# ---- on a terminal ----


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture, because pytest replaces standard output in each phase of a test."""
    terminal = Terminal(80)
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_text_becomes_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Output(("text",)) as output:
        assert output.wants_partials
        show(output, *EVENTS, PARTIAL, several=True)
        gap = "0.500 s of audio were lost at 2.00 s"
        assert terminal.text == ["== a.wav ==", "A B", "trouble", gap, "É C", "A"]


def test_captions_have_the_time_stamps_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Output(("text",), layout=Layout(timestamps=True)) as output:
        show(output, *EVENTS[:2], PARTIAL)
        assert terminal.text == ["[00:00:00.000 --> 00:00:01.500] A B", "A"]


def test_captions_are_shown_beside_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = on_terminal(monkeypatch)
    with Output(("vtt",), str(tmp_path / "a.vtt")) as output:
        show(output, PARTIAL, final("A B"), TROUBLE, PARTIAL)
        assert terminal.text == ["A B", "trouble", "A"]
    assert (tmp_path / "a.vtt").read_text() == "WEBVTT\n\n00:00:00.000 --> 00:00:01.417\nA B\n\n"


def test_other_formats_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Output(("srt",)) as output:
        show(output, EVENTS[0], EVENTS[1], TROUBLE, EVENTS[4])
    first, second = CUES.split("2\n00")
    expected = f"trouble\n{first}2\n00{second}".splitlines()
    assert [line.rstrip() for line in terminal.lines[: len(expected)]] == expected


def test_text_a_file_refused_is_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Output(("text",), "/dev/full") as output:
        show(output, final("A B"), final("C"))
    assert [line for line in terminal.text if "/dev/full" not in line and "output" not in line] == ["A B", "C"]


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with Output(("text",), of_files=True) as output:
        show(output, PARTIAL, final("A B"))
    assert terminal.raw == "A B\n"


def test_progress_is_on_stderr_if_text_is_redirected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal(80))
    with Output(("text",)) as output:
        assert output.captions is None
    with Output(("text",), of_files=True) as output:
        assert output.captions is not None
        show(output, *EVENTS, several=True)
    assert capsys.readouterr().out == "== a.wav ==\nA B\nÉ C\n"
    assert sys.stderr.text == ["trouble", "0.500 s of audio were lost at 2.00 s"]  # type: ignore[attr-defined]


def test_dev_null_is_an_output_like_others(tmp_path: Path) -> None:
    with Output(("text",), os.devnull) as output:
        show(output, *EVENTS)
    assert not output.failed
