"""Rust, Go and Java give results bit-identical to Python's, and reject the same input as the C library."""

from __future__ import annotations

import math
import os
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support.c_build import MODELS, ROOT, run
from support.c_library import onnxruntime_library
from support.traced import trespasses

from asr import Recognizer, __version__
from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial
from asr.streaming.terminal.cli import SAMPLE

FOLDER, HERE = ROOT / "bindings", Path(__file__).parent
JARS = "/usr/share/java/jna.jar:/usr/share/java/gson.jar"  # from Debian's packages libjna-java and libgoogle-gson-java
LANGUAGES = ("rust", "go", "java")


class Programs:
    """The example and the dump program of a language, as commands built against the installed C library."""

    def __init__(self, language: str, folder: Path, prefix: Path) -> None:
        self.language = language
        pkgconfig = next(prefix.glob("**/pkgconfig"))
        self.library = pkgconfig.parent
        onnxruntime = str(onnxruntime_library())
        self.environment = os.environ | {"PKG_CONFIG_PATH": str(pkgconfig), "ASR_STREAM_ONNXRUNTIME": onnxruntime}
        self.environment |= {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
        self.shared = prefix.parent  # the usual caches could contain another prefix
        self.environment["GOCACHE"] = str(self.shared / "go-cache")
        build: Callable[[Path], tuple[list[str], list[str]]] = getattr(self, f"_{language}")
        self.example, self.dump = build(folder)

    def _run(self, *command: str, cwd: Path | None = None) -> None:
        run(*command, env=self.environment, cwd=cwd)

    def _rust(self, folder: Path) -> tuple[list[str], list[str]]:
        target = self.shared / "cargo"
        cargo = ("cargo", "build", "--locked", "--quiet", "--target-dir", str(target), "--manifest-path")
        self._run(*cargo, str(FOLDER / "rust" / "Cargo.toml"), "--example", "transcribe")
        self._run(*cargo, str(HERE / "rust" / "Cargo.toml"))
        self.environment["LD_LIBRARY_PATH"] = str(self.library)  # the rpath of a crate does not apply to its dependents
        return [str(target / "debug" / "examples" / "transcribe")], [str(target / "debug" / "dump")]

    def _go(self, folder: Path) -> tuple[list[str], list[str]]:
        for cwd, package in ((FOLDER / "go", "./examples/transcribe"), (HERE / "go", ".")):
            self._run("go", "build", "-o", f"{folder}/", package, cwd=cwd)
        return [str(folder / "transcribe")], [str(folder / "dump")]

    def _java(self, folder: Path) -> tuple[list[str], list[str]]:
        sources = [*FOLDER.glob("java/**/*.java"), *HERE.glob("java/*.java")]
        self._run("javac", "-Xlint:all", "-Werror", "-cp", JARS, "-d", str(folder), *map(str, sources))
        java = ["java", f"-Djna.library.path={self.library}", "-cp", f"{JARS}:{folder}"]
        return [*java, "Transcribe"], [*java, "Dump"]


@pytest.fixture(scope="module", params=LANGUAGES)
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, prefix: Path) -> Programs:
    return Programs(request.param, tmp_path_factory.mktemp(request.param), prefix)


