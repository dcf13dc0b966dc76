"""`asr transcribe`: results are kept, and a failure does not affect other recordings."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support import wait_until
from support.recognition import recognize
from support.synth import write_audio

from asr import Recognizer
from asr.cli import main
from asr.data.manifests import Utterance, read_table
from asr.streaming.corpus.texts import Done, Stopped, Task
from asr.streaming.corpus.workers import Outcome, run_workers
from asr.streaming.terminal.layout import DEFAULTS
from asr.streaming.terminal.options import add_recognition_options
from asr.tables import Recording


@pytest.fixture
def options(tiny_onnx: Path) -> Namespace:
    parser = ArgumentParser()
    add_recognition_options(parser)
    return parser.parse_args(["--model", str(tiny_onnx)])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, conversation: np.ndarray) -> Path:
    """Two recordings with words and one without."""
    folder = tmp_path_factory.mktemp("corpus") / "talks"
    write_audio(folder / "a" / "long.wav", conversation)
    write_audio(folder / "short.flac", conversation[:80000])
    write_audio(folder / "silence.wav", np.zeros(16000, np.float32))
    return folder


def recording(corpus: Path, name: str, speaker: str | None = None) -> Recording:
    return Recording(str(Path("talks", name).with_suffix("")), corpus / name, speaker)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def reader_of(pipe: Path) -> int:
    """The process that has opened `pipe`; 0 if there is none."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):  # it has closed this file
                    if os.readlink(link) == str(pipe):
                        return int(folder.name)
    return 0


def test_text_is_the_streams_and_becomes_a_label(
    corpus: Path, recognizer: Recognizer, conversation: np.ndarray, options: Namespace, tmp_path: Path
) -> None:
    task, long = Task(options, tmp_path, srt=DEFAULTS), recording(corpus, "a/long.wav", "ann")
    assert task.do(recognizer, long) == Done(round(len(conversation) / 16000, 3))
    assert files(tmp_path) == ["talks/a/long.jsonl", "talks/a/long.srt"] and task.is_done(long)
    rows = [json.loads(line) for line in (tmp_path / "talks/a/long.jsonl").read_text().splitlines()]
    events = [
        each for each in recognize(recognizer, soundfile.read(long.audio, dtype="float32")[0]) if each.type == "final"
    ]
    assert rows[1:] == [event.to_dict() for event in events] and len(events) == 3
    assert rows[0]["type"] == "recording" and 0 < rows[0]["confidence"] < 1

    (tmp_path / "manifest.jsonl").write_text(json.dumps(task.row(long)))
    (utterance,) = read_table(tmp_path / "manifest.jsonl")
    said = " ".join(event.raw for event in events)
    shown = " ".join(event.text for event in events)
    length_s = round(len(conversation) / 16000, 3)
    assert utterance == Utterance(str(long.audio.with_suffix("")), long.audio, said, "ann", length_s)
    assert rows[0]["formatted"] == shown and said


def test_subtitles_that_are_wanted_later_need_no_recognizer(
    corpus: Path, recognizer: Recognizer, options: Namespace, tmp_path: Path
) -> None:
    long = recording(corpus, "a/long.wav")
    Task(options, tmp_path / "at once", srt=DEFAULTS).do(recognizer, long)
    Task(options, tmp_path / "later").do(recognizer, long)
    later = Task(options, tmp_path / "later", srt=DEFAULTS)
    assert not later.is_done(long)
    later.do(None, long)  # type: ignore[arg-type]
    subtitles = [tmp_path / folder / "talks/a/long.srt" for folder in ("at once", "later")]
    assert subtitles[0].read_text() == subtitles[1].read_text() and later.is_done(long)


