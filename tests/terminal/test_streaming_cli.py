"""`asr-stream`: files of every sort, signals, pipes, machines without a microphone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import soundfile

from asr import Recognizer
from asr.runtime.onnx_model import ModelError
from asr.streaming import Final
from asr.streaming.terminal.arguments import new_parser, parse
from asr.streaming.terminal.cli import SAMPLE, main
from asr.streaming.terminal.options import new_recognizer

COMMAND = [sys.executable, "-m", "asr.streaming.terminal.cli"]


pytestmark = pytest.mark.usefixtures("restore_signals")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, conversation: np.ndarray) -> Path:
    path = tmp_path_factory.mktemp("audio") / "recording.wav"
    soundfile.write(path, conversation, 16000, subtype="FLOAT")
    return path


@pytest.fixture(scope="session")
def text(tiny_onnx: Path, conversation: np.ndarray) -> str:
    return recognize(tiny_onnx, conversation)


def recognize(model: Path, samples: np.ndarray, rate: int = 16000) -> str:
    stream = Recognizer(model).stream()
    stream.accept_waveform(samples, rate)
    stream.finish()
    return "".join(event.text + "\n" for event in stream.events() if isinstance(event, Final))


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_ctrl_c_during_imports_is_not_an_error() -> None:
    program = """
import importlib.abc, sys
class Interrupted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "asr.streaming.terminal.arguments":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from asr.streaming.terminal import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")
    (script,) = entry_points(group="console_scripts", name="asr-stream")
    assert script.value == "asr.streaming.terminal:main"


