"""`asr-stream` with many files, and with input from other programs."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support import wait_until
from support.recognition import recognize
from support.terminal import Terminal

from asr import Recognizer
from asr.streaming import Final
from asr.streaming.audio import audio_file, pipe
from asr.streaming.audio.audio_file import AudioFileError, read_blocks
from asr.streaming.server.cli import new_parser as server_parser
from asr.streaming.terminal import files
from asr.streaming.terminal.cli import main
from asr.streaming.terminal.files import Transcriber
from asr.streaming.terminal.options import new_recognizer

COMMAND = [sys.executable, "-m", "asr.streaming.terminal.cli"]


pytestmark = pytest.mark.usefixtures("restore_signals")


# ---- standard input and pipes ----


def encoded(samples: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, **options)
    return file.getvalue()


def endless(wav: bytes, size: int = 0xFFFFFFFF) -> bytes:
    """A WAV header as from programs that do not know the length yet."""
    at = wav.index(b"data") + 4
    return wav[:at] + size.to_bytes(4, "little") + wav[at + 4 :]


class Sender:
    """A program that writes to our standard input up to `pause_at` and, once `go_on` is set, the rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, content: bytes, pause_at: int = 0) -> None:
        reader, writer = os.pipe()
        self.go_on = threading.Event()
        monkeypatch.setattr(sys, "stdin", os.fdopen(reader))

        def send() -> None:
            with os.fdopen(writer, "wb", buffering=0) as pipe:
                pipe.write(content[:pause_at])
                if pause_at:
                    self.go_on.wait(20)
                pipe.write(content[pause_at:])

        threading.Thread(target=send, daemon=True).start()


STREAMED: dict[str, Callable[[np.ndarray], bytes]] = {
    "wav": lambda samples: encoded(samples, format="WAV"),
    "endless wav": lambda samples: endless(encoded(samples, format="WAV")),
    "aiff": lambda samples: encoded(samples, format="AIFF"),
    "au": lambda samples: encoded(samples, format="AU"),
    "flac": lambda samples: encoded(samples, format="FLAC"),
    "raw": lambda samples: samples.astype("<i2").tobytes(),
}