def test_text_that_nobody_waits_for_is_not_written(
    corpus: Path, recognizer: Recognizer, options: Namespace, tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        Task(options, tmp_path).do(recognizer, recording(corpus, "short.flac"), stopped=lambda: True)
    assert files(tmp_path) == []


def test_full_disk_costs_only_the_unwritten_text(
    corpus: Path, recognizer: Recognizer, options: Namespace, tmp_path: Path
) -> None:
    task = Task(options, tmp_path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        with pytest.raises(OSError):
            task.do(recognizer, recording(corpus, "a/long.wav"))
        task.do(recognizer, recording(corpus, "silence.wav"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert files(tmp_path) == ["talks/silence.jsonl"]
    row = json.loads((tmp_path / "talks/silence.jsonl").read_text())
    assert row["text"] == "" and row["confidence"] == 0.0 and row["duration"] == 1.0


def test_everything_a_full_disk_refused_is_named(tiny_onnx: Path, tmp_path: Path) -> None:
    for i in range(24):
        write_audio(tmp_path / f"corpus/{i}.wav", np.zeros(4000, np.float32))
    (tmp_path / "corpus/broken.wav").write_bytes(b"no audio")
    out = tmp_path / "texts"
    limited = (  # accepts each text, not the list of them
        "import resource, sys; from asr.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500)); sys.exit(main())"
    )
    command = [sys.executable, "-c", limited, "transcribe", str(tmp_path / "corpus"), "--out", str(out), "--jobs", "1"]
    done = subprocess.run([*command, "--model", str(tiny_onnx)], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "\n2 failed; run the same command to try again:\n" in done.stderr, done.stderr
    assert f"\n  cannot read {tmp_path}/corpus/broken.wav: " in done.stderr, done.stderr
    manifest = out / "manifest.jsonl"
    assert f"\n  cannot write {manifest}: File too large\n" in done.stderr
    assert len(files(out)) == 25 and "manifest.jsonl" not in files(out)


def test_killed_worker_costs_one_recording(corpus: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs.wav")
    (tmp_path / "broken.wav").write_bytes(b"no audio")
    long, short = corpus / "a" / "long.wav", corpus / "short.flac"
    table = tmp_path / "table.tsv"
    table.write_text("\n".join(["path", "hangs.wav", "broken.wav", "gone.wav", str(short), str(long)]))
    out = tmp_path / "texts"
    arguments = ["transcribe", str(table), "--out", str(out), "--jobs", "1", "--model", str(tiny_onnx)]
    command = [sys.executable, "-m", "asr.cli", *arguments]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def reader_of_the_pipe() -> int:
        return reader_of(tmp_path / "hangs.wav")

    half = out / "table" / "hangs.jsonl.part"
    half.parent.mkdir(parents=True)
    half.write_text("half of")
    process = start()
    os.kill(wait_until(reader_of_the_pipe), signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "\n3 failed; run the same command to try again:\n" in errors, errors
    assert "hangs.wav: its worker was killed by SIGKILL" in errors and "there is no audio file" in errors
    assert f"\n  cannot read {tmp_path}/broken.wav: " in errors and re.match(
        r"2 recordings in 0:\d\d, 0:\d\d of audio, \d+\.\d times real time\n3 failed", errors
    ), errors
    names = [f"table{path.with_suffix('')!s}.jsonl" for path in (short, long)]
    assert files(out) == sorted([*names, "manifest.jsonl", "transcribe.json"])
    rows = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [row["audio_filepath"] for row in rows] == [str(short), str(long)] and rows[1]["text"]
    written = {name: (out / name).stat().st_mtime_ns for name in names}

    half.write_text("half of")
    process = start()
    wait_until(reader_of_the_pipe)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (130, "asr transcribe: interrupted\n")
    assert not reader_of_the_pipe() and files(out) == sorted([*names, "manifest.jsonl", "transcribe.json"])

    (tmp_path / "hangs.wav").unlink()
    write_audio(tmp_path / "hangs.wav", np.zeros(16000, np.float32))
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and re.match(
        r"1 recording in 0:\d\d, 0:01 of audio, \d+\.\d times real time; 2 transcribed earlier\n2 failed", done.stderr
    ), done.stderr
    assert written == {name: (out / name).stat().st_mtime_ns for name in names}
    assert len((out / "manifest.jsonl").read_text().splitlines()) == 3


def test_worker_of_a_killed_command_writes_nothing(corpus: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    pipe, out = tmp_path / "talk.wav", tmp_path / "texts"
    os.mkfifo(pipe)
    (tmp_path / "table.tsv").write_text("path\ntalk.wav\n")
    arguments = ["transcribe", str(tmp_path / "table.tsv"), "--out", str(out), "--jobs", "1", "--model", str(tiny_onnx)]
    command = subprocess.Popen([sys.executable, "-m", "asr.cli", *arguments], stderr=subprocess.DEVNULL)
    worker = wait_until(lambda: reader_of(pipe))
    command.kill()
    command.wait()
    pipe.write_bytes((corpus / "silence.wav").read_bytes())
    wait_until(lambda: not Path(f"/proc/{worker}/exe").exists())
    assert files(out) == ["transcribe.json"]


def test_long_names_fail_alone_in_each_run(
    tiny_onnx: Path, options: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from asr.streaming.corpus.on_ray import RayWorker

    long = write_audio(tmp_path / "talks" / f"{'я' * 125}.wav", np.zeros(4000, np.float32))
    write_audio(tmp_path / "talks" / "short.wav", np.zeros(4000, np.float32))
    out = tmp_path / "out"
    for _ in range(2):
        arguments = [str(tmp_path / "talks"), "--out", str(out), "--jobs", "1", "--model", str(tiny_onnx)]
        assert main(["transcribe", *arguments]) == 1
        errors = capsys.readouterr().err
        assert "\n1 failed; " in errors and ": File name too long" in errors
    assert len((out / "manifest.jsonl").read_text().splitlines()) == 1
    worker = RayWorker(Task(options, out), "this run")
    outcome = worker({"id": f"talks/{long.stem}", "audio": str(long), "speaker": ""})
    assert "File name too long" in outcome["error"]


def test_another_folder_of_the_same_name_is_refused(
    tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in "ab":
        write_audio(tmp_path / folder / "talks" / "x.wav", np.zeros(16000, np.float32))
    options = ["--out", str(tmp_path / "out"), "--jobs", "1", "--model", str(tiny_onnx)]
    first, second = (tmp_path / folder / "talks" for folder in "ab")
    assert main(["transcribe", str(first), *options]) == 0
    manifest = (tmp_path / "out" / "manifest.jsonl").read_bytes()
    assert main(["transcribe", str(second), *options]) == 1
    said = f"{second}/x.wav: {tmp_path / 'out'} has the text of {first}/x.wav where that of this one belongs"
    assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "out" / "manifest.jsonl").read_bytes() == manifest
    write_audio(second / "y.wav", np.zeros(16000, np.float32))
    assert main(["transcribe", str(second), *options]) == 1, "the others are transcribed"
    assert (tmp_path / "out" / "talks" / "y.jsonl").exists()
    (tmp_path / "a").rename(tmp_path / "moved")
    assert main(["transcribe", str(tmp_path / "moved" / "talks"), *options]) == 0


def test_warnings_of_the_recognizer_are_printed_once(
    corpus: Path, tiny_onnx: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.txt").write_text("BAD\nB2B\n")
    options = ["--jobs", "2", "--model", str(tiny_onnx), "--hotwords", str(tmp_path / "words.txt")]
    assert main(["transcribe", str(corpus), "--out", str(tmp_path / "out"), *options]) == 0
    assert capfd.readouterr().err.count("left out: hotword line 'B2B'") == 1


class Deadly(Task):
    """A task whose workers die before they start."""

    def recognizer(self) -> Recognizer:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_workers_that_cannot_begin_are_not_restarted_forever(corpus: Path, options: Namespace, tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match="a worker was killed by SIGKILL"):
        list(run_workers(Deadly(options, tmp_path), [recording(corpus, "short.flac")], 1))


def test_wrong_or_other_options_leave_the_folder_unchanged(
    corpus: Path, tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["transcribe", str(corpus), "--out", str(tmp_path), "--model", str(tiny_onnx), "--shard", "2/3"]
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--beam-size", "0"])
    assert "--beam-size is 0; it must be a whole number in [1, 1024]" in capsys.readouterr().err
    assert main([*arguments, "--phrases", str(tmp_path / "none.txt")]) == 1
    assert "--phrases: there is no file" in capsys.readouterr().err
    assert files(tmp_path) == []
    assert main(arguments) == 0
    assert files(tmp_path) == ["manifest.2-of-3.jsonl", "talks/silence.jsonl", "transcribe.json"]
    capsys.readouterr()
    for former, option in (
        ("--beam-size 256", "--beam-size 64"),
        ("--silence-after-speech-s 2", "--silence-after-speech-s 0.5"),
        ("--second-pass", "--no-second-pass"),
        ("--text formatted", "--text plain"),
    ):
        assert main([*arguments, *option.split()]) == 1
        error = capsys.readouterr().err
        assert f"holds texts made with {former}, now it is {option}: give the same options" in error
    assert main([*arguments, "--beam-size", "256"]) == 0


def test_subtitles_have_one_layout(
    corpus: Path, tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["transcribe", str(corpus), "--out", str(tmp_path), "--model", str(tiny_onnx), "--jobs", "1"]
    assert main([*arguments, "--line-length", "12"]) == 1
    assert "--line-length is for subtitles: give --srt as well" in capsys.readouterr().err
    assert main(arguments) == 0 and not list(tmp_path.rglob("*.srt"))
    assert main([*arguments, "--srt", "--line-length", "12", "--max-lines", "1"]) == 0  # wanted later
    text = (tmp_path / "talks/a/long.srt").read_text()
    lines = [line for line in text.splitlines() if line and "-->" not in line and not line.isdigit()]
    assert len(lines) == text.count("-->") > 3 and max(map(len, lines)) <= 12
    capsys.readouterr()
    assert main([*arguments, "--srt"]) == 1
    assert "made with --line-length 12, now it is --line-length 42" in capsys.readouterr().err
    assert main([*arguments, "--srt", "--line-length", "12", "--max-lines", "1"]) == main(arguments) == 0
    assert (tmp_path / "talks/a/long.srt").read_text() == text


def test_recording_that_killed_a_ray_worker_is_skipped(corpus: Path, options: Namespace, tmp_path: Path) -> None:
    from asr.streaming.corpus.on_ray import RayWorker

    item = {"id": "talks/short", "audio": str(corpus / "short.flac"), "speaker": ""}
    worker = RayWorker(Task(options, tmp_path), "this run")
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks/short.begun").write_text("this run")
    (tmp_path / "talks/short.jsonl.part").write_text("half of")
    assert worker(item) == {
        "id": "talks/short",
        "audio_s": 0.0,
        "error": "its worker died, perhaps out of memory",
        "warnings": [],
    }
    assert files(tmp_path) == []
    (tmp_path / "talks/short.begun").write_text("another run")
    assert worker(item) == worker(item) == {"id": "talks/short", "audio_s": 5.0, "error": "", "warnings": []}
    assert files(tmp_path) == ["talks/short.jsonl"]


def test_ray_writes_the_same(corpus: Path, recognizer: Recognizer, options: Namespace, tmp_path: Path) -> None:
    from asr.streaming.corpus.on_ray import run_on_ray

    ours, theirs = Task(options, tmp_path / "ours"), Task(options, tmp_path / "theirs")
    there, gone = [recording(corpus, name) for name in ("a/long.wav", "silence.wav")], recording(corpus, "gone.wav")
    expected = [Outcome(each, ours.do(recognizer, each)) for each in there]
    found = sorted(run_on_ray(theirs, [gone, *there], "local", 1), key=lambda outcome: outcome.recording.id)
    assert [found[0], found[2]] == expected
    assert found[1] == Outcome(gone, error=f"there is no audio file {gone.audio}")
    assert files(ours.out) == files(theirs.out) == ["talks/a/long.jsonl", "talks/silence.jsonl"]
    for name in files(ours.out):
        assert (ours.out / name).read_bytes() == (theirs.out / name).read_bytes()