# ---- output ----


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_the_options_reach_the_recognizer(
    tiny_onnx: Path,
    recording: Path,
    conversation: np.ndarray,
    search: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--search", search, "--beam-size", "3", "--chunk-ms", "1280", "--left-context-ms", "640"]
    options += ["--format", "json", "--silence-after-speech-s", "0.2", "--max-utterance-s", "2"]
    assert main(["--model", str(tiny_onnx), "--file", str(recording), *options]) == 0
    rules = {"silence_after_speech_s": 0.2, "max_utterance_s": 2.0}
    stream = Recognizer(tiny_onnx, search=search, beam_size=3, chunk_ms=1280, left_context_ms=640, **rules).stream()
    stream.accept_waveform(conversation)
    stream.finish()
    assert events(capsys.readouterr().out) == [event.to_dict() for event in stream.events()]


def test_several_files_are_distinguished(
    tiny_onnx: Path, recording: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(recording), str(recording)]
    assert main(["--model", str(tiny_onnx), "--file", *paths]) == 0
    assert capsys.readouterr().out == f"== {recording} ==\n{text}" * 2
    assert text.count("\n") == 3
    assert main(["--model", str(tiny_onnx), "--file", *paths, "--format", "json"]) == 0
    assert {event["file"] for event in events(capsys.readouterr().out)} == {str(recording)}


@pytest.mark.parametrize(
    ("suffix", "options", "rate", "num_channels"),
    [("flac", {}, 16000, 1), ("opus", {"format": "OGG", "subtype": "OPUS"}, 48000, 2)],
)
def test_formats_rates_and_channels(
    tiny_onnx: Path,
    conversation: np.ndarray,
    tmp_path: Path,
    suffix: str,
    options: dict[str, str],
    rate: int,
    num_channels: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import soxr

    path = tmp_path / f"speech.{suffix}"
    audio = soxr.resample(conversation[:80000], 16000, rate)
    soundfile.write(path, np.stack([audio] * num_channels, axis=1), rate, **options)
    assert main(["--model", str(tiny_onnx), "--file", str(path)]) == 0
    decoded = soundfile.read(path, dtype="float32", always_2d=True)[0].mean(axis=1)
    assert capsys.readouterr() == (recognize(tiny_onnx, decoded, rate), "")


def test_the_example_prints_words_with_their_times(tiny_onnx: Path, recording: Path, text: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "transcribe_file.py"
    command = [sys.executable, str(example), str(recording), str(tiny_onnx)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[-1] for line in lines] == text.split()
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times) and times[-1] > 11


def test_the_latency_benchmark(tiny_onnx: Path, recording: Path) -> None:
    benchmark = Path(__file__).parents[2] / "benchmarks" / "latency.py"
    command = [sys.executable, str(benchmark), "--model", str(tiny_onnx), "--seconds", "10", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert list(found) == ["partial_ms", "final_ms", "real_time_factor", "peak_memory_mb"]
    assert found["partial_ms"]["n"] > 5 and found["final_ms"]["n"] >= 1


# ---- bad files ----


def damaged(kind: str, folder: Path, sample: np.ndarray) -> Path:
    path = folder / f"{kind}.flac"
    if kind == "missing":
        return path
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        soundfile.write(path, sample, 16000)
        path.write_bytes(path.read_bytes()[:30000])
    return path


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "cut"])
def test_broken_files_are_reported_and_others_read(
    tiny_onnx: Path,
    recording: Path,
    text: str,
    sample: np.ndarray,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = damaged(kind, tmp_path, sample)
    assert main(["--model", str(tiny_onnx), "--file", str(path), str(recording)]) == 1
    out, err = capsys.readouterr()
    assert out.endswith(f"== {recording} ==\n{text}")
    assert err.startswith("asr-stream: ") and str(path) in err and err.count("\n") == 1
    assert {"empty": "is empty", "folder": "is a folder: name its files"}.get(kind, "") in err
    assert main(["--model", str(tiny_onnx), "--file", str(path), "--format", "json"]) == 1
    found = events(capsys.readouterr().out)
    assert [event["type"] for event in found].count("error") == 1 and found[-1]["type"] == "error"
    if kind == "cut":  # the available audio is recognized
        assert [event["type"] for event in found].count("final") == 1


def test_nan_in_a_file_is_reported(
    tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audio = conversation.copy()
    audio[100] = np.nan
    soundfile.write(tmp_path / "nan.wav", audio, 16000, subtype="FLOAT")
    assert main(["--model", str(tiny_onnx), "--file", str(tmp_path / "nan.wav")]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 3
    assert err.startswith("asr-stream: 1 sample was not finite")


def test_a_sample_rate_beyond_all_microphones(
    tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "slow.wav", np.zeros(1000, np.int16), 100)
    assert main(["--model", str(tiny_onnx), "--file", str(tmp_path / "slow.wav")]) == 1
    assert "sample_rate is 100" in capsys.readouterr().err


# ---- the command line ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--jobs 0 a.wav", "--jobs is 0; it must be at least 1"),
        ("--realtime", "--realtime is for files: give a FILE as well, or leave it out"),
        ("--system-audio --jobs 2", "--jobs is for files: give a FILE as well, or leave it out"),
        ("--realtime --jobs 2 a.wav", "--jobs is 2, but --realtime reads one file after another: leave out one of"),
        ("--raw-rate 100 a.wav", "sample_rate is 100; it must be a whole number of Hz in [1000, 768000]"),
        ("--file - -", "can be read only once"),
        ("--format srt --file a.wav b.wav", "need a file each, in a folder: --output texts/"),
        ("--output o/ --file a.wav x/a.mp3", "a.wav and x/a.mp3 would both be written to o/a.txt"),
        ("--output o/ --file a.wav a.wav", "a.wav and a.wav would both be written to o/a.txt"),
        ("--format ssa a.wav", "--format is 'ssa'; choose from text, json, srt, vtt, ass, several with commas"),
        ("--format srt, a.wav", "--format is 'srt,'; choose from"),
        ("--format srt,vtt a.wav", "2 formats need a file each, in a folder: --output texts/"),
        ("--format srt,vtt a.wav --output a.srt", "2 formats need a file each, in a folder: --output texts/"),
        ("--format srt,text --output o/ a.wav x/a.mp3", "a.wav and x/a.mp3 would both be written to o/a.srt"),
        ("--format text,srt --output o/ --append a.wav", "--append: subtitles cannot be continued"),
        ("--line-length 30 a.wav", "--line-length is for srt, vtt, ass; the format is text"),
        ("--max-cue-s 0 --format srt a.wav", "--max-cue-s is '0'; it must be a number in [1, 60]"),
        ("--start 5", "--start is for files: give a FILE as well, or leave it out"),
        ("--type --duration 5", "--duration is for files"),
        ("--start -5 a.wav", "--start is '-5'; it must be in seconds or [HH:]MM:SS, such as 90, 1:30 or 1:02:03.5"),
        ("--start 1:60 a.wav", "--start is '1:60'; it must be in seconds"),
        ("--duration 0 a.wav", "--duration is '0'; it must be greater than 0"),
        ("--beam-size 9999999999 a.wav", "--beam-size is 1e+10; it must be a whole number in [1, 1024]"),
        ("--model= a.wav", "--model is empty"),
        ("--hotwords BERTIE a.wav", "--hotwords: there is no file BERTIE; write the words into a file, one per line"),
        (f"--mask {300 * 'a'} a.wav", "aaa cannot be read: File name too long"),
        ("--chunk-ms 100 a.wav", "--chunk-ms is 100; it must be a multiple of 40 in [40, 5120]"),
        ("--file a.wav --sample", "not allowed with argument -f/--file"),
        ("a.wav --sample", "a.wav is a source, and so is --sample: give one of the two"),
        ("a.wav --device 3", "so is --device"),
        ("a.wav --list-devices", "so is --list-devices"),
        ("a.wav --type", "leave out the files"),
        ("a.wav --channel 0", "--channel is '0'; it must be mix, each or a number from 1 to 1024"),
        ("--channel left", "--channel is 'left'; it must be mix, each or a number from 1 to 1024"),
        ("--channel each", "--channel each is for files; of a microphone give the number of one channel"),
        (300 * "a", "aaa is neither a command (serve, toggle) nor a file"),
        ("help", "help is neither a command (serve, toggle) nor a file"),
        ("--type --sample", "--type types the words of the microphone: leave out --sample"),
        ("--type --system-audio", "leave out --system-audio"),
        ("--type --second-pass", "--second-pass corrects words after --type has typed them: leave out one of the two"),
        ("--type emacs", "invalid choice: 'emacs'"),
        ("--paused", "give --type as well"),
        ("--system-audio --file a.wav", "give one of the two"),
        ("--microphone", "in addition to --system-audio; without --system-audio, leave it out"),
    ],
)
def test_options_that_contradict_each_other(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments.split())
    error = capsys.readouterr().err
    assert exit.value.code == 2 and message in error
    assert error.count("\n") == 1 and error.startswith("asr-stream: ") and error.endswith("see asr-stream --help\n")


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["a.wav", "b.wav"], ["a.wav", "b.wav"]),
        (["a.wav", "--stats", "b.wav"], ["a.wav", "b.wav"]),
        (["--stats", "-"], ["-"]),
        (["a.wav", "--file", "b.wav", "c.wav"], ["a.wav", "b.wav", "c.wav"]),
        (["--sample"], None),
        ([], None),
    ],
)
def test_files_need_no_option(arguments: list[str], files: list[str] | None) -> None:
    assert parse(new_parser(), arguments).file == files


