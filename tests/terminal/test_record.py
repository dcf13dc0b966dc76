"""`asr record`: recordings are saved immediately, bad ones are reported, and a session continues the last one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support.virtual_microphone import VirtualMicrophone

from asr.cli import main
from asr.data.manifests import Utterance, read_table
from asr.streaming.audio.microphone import Block
from asr.streaming.terminal.record import PROMPTS, Recorder, fault, read_prompts, record, walk

TONE = (0.3 * np.sin(np.arange(16000) * 0.1)).astype(np.float32)


def test_recordings_and_their_lines_make_a_manifest(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "new", "anna")
    recorder.keep(TONE, "ONE TWO")
    Recorder(tmp_path / "new", "anna").keep(0.5 * TONE, "THREE")  # another session
    first, second = read_table(tmp_path / "new" / "manifest.tsv")
    assert isinstance(first, Utterance) and isinstance(second, Utterance)
    assert [(u.text, u.speaker, u.audio.name) for u in (first, second)] == [
        ("ONE TWO", "anna", "0001.flac"), ("THREE", "anna", "0002.flac")
    ]  # fmt: skip
    samples, rate = soundfile.read(second.audio, dtype="float32")
    assert rate == 16000
    np.testing.assert_allclose(samples, 0.5 * TONE, atol=1e-4)


def test_recording_without_its_line_is_not_overwritten(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "me")
    (tmp_path / "0001.flac").write_bytes(b"precious")
    assert recorder.keep(TONE, "ONE").name == "0002.flac"
    assert (tmp_path / "0001.flac").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("cut", "texts"), [(1, ["ONE", "TWO"]), (6, ["ONE"]), (8, ["ONE"]), (20, ["ONE"]), (26, []), (54, [])]
)
def test_a_manifest_that_a_full_disk_cut_off_continues(cut: int, texts: list[str], tmp_path: Path) -> None:
    for text in ("ONE", "TWO"):
        Recorder(tmp_path, "anna").keep(TONE, text)
    manifest = tmp_path / "manifest.tsv"
    content = manifest.read_bytes()
    manifest.write_bytes(content[: len(content) - cut])
    Recorder(tmp_path, "anna").keep(TONE, "THREE")
    assert [each.text for each in read_table(manifest)] == [*texts, "THREE"]  # type: ignore[union-attr]


def test_a_last_line_that_may_be_complete_is_not_dropped(tmp_path: Path) -> None:
    Recorder(tmp_path, "anna").keep(TONE, "ONE")
    content = (tmp_path / "manifest.tsv").read_bytes()
    (tmp_path / "manifest.tsv").write_bytes(content[:-2])
    with pytest.raises(ValueError, match="may be cut off after 'ann': complete its speaker and end"):
        Recorder(tmp_path, "bob")
    assert (tmp_path / "manifest.tsv").read_bytes() == content[:-2]


def test_a_strange_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.tsv").write_text("file\twords\nx.wav\tONE\n")
    with pytest.raises(ValueError, match=r"not a manifest of `asr record`"):
        Recorder(tmp_path, "me")


@pytest.mark.parametrize("speaker", ["a\tb", "a\nb", "a\rb", "a\0b", " a", "a\udcff", "a\ufffd"])
def test_speakers_that_spoil_the_manifest_are_refused(speaker: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"speaker '.*' does not fit into a table: .* without tabs"):
        Recorder(tmp_path / "new", speaker)
    assert not (tmp_path / "new").exists()


def test_prompts_that_spoil_the_manifest_are_refused(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("GOOD\nBA\0D\n")
    with pytest.raises(ValueError, match=r"prompt 'BA\\x00D' does not fit into a table"):
        read_prompts(tmp_path / "prompts.txt")
    recorder = Recorder(tmp_path, "me")
    with pytest.raises(ValueError, match=r"text 'A\\tB' does not fit"):
        recorder.keep(TONE, "A\tB")
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.txt"]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (TONE[:4000], "only 0.2 s long"),
        (np.zeros(0, np.float32), "only 0.0 s long"),
        (0.01 * TONE, "too quiet"),
        (np.sign(TONE), "too loud"),
        (TONE, ""),
    ],
)
def test_what_spoils_a_recording(samples: np.ndarray, message: str) -> None:
    assert message in fault(samples) if message else fault(samples) == ""


def test_prompts(tmp_path: Path) -> None:
    assert 40 <= len(read_prompts(PROMPTS)) == len(set(read_prompts(PROMPTS)))
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    with pytest.raises(ValueError, match="has no prompts"):
        read_prompts(tmp_path / "empty.txt")
    with pytest.raises(ValueError, match="cannot be read"):
        read_prompts(tmp_path / "none.txt")


def test_the_channel_is_the_microphones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--out", str(tmp_path), "--channel", "0"]) == 1
    assert "channel is 0; it must be a whole number in [1, " in capsys.readouterr().err


class Fake:
    """A microphone, and the clock of `asr record`: each block takes as long as it is.

    blocks: read one after the other, then silence. before: blocks that it heard earlier.
    """

    def __init__(self, blocks: Sequence[Block] = (), before: int = 0, sample_rate: int = 16000) -> None:
        self.sample_rate, self.now = sample_rate, 0.0
        self.ready: Callable[[], object] = lambda: None
        """Waited for before each block."""
        self._blocks, self._before = list(blocks), before

    def monotonic(self) -> float:
        return self.now

    def read(self, timeout_s: float) -> Block | None:
        if self._before:
            self._before -= 1
            return Block(np.ones(800, np.float32), self.sample_rate)
        if timeout_s == 0:
            return None
        self.ready()
        silence = Block(np.zeros(self.sample_rate // 20, np.float32), self.sample_rate)
        block = self._blocks.pop(0) if self._blocks else silence
        self.now += len(block.samples) / self.sample_rate
        return block


def recorded(microphone: Fake, monkeypatch: pytest.MonkeyPatch, until_s: float) -> tuple[np.ndarray, str]:
    monkeypatch.setattr("asr.streaming.terminal.record.time", microphone)
    return record(microphone, lambda: microphone.now >= until_s)  # type: ignore[arg-type]


@pytest.mark.parametrize("sample_rate", [16000, 48000])
def test_recording_lasts_from_key_to_key(monkeypatch: pytest.MonkeyPatch, sample_rate: int) -> None:
    """And a quarter of a second longer, because the key is pressed early; at 16 kHz."""
    tone = Block((0.3 * np.sin(np.arange(sample_rate) * 1600 / sample_rate)).astype(np.float32), sample_rate)
    samples, error = recorded(Fake([tone], before=3, sample_rate=sample_rate), monkeypatch, 1.0)
    assert error == "" and len(samples) == pytest.approx(1.25 * 16000, abs=0.05 * 16000)
    np.testing.assert_allclose(samples[1000:15000], TONE[1000:15000], atol=0.02)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Block(TONE, 16000, error="it stopped"), "it stopped"),
        (Block(TONE, 16000, gap=7), "7 samples were lost"),
        (Block(np.tile(TONE, 40), 16000), "stopped after 30 s; press Enter when you are done"),
    ],
)
def test_incomplete_recording_says_why(monkeypatch: pytest.MonkeyPatch, block: Block, message: str) -> None:
    assert recorded(Fake([block]), monkeypatch, 100.0)[1] == message


def test_r_discards_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = threading.Event()

    def keys() -> Iterator[str]:
        yield from ("\n", "\n", "r\n", "\n", "\n", "\n")
        typed.set()

    microphone = Fake([Block(TONE, 16000), Block(0.5 * TONE, 16000)])
    microphone.ready = typed.wait
    monkeypatch.setattr("asr.streaming.terminal.record.time", microphone)
    monkeypatch.setattr(sys, "stdin", keys())
    assert walk(["ONE"], Recorder(tmp_path, "me"), microphone) == 1  # type: ignore[arg-type]
    samples, _ = soundfile.read(tmp_path / "0001.flac")
    assert np.abs(samples).max() == pytest.approx(0.15, abs=0.01)


class Session:
    """`asr record` in its own process, with the virtual microphone."""

    def __init__(self, microphone: VirtualMicrophone, folder: Path, prompts: Path) -> None:
        command = [sys.executable, "-m", "asr.cli", "record", "--out", str(folder), "--prompts", str(prompts)]
        self.process = subprocess.Popen(
            command, env=microphone.env | {"PYTHONUNBUFFERED": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.seen = ""

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def expect(self, text: str) -> None:
        """Waits until `text` is printed; consumes the output before it."""
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        deadline = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < deadline and self.process.poll() is None, f"no {text!r} in: {self.seen}"
            self.seen += (self.process.stdout.read() or b"").decode()
            time.sleep(0.02)
        self.seen = self.seen.split(text, 1)[1]

    def end(self) -> str:
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), True)
        self.process.wait(60)
        return self.seen + self.process.stdout.read().decode()


def test_nothing_was_recorded(virtual_microphone: VirtualMicrophone, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("FIRST THING\n")
    session = Session(virtual_microphone, tmp_path / "out", tmp_path / "prompts.txt")
    session.expect("FIRST THING")
    session.process.send_signal(signal.SIGINT)
    said = session.end()
    assert "Nothing was recorded." in said and "manifest" not in said and session.process.returncode == 130


def test_prompts_are_read_into_a_microphone(virtual_microphone: VirtualMicrophone, tmp_path: Path) -> None:
    prompts, out, played = tmp_path / "prompts.txt", tmp_path / "out", tmp_path / "tone.wav"
    prompts.write_text("FIRST THING\nSECOND THING\nTHIRD THING\n")
    soundfile.write(played, np.concatenate([np.zeros(8000, np.float32), TONE, TONE]), 16000)

    session = Session(virtual_microphone, out, prompts)
    session.expect("[1/3]  FIRST THING")
    session.type("\n")
    session.expect("recording")
    session.type("\n")
    session.expect("Enter records again")  # only silence, and very little
    session.type("\n")
    session.expect("recording")
    virtual_microphone.play(played).wait()
    session.type("\n")
    session.expect("Enter keeps it")
    session.type("\n")
    session.expect("[2/3]  SECOND THING")
    session.type("s\n")
    session.expect("[3/3]  THIRD THING")
    session.process.send_signal(signal.SIGINT)
    assert "1 recordings" in session.end()
    assert session.process.returncode == 130

    (kept,) = read_table(out / "manifest.tsv")
    assert isinstance(kept, Utterance) and kept.text == "FIRST THING"
    samples, rate = soundfile.read(kept.audio, dtype="float32")
    assert rate == 16000 and len(samples) > 2 * len(TONE)
    spectrum = np.abs(np.fft.rfft(samples))
    assert spectrum.argmax() * rate / len(samples) == pytest.approx(0.1 * 16000 / (2 * np.pi), abs=2)
    assert np.abs(samples).max() == pytest.approx(0.3, abs=0.05)

    session = Session(virtual_microphone, out, prompts)
    session.expect("[1/2]  SECOND THING")
    session.type("q\n")
    assert "asr prepare manifest" in session.end() and session.process.returncode == 0