@pytest.fixture(scope="module")
def clips(sample: np.ndarray) -> list[np.ndarray]:
    """Ten clips of 3 to 5 s from two recordings; every third one continues after a pause."""
    speech = soundfile.read(ROOT / "tests" / "support" / "conversation.wav", dtype="int16")[0]
    found = []
    for clip in range(10):
        part = (sample, speech)[clip % 2][4000 * (clip // 2) :][: 16_000 * (3 + clip % 3)]
        pause = np.zeros(40_000 if clip % 3 == 1 else 0, np.int16)
        found.append(np.concatenate([part, pause, part[: len(pause)]]))
    return found


def _bits(value: float, kind: str = "d") -> str:
    return f"{int.from_bytes(struct.pack('>' + kind, value), 'big'):x}"


def _words(words: tuple[Word, ...]) -> str:
    return " ".join(f"{w.word}:{_bits(w.start)}:{_bits(w.end)}:{_bits(w.confidence, 'f')}" for w in words)


def _line(clip: int, event: Event) -> str:
    num_stable = event.num_stable if isinstance(event, Partial) else 0
    endpoint = event.endpoint if isinstance(event, Final) else ""
    shown = (str(clip), event.type, event.text, _bits(event.start), _bits(event.end), _words(event.words))
    raw = event.raw if isinstance(event, Partial | Final) else ""
    alternatives = event.alternatives if isinstance(event, Final) else ()
    others = [f"{o.text}:{_bits(o.confidence, 'f')}:{_words(o.words)}" for o in alternatives]
    num_taken_back = event.num_taken_back if isinstance(event, Final) else 0
    end = (str(num_stable), endpoint, raw, _words(event.raw_words), "|".join(others), str(num_taken_back))
    return "\t".join((*shown, *end))


@pytest.fixture(scope="module")
def expected(clips: list[np.ndarray]) -> list[str]:
    """Python's results for the calls and clips that the programs of this folder use."""
    recognizer, lines = Recognizer(), []
    given = {
        4: recognizer.with_options(
            hotwords=["theodolite", "R2", "lorry"],
            replace=["children -> kids"],
            own_commands=["old man walked slowly down the road -> scratch that"],
        ),
        5: recognizer.with_options(phrases=["old", "man", "road"], chunk_ms=320),
        6: recognizer.with_options(lm=None, search="beam", silence_without_speech_s=math.inf),
        9: recognizer.with_options(chunk_ms=320, max_alternatives=3),
    }
    for clip, samples in enumerate(clips):
        stream = given.get(clip, recognizer.with_options(chunk_ms=320) if clip % 2 else recognizer).stream()
        rate = 8000 if clip == 3 else 16000
        for index, start in enumerate(range(0, len(samples), 1600)):
            piece = samples[start : start + 1600]
            if index == 20 and clip == 1:
                stream.gap(4001)
            elif index == 20 and clip == 2:
                stream.end_utterance()
            elif index == 20 and clip == 8:
                stream.change(recognizer.with_options(mask=["the", "man"], text="plain"))
            stream.accept_waveform(piece.astype(np.float32) / 32768 if clip == 7 else piece, rate)
            lines += [_line(clip, event) for event in stream.events()]
        stream.finish()
        lines += [*(_line(clip, event) for event in stream.events()), f"{clip}\t{stream.sample_offset}"]
    return lines


def test_every_event_is_pythons(
    programs: Programs, clips: list[np.ndarray], expected: list[str], tmp_path: Path
) -> None:
    for clip, samples in enumerate(clips):
        (tmp_path / str(clip)).write_bytes(samples.tobytes())
    files = [str(tmp_path / str(clip)) for clip in range(len(clips))]
    output = run(*programs.dump, *map(str, MODELS), *files, env=programs.environment).splitlines()
    events = [line for line in output if re.match(r"\d+\t", line)]
    assert events == expected
    assert {line.split("\t")[1] for line in expected} >= {"partial", "final", "gap"}
    assert sum(line.count(":") for line in expected) > 1000 and any("***" in line for line in expected)
    assert any("|" in line for line in expected)  # alternatives
    assert any("kids" in line for line in expected) and any(line.endswith("\t1") for line in expected)  # taken back
    warnings = [line.split("\t")[1] for line in output if line.startswith("warning\t")]
    assert [text.split(":")[0] for text in warnings] == [
        "hotword line 'R2'",
        "the model is used without a language model",
    ]
    errors = [line.split("\t")[1:] for line in output if line.startswith("error")]
    for (status, text), wanted in zip(
        errors,
        (
            ("2", "there is no file /nowhere.onnx"),
            ("1", "there is no option 'beam_sise'"),
            ("1", "beam_size is 0; it must be a whole number in [1, 1024]"),
            ("1", "text is ''; it must be "),
            ("1", "the list of phrases has no phrase"),
            ("1", "has a NUL, where C ends a text"),
            ("1", "sample_rate is 999; it must be a whole number of Hz in [1000, 768000]"),
            ("7", "this stream is finished; take a new one"),
        ),
        strict=True,
    ):
        assert status == wanted[0] and wanted[1] in text
    properties = dict(line.split("\t") for line in output if re.match(r"[a-z_]+\t[^\t]*$", line))
    assert (
        properties.items() >= {"language": "en", "sample_rate": "16000", "chunk_ms": "640", "units": "letters"}.items()
    )
    assert properties["tokens"].endswith(" X Y Z") and len(properties) > 20


def test_the_example_captions_a_file_and_a_pipe(
    programs: Programs, captions: str, sample: np.ndarray, tmp_path: Path
) -> None:
    def caption(source: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [*programs.example, MODELS[0], source, *MODELS[1:]]
        return subprocess.run(command, input=data, capture_output=True, env=programs.environment)

    for done in (caption(str(SAMPLE)), caption("-", sample.tobytes())):
        assert done.returncode == 0 and done.stdout.decode() == captions
        assert done.stderr.decode().count("The old man") > 2  # partials, as it is spoken
    stereo = tmp_path / "text.wav"
    stereo.write_bytes(b"RIFF, but not more")
    for done in (caption("/nowhere.wav"), caption(str(stereo))):
        assert done.returncode != 0 and not done.stdout and done.stderr
        assert b"Os {" not in done.stderr and b'Error: "' not in done.stderr  # the debug form of Rust's errors


def test_nothing_leaves_the_machine_from_a_binding(programs: Programs, tmp_path: Path) -> None:
    names = ("ASR_STREAM_ONNXRUNTIME", "LD_LIBRARY_PATH")
    given = {name: programs.environment[name] for name in names if name in programs.environment}
    found = trespasses(tmp_path, *programs.example, MODELS[0], SAMPLE, *MODELS[1:], env=given)
    # Counters of every Java program, which deletes them at its end.
    assert [file for file in found if not file.startswith("/tmp/hsperfdata_")] == []


def test_java_says_how_the_library_is_found(prefix: Path, tmp_path: Path) -> None:
    java = Programs("java", tmp_path, prefix)
    command = [part.replace(str(java.library), "/nowhere") for part in java.example]
    done = subprocess.run([*command, MODELS[0], str(SAMPLE)], capture_output=True, text=True, env=java.environment)
    assert done.returncode != 0 and "-Djna.library.path=FOLDER" in done.stderr.splitlines()[0], done.stderr


def test_a_version_that_may_break_the_abi_has_its_own_soname(prefix: Path) -> None:
    (library,) = (path for path in prefix.glob("**/libasr_stream.so.*") if not path.is_symlink())
    soname = re.search(r"SONAME +(\S+)", run("objdump", "-p", str(library)))
    major, minor, _ = __version__.split(".")
    abi = major if int(major) else f"{major}.{minor}"  # before 1.0, a minor version may
    assert soname and soname[1] == f"libasr_stream.so.{abi}"


def test_maven_compiles_for_the_stated_version_of_java() -> None:
    """By properties that every version of the compiler plugin reads. Version 3.1, used by Maven 3.8, does not know
    "release"."""
    pom = (FOLDER / "java" / "pom.xml").read_text()
    assert re.findall(r"<maven\.compiler\.(\w+)>(\d+)<", pom) == [("source", "17"), ("target", "17")]
    assert "Java 17 or newer" in " ".join((FOLDER / "java" / "README.md").read_text().split())