@pytest.mark.parametrize(("option", "is_opened"), [("--device 3", True), ("--channel 2", True), ("--stats", False)])
def test_options_of_the_microphone_open_it(option: str, is_opened: bool) -> None:
    assert parse(new_parser(), ["--system-audio", *option.split()]).microphone is is_opened


@pytest.mark.parametrize(
    ("arguments", "phones", "num_words", "message"),
    [
        ([], ("AA",), 0, "mine.onnx is used without a language model: it spells words by their sound"),
        ([], ("AA",), 0, "or --lm FILE from asr lm; without one, --search joint makes the fewest errors (--lm none"),
        ([], (), 0, ""),
        (["--lm", "none"], ("AA",), 0, ""),
        (["--search", "greedy"], ("AA",), 0, ""),
        (["--lm", "my.lm"], ("AA",), 51, "below 20000 words, train it on more text of the language de\n"),
        (["--lm", "my.lm"], ("AA",), 20_000, ""),
        (["--lm", "spelled.lm"], ("AA",), 20_000, "spelled.lm has no pronunciations: words are spelled by their sound"),
        (["--lm", "spelled.lm"], (), 20_000, ""),
    ],
)
def test_what_writes_wrong_words_is_told_once(
    arguments: list[str],
    phones: tuple[str, ...],
    num_words: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def recognizer(**given: Any) -> SimpleNamespace:
        pronounced = [] if given["lm"] == "spelled.lm" else ["AA"]
        lm = SimpleNamespace(num_ngrams=[num_words + 3], phones=pronounced) if num_words else None
        onnx = SimpleNamespace(metadata=SimpleNamespace(phones=phones, language="de"))
        options = {name: given[name] for name in ("search", "phrases")} | {"use_lm": True}
        made = SimpleNamespace(onnx=onnx, language_model=lm, skipped_lines=(), _given=given, **options)
        made.spelling_warning = Recognizer.spelling_warning.fget(made)  # type: ignore[attr-defined]
        return made

    monkeypatch.setattr("asr.streaming.recognizer.Recognizer", recognizer)
    new_recognizer(new_parser().parse_args(["--model", "mine.onnx", *arguments]))
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == bool(message)


def test_a_model_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    for path in (tmp_path / "model.onnx", tmp_path / "missing.onnx"):
        assert main(["--model", str(path), "--file", str(SAMPLE)]) == 1
        out, err = capsys.readouterr()
        assert out == "" and str(path) in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelError("the GPU cannot be used"), "the GPU cannot be used"),
        (MemoryError("std::bad_alloc"), "there is not enough memory"),
        (TypeError("a mistake"), ""),
    ],
)
def test_failed_network_is_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the program keeps its traceback."""
    monkeypatch.setattr("asr.runtime.network.Network.run", Mock(side_effect=error))
    command = ["--sample", "--lm", "none", "--search", "greedy"]
    if said:
        assert main(command) == 1
        assert capsys.readouterr().err == f"asr-stream: {said}\n"
    else:
        with pytest.raises(TypeError, match="a mistake"):
            main(command)


@pytest.mark.parametrize("command", ["asr-stream", "asr-stream --list-devices", "asr record --out recordings"])
def test_ctrl_c_ends_a_sound_system_that_hangs(command: str, tmp_path: Path) -> None:
    """C code that waits for a sound server runs on when a signal comes, and Python handles none meanwhile."""
    hanging = "import sys, time\nprint('waits', flush=True)\nwhile True:\n    time.sleep(1000)\n"
    (tmp_path / "sounddevice.py").write_text(hanging)
    module = "asr.cli" if command.startswith("asr ") else "asr.streaming.terminal.cli"
    process = subprocess.Popen(
        [sys.executable, "-m", module, *command.split()[1:]],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in said


def test_a_sound_system_that_hangs_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.streaming.terminal.cli.PATIENCE_S", 0.0)
    monkeypatch.setattr("asr.streaming.audio.microphone.list_devices", lambda: time.sleep(0.5) or [])
    assert main(["--list-devices"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == "asr-stream: the sound system has not answered for 0 s; still waiting, Ctrl-C ends"
    assert "no input device" in second


def test_help_shows_examples_and_imports_nothing_heavy() -> None:
    code = """