@pytest.mark.parametrize("kind", STREAMED)
def test_what_streams_is_read_as_it_comes(kind: str, sample: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    content = STREAMED[kind](sample)
    sender = Sender(monkeypatch, content, pause_at=len(content) // 2)
    found = []
    for block, rate in read_blocks("-", 16000 if kind == "raw" else None):
        assert rate == 16000
        found.append(block)
        if len(found) == 15:  # a quarter, while half is there
            sender.go_on.set()
    assert np.array_equal(np.concatenate(found), sample / np.float32(32768))


@pytest.mark.parametrize("options", [{"format": "OGG", "subtype": "VORBIS"}, {"format": "MP3"}, {"format": "CAF"}])
def test_what_does_not_stream_is_read_whole(
    options: dict[str, str], sample: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = encoded(sample, **options)
    path = tmp_path / "audio"
    path.write_bytes(content)
    Sender(monkeypatch, content)
    piped = np.concatenate([block for block, _ in read_blocks("-")])
    assert np.array_equal(piped, np.concatenate([block for block, _ in read_blocks(path)])) and len(piped) > 90000


def test_a_long_stream_takes_no_more_memory(sample: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    audio = np.tile(sample, 40)  # 7 MB
    Sender(monkeypatch, endless(encoded(audio, format="WAV")))
    tracemalloc.start()
    try:
        assert sum(len(block) for block, _ in read_blocks("-")) == len(audio)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_reads_standard_input_and_a_named_pipe(
    sample: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fifo = tmp_path / "audio.mp3", tmp_path / "fifo"
    path.write_bytes(encoded(sample, format="MP3"))
    expected = np.concatenate([block for block, _ in read_blocks(path)])
    with open(path) as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", file)
        patch.setattr(pipe, "MAX_PIPED", 0)  # it is seekable: nothing has to be kept
        assert np.array_equal(np.concatenate([block for block, _ in read_blocks("-")]), expected)
    os.mkfifo(fifo)
    threading.Thread(target=lambda: fifo.write_bytes(path.read_bytes()), daemon=True).start()
    assert np.array_equal(np.concatenate([block for block, _ in read_blocks(fifo)]), expected)


def test_nothing_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    Sender(monkeypatch, b"")
    with pytest.raises(AudioFileError, match=r"^standard input is empty; send audio into it: ffmpeg "):
        list(read_blocks("-"))


@pytest.mark.parametrize("content", [b"RIFF", b"no audio at all", endless(b"data....")])
def test_no_audio_on_standard_input(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    Sender(monkeypatch, content)
    with pytest.raises(AudioFileError, match=r"cannot read standard input: .*recognised. ffmpeg says: Invalid data"):
        list(read_blocks("-"))


def test_nobody_sends_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = os.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(controller, "wb"):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(AudioFileError, match="standard input is a terminal; send audio into it"):
            list(read_blocks("-"))


def test_raw_files(tiny_onnx: Path, sample: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audio.raw").write_bytes(sample.tobytes() + b"x")  # half a sample too much
    command = ["--model", str(tiny_onnx), "--file", str(tmp_path / "audio.raw")]
    assert main([*command, "--raw-rate", "16000"]) == 0
    shown = [event.text for event in recognize(Recognizer(tiny_onnx), sample) if isinstance(event, Final)]
    assert capsys.readouterr() == ("".join(f"{text}\n" for text in shown), "")
    assert main(command) == 1
    assert capsys.readouterr().err.endswith("for raw 16-bit samples give --raw-rate\n")


def test_a_file_has_the_words_of_the_server(
    sample: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both use the bundled model in int8."""
    soundfile.write(tmp_path / "audio.wav", sample, 16000)
    assert main(["--file", str(tmp_path / "audio.wav"), "--format", "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = recognize(new_recognizer(server_parser().parse_args([])), sample)
    assert [event["words"] for event in found if event["type"] == "final"] == [
        event.to_dict()["words"] for event in expected if event.type == "final"
    ]


def listening(tiny_onnx: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "--model", str(tiny_onnx), "--file", "-", "--raw-rate", "16000", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def unread(process: subprocess.Popen[bytes]) -> int:
    """The bytes in a pipe to `process` that it has not read; fails if it has ended."""
    assert process.stdin is not None and process.poll() is None
    return int.from_bytes(fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_live_through_a_pipe_until_a_signal(
    tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path, ending: signal.Signals
) -> None:
    """Finals are written immediately; a signal ends the wait for more audio, and the tail is not lost."""
    notes = tmp_path / "notes.txt"
    first, tail = conversation[:130000], conversation[130000:156000]  # an utterance and its pause; most of the next
    with listening(tiny_onnx, "--output", str(notes)) as process:
        assert process.stdin is not None
        process.stdin.write((first * 32767).astype(np.int16).tobytes())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not (notes.exists() and notes.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert notes.read_text().count("\n") == 1
        process.stdin.write((tail * 32767).astype(np.int16).tobytes())
        process.stdin.flush()
        wait_until(lambda: unread(process) == 0)
        process.send_signal(ending)
        assert process.wait(timeout=60) == 128 + ending  # though its standard input is still open
        assert process.stderr is not None and process.stderr.read() == b""
    assert notes.read_text().count("\n") == 2


def emptied(terminal: int) -> bool:
    """Reads what a process has written, so that it can write more."""
    return not select.select([terminal], [], [], 0.1)[0] or bool(os.read(terminal, 65536))


@pytest.mark.parametrize("ending", ["hang-up", "end of the audio"])
def test_a_closed_terminal_loses_no_words(
    tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path, ending: str
) -> None:
    """Its shell and the kernel both send SIGHUP; a disowned process gets none. Writing to the terminal fails."""
    notes, samples = tmp_path / "notes.txt", (conversation[:156000] * 32767).astype(np.int16).tobytes()
    command = [*COMMAND, "--model", str(tiny_onnx), "--file", "-", "--raw-rate", "16000", "--output", str(notes)]
    terminal, output = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output) as process:
        assert process.stdin is not None
        os.close(output)
        process.stdin.write(samples[:260000])
        process.stdin.flush()
        wait_until(lambda: emptied(terminal) and notes.exists() and notes.read_text())
        os.close(terminal)
        process.stdin.write(samples[260000:])
        process.stdin.flush()
        wait_until(lambda: unread(process) == 0)
        if ending == "hang-up":
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
        else:
            process.stdin.close()
        assert process.wait(timeout=60) == (128 + signal.SIGHUP if ending == "hang-up" else 0)
    assert notes.read_text().count("\n") == 2


def test_finals_outlive_a_kill(tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path) -> None:
    notes = tmp_path / "notes.srt"
    with listening(tiny_onnx, "--output", str(notes)) as process:
        assert process.stdin is not None
        process.stdin.write((conversation[:130000] * 32767).astype(np.int16).tobytes())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not (notes.exists() and notes.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert notes.read_text().startswith("1\n00:00:0") and notes.read_text().endswith("\n\n")


# ---- many files ----


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory, conversation: np.ndarray) -> list[str]:
    """Files of different lengths, the longest first."""
    folder = tmp_path_factory.mktemp("recordings")
    paths = []
    for number, length in enumerate((219000, 90000, 60000, 40000)):
        paths.append(str(folder / f"{number}.wav"))
        soundfile.write(paths[-1], conversation[:length], 16000, subtype="FLOAT")
    return paths


@pytest.mark.parametrize("format", ["text", "json"])
def test_text_does_not_depend_on_jobs(
    tiny_onnx: Path, recordings: list[str], format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for jobs in ("1", "3"):
        options = ["--model", str(tiny_onnx), "--jobs", jobs, "--format", format]
        assert main([*options, "--file", recordings[0], "missing.wav", *recordings[1:]]) == 1
        outputs.append(capsys.readouterr())
    assert outputs[0].out.count("\n") > 8 and "missing.wav" in outputs[0].out
    assert outputs[0] == outputs[1] and "no speech" not in outputs[0].err


def test_files_are_read_side_by_side(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def read(path: str, *_: object, **__: object) -> Iterator[tuple[np.ndarray, int]]:
        meeting.wait()  # fails if they are read one after the other
        yield np.zeros(1600, np.float32), 16000

    monkeypatch.setattr(files, "read_blocks", read)
    with Transcriber(recognizer, ["a", "b"], 2, lambda: False) as transcriber:
        for transcription in transcriber.transcriptions:
            while transcription.events.get(timeout=60) != "end":
                pass
    assert [each.crash for each in transcriber.transcriptions] == [None, None]


def test_first_final_is_shown_while_reading(
    tiny_onnx: Path, recordings: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = threading.Event()
    original = files.read_blocks

    def read(path: str, *arguments: Any, **options: Any) -> Iterator[tuple[np.ndarray, int]]:
        for number, block in enumerate(original(path, *arguments, **options)):
            if number == 80:
                assert held.wait(30)
            yield block

    def write(text: str) -> int:
        if "\n" in text and "==" not in text:
            held.set()
        return len(text)

    monkeypatch.setattr(files, "read_blocks", read)
    monkeypatch.setattr(sys.stdout, "write", write)
    assert main(["--model", str(tiny_onnx), "--file", *recordings[:2]]) == 0


def test_progress_is_shown_and_goes_away(
    tiny_onnx: Path, recordings: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(80)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("asr.streaming.terminal.status.REDRAW_S", 0.0001)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert main(["--model", str(tiny_onnx), "--stats", "--file", *recordings, "missing.wav"]) == 1
    shown = [line for screen in terminal.screens for line in screen if " files" in line]
    shares = [int(line.split("%")[0].split()[-1]) for line in shown]
    assert shares == sorted(shares) and shares[0] < 40 and 90 < shares[-1] <= 100
    assert "0/5 files" in shown[0]
    first, *rest = terminal.text
    assert first == "there is no audio file missing.wav"
    assert rest[0].startswith("25.6 s of audio in ") and " finals" not in capsys.readouterr().out


def test_progress_counts_files_if_a_length_is_unknown(
    tiny_onnx: Path, recordings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal(80))
    monkeypatch.setenv("TERM", "xterm-256color")
    totals: list[float | None] = []
    show = files.show_files

    def show_files(transcriber: files.Transcriber, output: Any, total_s: float | None, stats: bool) -> Any:
        totals.append(total_s)
        return show(transcriber, output, total_s, stats)

    monkeypatch.setattr(files, "show_files", show_files)
    known = audio_file.duration_s
    monkeypatch.setattr(
        audio_file, "duration_s", lambda path, rate: 0.0 if path == recordings[1] else known(path, rate)
    )
    for chosen in ([recordings[0]], recordings[:2]):
        assert main(["--model", str(tiny_onnx), "--stats", "--file", *chosen]) == 0
    assert totals[0] and totals[1] == 0.0


def test_an_address_is_downloaded_by_another_program() -> None:
    command = r"ffmpeg -v error -nostdin -i FILE -af aresample=\S+ -f wav - \|"
    way_out = rf"there is no audio file https://a.org/b.mp3; download it: {command}"
    with pytest.raises(AudioFileError, match=way_out):
        next(read_blocks("https://a.org/b.mp3"))


def test_files_without_speech_are_named(
    recordings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the bundled model, which outputs nothing in silence."""
    silent = str(tmp_path / "silent.wav")
    soundfile.write(silent, np.zeros(16000, np.int16), 16000)
    assert main(["--search", "greedy", recordings[0], silent]) == 0
    assert capsys.readouterr().err == f"asr-stream: {silent}: no speech was recognized\n"


def test_interrupt_ends_all_files_and_begins_none(
    tiny_onnx: Path, recordings: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = files.read_blocks

    def read(path: str, *arguments: Any, **options: Any) -> Iterator[tuple[np.ndarray, int]]:
        for number, block in enumerate(original(path, *arguments, **options)):
            if path == recordings[1] and number == 20:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            yield block

    monkeypatch.setattr(files, "read_blocks", read)
    assert main(["--model", str(tiny_onnx), "--jobs", "1", "--file", *recordings]) == 130
    out = capsys.readouterr().out
    assert f"== {recordings[1]} ==\n" in out and recordings[2] not in out
    assert out.splitlines()[-1] and "==" not in out.splitlines()[-1]  # two seconds of the second file


def test_an_interrupted_file_ends_and_is_incomplete(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def read(*_: object, **__: object) -> Iterator[tuple[np.ndarray, int]]:
        for number in range(3):
            taken.append(number)
            yield np.zeros(1600, np.float32), 16000

    monkeypatch.setattr(files, "read_blocks", read)
    for last, num_taken, is_complete in ((9, 3, True), (1, 2, False)):
        taken.clear()
        with Transcriber(recognizer, ["a"], 1, lambda last=last: last in taken) as transcriber:
            (one,) = transcriber.transcriptions
            while one.events.get(timeout=60) != "end":
                pass
        assert (len(taken), one.complete) == (num_taken, is_complete)


def test_leaving_ends_the_files_that_are_read(recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    block = np.zeros(1600, np.float32), 16000
    monkeypatch.setattr(files, "read_blocks", lambda *_, **__: itertools.repeat(block))
    with Transcriber(recognizer, ["a"], 1, lambda: False) as transcriber:
        (one,) = transcriber.transcriptions
        assert one.events.get(timeout=60) == "begin"
    while one.events.get(timeout=60) != "end":
        pass


def test_what_nobody_expects_is_not_swallowed(
    tiny_onnx: Path, recordings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory on the device")

    monkeypatch.setattr("asr.streaming.stream.Stream.accept_waveform", broken)
    with pytest.raises(RuntimeError, match="out of memory on the device"):
        main(["--model", str(tiny_onnx), "--file", *recordings])


def test_an_output_file_is_not_emptied_unasked(
    tiny_onnx: Path, recordings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, folder = tmp_path / "notes.txt", tmp_path / "texts"
    folder.mkdir()
    notes.write_text("yesterday\n")
    (folder / "3.txt").write_text("yesterday\n")
    for output, taken in ((notes, notes), (folder, folder / "3.txt")):
        command = ["--model", str(tiny_onnx), "--file", recordings[2], recordings[3], "--output", str(output)]
        with pytest.raises(SystemExit) as exit:
            main(command)
        assert exit.value.code == 2
        expected = f"{taken} exists already: add --append or --overwrite, or choose another --output"
        assert expected in capsys.readouterr().err and taken.read_text() == "yesterday\n"
        assert main([*command, "--append"]) == 0
        added = taken.read_text()
        assert added.startswith("yesterday\n") and len(added) > 20
        assert main([*command, "--overwrite"]) == 0
        assert taken.read_text() == added.removeprefix("yesterday\n")
    with pytest.raises(SystemExit):
        main(["--file", recordings[3], "--output", str(tmp_path / "a.srt"), "--append"])
    assert "subtitles cannot be continued" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--file", recordings[3], "--overwrite"])
    assert "give --output as well" in capsys.readouterr().err


def test_standard_input_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"precious")
    with path.open("rb") as stdin:
        command = [*COMMAND, "--file", "-", "--output", str(path), "--overwrite"]
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True)
    assert done.returncode == 2 and "--output would overwrite the recording of standard input" in done.stderr
    assert path.read_bytes() == b"precious"


def test_names_that_are_no_utf8_or_too_long(tiny_onnx: Path, recordings: list[str], tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff\x1b[31m.wav")
    odd.write_bytes(Path(recordings[3]).read_bytes())
    long = tmp_path / ("a" * 251 + ".wav")
    for form, encoding in (("text", "utf-8"), ("json", "utf-8"), ("text", "ascii")):
        command = [*COMMAND, "--model", str(tiny_onnx), "--format", form, "--file", str(odd), str(tmp_path / "ä.wav")]
        done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding})
        assert done.returncode == 1 and b"Traceback" not in done.stderr + done.stdout
        assert done.stdout.count(b"\n") > 1
    command = [*COMMAND, "--file", str(long), "--format", "json", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "File name too long" in done.stderr


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_standard_file_that_is_closed(tiny_onnx: Path, recordings: list[str], number: int, tmp_path: Path) -> None:
    command = [*COMMAND, "--model", str(tiny_onnx), "--output", str(tmp_path / "a.txt")]
    command += ["--file", recordings[3], "missing"]
    script = f'exec {number}<&-; exec "$@"'
    done = subprocess.run(["sh", "-c", script, "sh", *command], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (tmp_path / "a.txt").read_text().startswith("== ")


def test_a_recording_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"precious")
    with pytest.raises(SystemExit):
        main(["--file", str(path), "--output", str(tmp_path / "." / "a.wav")])
    assert f"--output would overwrite the recording {path}" in capsys.readouterr().err
    assert path.read_bytes() == b"precious"
