"""Synthetic speech: many voices, a manifest that `asr prepare` reads, interruption and resumption without a trace."""

from __future__ import annotations

import lzma
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
import soundfile

from asr.cli import main
from asr.data import synthesize as module
from asr.data.cuts import load_cuts
from asr.data.synthesize import Voice, find_voices, plan, read_sentences, synthesize

LINES = ["THE FIRST LINE", "a second one, Here", "word", "and  a\tthird line", " ".join(["much"] * 40), ""]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.xz"
    path.write_bytes(lzma.compress("\n".join(LINES).encode()))
    return path


def arguments(text: Path, out: Path, *more: object) -> list[str]:
    return ["synthesize", str(text), "--out", str(out), "--synthesizers", "espeak-ng", "--jobs", "2", *map(str, more)]


def test_writes_speech_and_a_manifest_for_prepare(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(arguments(text, out, "--num", 9)) == 0
    header, *rows = [line.split("\t") for line in (out / "manifest.tsv").read_text().splitlines()]
    assert header == ["path", "text", "speaker", "duration_s"]
    assert len(rows) == 9
    assert {row[1] for row in rows} == {"THE FIRST LINE", "a second one, Here", "and a third line"}
    assert len({row[2] for row in rows}) > 5, "many voices"
    assert {path.relative_to(out).as_posix() for path in out.rglob("*.*")} == {
        "manifest.tsv",
        *(row[0] for row in rows),
    }
    for path, _, speaker, duration_s in rows:
        info = soundfile.info(out / path)
        assert (info.format, info.samplerate, info.channels) == ("FLAC", 16000, 1)
        assert info.duration == pytest.approx(float(duration_s), abs=1e-3)
        assert 0.5 < info.duration < 5.0 and speaker.startswith("espeak-ng-en")
    assert main(["prepare", "manifest", str(out / "manifest.tsv"), "--out", str(tmp_path / "d"), "--jobs", "1"]) == 0
    cuts = list(load_cuts(tmp_path / "d" / "manifest.jsonl.gz"))
    assert [cut.supervisions[0].speaker for cut in cuts] == [row[2] for row in rows]


def test_interrupted_run_ends_in_the_same_state(text: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(arguments(text, whole, "--num", 8)) == 0
    command = [sys.executable, "-m", "asr.cli", *arguments(text, parts, "--num", 100_000)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    manifest = parts / "manifest.tsv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (manifest.exists() and manifest.read_text().count("\n") > 3):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in output, output
    rows = manifest.read_text().splitlines()[1:]
    spoken = {path.relative_to(parts).as_posix() for path in parts.rglob("*.*") if path != manifest}
    assert spoken == {row.split("\t")[0] for row in rows}, "nothing that the manifest does not list"
    # As if the machine had stopped in the midst of a line.
    manifest.write_text("\n".join(["path\ttext\tspeaker\tduration_s", *rows[:4], rows[4][:20]] if len(rows) > 4 else
                                  ["path\ttext\tspeaker\tduration_s", *rows[:3], "audio/0000/00"]))  # fmt: skip
    assert main(arguments(text, parts, "--num", 8)) == 0
    assert manifest.read_text() == (whole / "manifest.tsv").read_text()
    for row in manifest.read_text().splitlines()[1:]:
        path = row.split("\t")[0]
        assert (parts / path).read_bytes() == (whole / path).read_bytes()
    before = os.stat(parts / path).st_mtime_ns
    assert main(arguments(text, parts, "--num", 8)) == 0, "nothing left to do"
    assert os.stat(parts / path).st_mtime_ns == before


def test_hours_end_it(text: Path, tmp_path: Path) -> None:
    jobs = plan(read_sentences(text), find_voices(["espeak-ng"]), seed=1)
    num, seconds, failures = synthesize(jobs, tmp_path / "out", hours=6 / 3600)
    assert 6.0 <= seconds < 12.0 and not failures
    assert len((tmp_path / "out" / "manifest.tsv").read_text().splitlines()) == num + 1


def test_another_seed_does_not_mix_in(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(text, tmp_path / "out", "--num", 2)) == 0
    assert main(arguments(text, tmp_path / "out", "--num", 4, "--seed", 2)) == 1
    assert "another text, seed or set of voices: choose another --out" in capsys.readouterr().err


def test_plan_uses_all_sentences_and_all_synthesizers_evenly() -> None:
    voices = {"espeak-ng": [Voice("espeak-ng", f"v{i}") for i in range(100)], "flite": [Voice("flite", "slt")]}
    jobs = list(islice(plan([f"line {i}" for i in range(50)], voices, 3), 400))
    assert jobs == list(islice(plan([f"line {i}" for i in range(50)], voices, 3), 400))
    assert len({job.path for job in jobs}) == 400
    assert len({job.text for job in jobs[:50]}) == 50 and jobs[50].text == jobs[0].text
    assert jobs[50] != jobs[0]
    assert 150 < sum(job.voice.synthesizer == "flite" for job in jobs) < 250
    assert min(job.rate for job in jobs) < 0.85 and max(job.rate for job in jobs) > 1.2


@pytest.mark.parametrize("name", ["flite", "festival"])
def test_other_synthesizers_speak(name: str, tmp_path: Path) -> None:
    jobs = plan(["the quick brown fox jumps"], find_voices([name]), 1)
    num, seconds, failures = synthesize(jobs, tmp_path, num=2)
    assert (num, failures) == (2, []) and 1.0 < seconds / num < 5.0


def test_a_failing_synthesizer_ends_it_with_its_words(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = ("espeak-ng", lambda: ["x"], lambda *_: ["sh", "-c", "echo no such voice >&2; exit 3"])
    monkeypatch.setitem(module.SYNTHESIZERS, "espeak-ng", broken)
    assert main(arguments(text, tmp_path / "out", "--num", 100)) == 1
    assert "20 utterances failed in a row" in (error := capsys.readouterr().err) and "no such voice" in error


def test_what_is_missing_is_named(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*args: object) -> str:
        assert main(arguments(text, tmp_path / "out", *args)) == 1
        return capsys.readouterr().err

    assert "--num, --hours or both" in error()
    assert "--num is 0; expected more than 0" in error("--num", 0)
    assert "--hours is nan" in error("--hours", "nan")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.tsv").write_text("path\ttext\na.wav\tmine\n")
    assert "was not written by asr synthesize" in error("--num", 1)
    text.write_bytes(lzma.compress(b"word\n"))
    assert "no line of 2 to 35 words" in error("--num", 1)
    text.write_bytes(b"not xz")
    assert "cannot be read" in error("--num", 1)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match=r"no espeak-ng, flite, festival on this machine; .*apt-get install espeak-ng"):
        find_voices()