import sys
from asr.streaming.terminal.cli import SAMPLE, main
try:
    main(["--help"])
finally:
    heavy = {"numpy", "onnxruntime", "sounddevice", "soundfile", "soxr", "rich", "torch"}
    assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert "examples:" in done.stdout and "exit status:" in done.stdout


# ---- signals and pipes ----


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_flushes_the_tail(tiny_onnx: Path, recording: Path, number: int, status: int) -> None:
    command = [*COMMAND, "--model", str(tiny_onnx), "--file", str(recording), "--format", "json", "--realtime"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())  # arrives before the rest is spoken
        assert first["type"] == "partial"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    last = events(out)[-1]
    assert last["type"] == "final" and last["end"] < 5.6  # of the first utterance, which was cut off


def test_closed_reader_ends_the_command_quietly(tiny_onnx: Path, recording: Path) -> None:
    command = [*COMMAND, "--model", str(tiny_onnx), "--file", *[str(recording)] * 20, "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


# ---- without a microphone ----


NO_DEVICES = """
from types import SimpleNamespace
default = SimpleNamespace(device={"input": -1})
query_devices = query_hostapis = lambda: []
_terminate = _initialize = lambda: None
PortAudioError = OSError
"""
NO_PORTAUDIO = 'raise OSError("PortAudio library not found")'


def run_with_sounddevice(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command where `import sounddevice` runs `code`."""
    (folder / "sounddevice.py").write_text(code)
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([*COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=120)


def test_no_microphone(tmp_path: Path) -> None:
    done = run_with_sounddevice(NO_DEVICES, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no microphone" in done.stderr
    assert "asr-stream --sample" in done.stderr
    done = run_with_sounddevice(NO_DEVICES, tmp_path, "--list-devices")
    assert done.returncode == 1 and "there is no microphone" in done.stderr


ONE_DEVICE = """
from types import SimpleNamespace
default = SimpleNamespace(device={"input": 0})
query_devices = lambda: [
    {"name": "USB", "index": 0, "hostapi": 0, "max_input_channels": 1, "default_samplerate": 16000.0}
]
query_hostapis = lambda: [{"name": "ALSA"}]
_terminate = _initialize = lambda: None
PortAudioError = OSError
"""


def test_another_microphone_than_there_is(tmp_path: Path) -> None:
    done = run_with_sounddevice(ONE_DEVICE, tmp_path, "--device", "7")
    assert (done.returncode, done.stderr) == (1, "asr-stream: no input device 7; there are: 0 'USB'\n")


def test_no_portaudio(tmp_path: Path, tiny_onnx: Path) -> None:
    done = run_with_sounddevice(NO_PORTAUDIO, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "PortAudio is not installed" in done.stderr
    assert "sudo apt-get install libportaudio2" in done.stderr
    assert "asr-stream --sample" in done.stderr
    # Files are recognized all the same.
    done = run_with_sounddevice(NO_PORTAUDIO, tmp_path, "--model", str(tiny_onnx), "--sample")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout
