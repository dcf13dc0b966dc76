"""External C and C++ programs find libasr_stream in every supported way, and give the same text as Python."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.c_build import MODELS, ROOT, cmake, run
from support.c_library import onnxruntime_library
from support.synth import write_audio
from support.traced import trespasses

from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model
from asr.streaming.terminal.cli import SAMPLE

LIVE = [str(MODELS[0]), "-", *map(str, MODELS[1:])]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """With the programs beside Python, such as Ninja."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return os.environ | {"ASR_STREAM_ONNXRUNTIME": str(onnxruntime_library()), "PATH": path}


@pytest.mark.parametrize("how", ["FetchContent", "add_subdirectory", "find_package"])
def test_cmake_projects_use_it(how: str, prefix: Path, captions: str, environment: dict[str, str]) -> None:
    """Next to build/c_library, so that ccache finds the objects of the same sources by the same relative paths."""
    consumer, folder = ROOT / "tests" / "capi" / "consumer", ROOT / "build" / f"consumer-{how}"
    shutil.rmtree(folder, ignore_errors=True)
    share = prefix / "share" / "asr_stream"
    files = (MODELS[0], SAMPLE, *MODELS[1:])
    arguments = [str(share / path.name) for path in files]
    where = [f"-DHOW={how}", f"-DSOURCE={ROOT}", f"-DCMAKE_PREFIX_PATH={prefix}"]
    where += ["-G", "Ninja", f"-DCMAKE_CXX_COMPILER_LAUNCHER={consumer}/launcher.sh"]
    cmake("-S", str(consumer), "-B", str(folder), *where, env=environment)
    assert re.search("^CMAKE_BUILD_TYPE:.*=$", (folder / "CMakeCache.txt").read_text(), re.M)  # the app's to choose
    cmake("--build", str(folder), "--parallel", "2", env=environment | {"CCACHE_BASEDIR": str(ROOT)})
    library = {"FetchContent": "libasr_stream.a", "add_subdirectory": "libasr_stream.so"}.get(how, "")
    assert (folder / "_deps" / "asr_stream-build" / library).exists() == bool(library)
    for program in ("transcribe_c", "transcribe_cpp"):
        assert run(str(folder / program), *arguments, env=environment) == captions


@pytest.fixture(scope="module")
def flags(prefix: Path) -> list[str]:
    environment = os.environ | {"PKG_CONFIG_PATH": str(next(prefix.glob("**/pkgconfig")))}
    return shlex.split(run("pkg-config", "--cflags", "--libs", "asr_stream", env=environment))


@pytest.fixture(scope="module")
def transcribe(prefix: Path, flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example from the archive, built with the flags from pkg-config."""
    program = tmp_path_factory.mktemp("example") / "transcribe"
    source = str(prefix / "share" / "asr_stream" / "examples" / "transcribe.c")
    run("cc", "-std=c99", source, "-o", str(program), *flags)
    return program


def test_cpp_streams_give_their_warnings(flags: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "warnings.cc"
    source.write_text(r"""
#include <asr_stream/asr_stream.hpp>
#include <iostream>
int main(int, char** arguments) {
  asr::Settings settings;
  settings.set("hotwords", "Theodolite\nR2");
  const asr::Stream stream(asr::Model(arguments[1]), settings);
  for (const std::string& warning : stream.warnings()) std::cout << warning << '\n';
}
""")
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(tmp_path / "warnings"), *flags)
    warnings = run(str(tmp_path / "warnings"), str(bundled_model()), env=environment).splitlines()
    spelled = "the model is used without a language model"
    assert [warning.split(":")[0] for warning in warnings] == [spelled, "hotword line 'R2'"]


def test_commands_of_the_archives_readme_caption_the_sample(
    prefix: Path, captions: str, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = shutil.copytree(prefix, tmp_path / "archive")
    blocks = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    lines = [
        line for block in blocks for line in block.splitlines() if not re.match("python3 -m venv |pip |arecord ", line)
    ]
    printed = run("bash", "-euc", "\n".join(lines), cwd=folder, env=environment)
    assert len(blocks) == 2 and printed == captions


def test_the_example_captions_live_audio(
    transcribe: Path, captions: str, sample: np.ndarray, environment: dict[str, str]
) -> None:
    done = subprocess.run([transcribe, *LIVE], input=sample.tobytes(), capture_output=True, env=environment)
    assert done.returncode == 0 and done.stdout.decode() == captions
    assert done.stderr.decode().count("The old man") > 2  # partials, as it is spoken


def test_nothing_leaves_the_machine_from_c(transcribe: Path, environment: dict[str, str], tmp_path: Path) -> None:
    runtime = {"ASR_STREAM_ONNXRUNTIME": environment["ASR_STREAM_ONNXRUNTIME"]}
    assert trespasses(tmp_path, transcribe, MODELS[0], SAMPLE, *MODELS[1:], env=runtime) == []


def test_the_example_reports_errors(transcribe: Path, environment: dict[str, str], tmp_path: Path) -> None:
    stereo = write_audio(tmp_path / "stereo.wav", np.zeros((100, 2), np.float32))
    cases = [
        (
            [str(bundled_model()), str(stereo), str(BUNDLED)],
            1,
            "stereo.wav: this WAV file is not 16-bit PCM with one channel",
        ),
        ([str(bundled_model()), str(bundled_model()), str(BUNDLED)], 1, "this is not a WAV file"),
        ([str(SAMPLE), str(SAMPLE), str(BUNDLED)], 1, "sample.wav is not an ONNX file, or it is damaged: "),
        ([str(bundled_model()), str(SAMPLE)], 2, "usage:"),
    ]
    for arguments, status, words in cases:
        done = subprocess.run([transcribe, *arguments], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout) == (status, "") and words in done.stderr


def test_without_onnxruntime_it_prints_how_to_name_one(transcribe: Path) -> None:
    for path, words in (
        ("/nowhere/libonnxruntime.so", "/nowhere/libonnxruntime.so: cannot open"),
        ("", "so.1: cannot"),
    ):
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        environment["ASR_STREAM_ONNXRUNTIME"] = path
        done = subprocess.run([transcribe, *LIVE], input="", capture_output=True, text=True, env=environment)
        assert done.returncode == 1 and words in done.stderr
        assert "or by the environment variable ASR_STREAM_ONNXRUNTIME" in done.stderr


def test_the_cpp_example_compiles_in_another_folder(tmp_path: Path) -> None:
    for name in ("cpp/transcribe.cc", "c/wav.h"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    run("c++", "-std=c++17", "-fsyntax-only", f"-I{ROOT}/csrc/include", str(tmp_path / "transcribe.cc"))
