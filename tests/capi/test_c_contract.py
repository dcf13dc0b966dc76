"""The contract in asr_stream.h: properties, and a program that uses only the header."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support import c_library
from support.c_build import MODELS, ROOT, cmake, run

from asr import Recognizer
from asr.export.write import with_checksum
from asr.streaming.events import Final

HEADER = (ROOT / "csrc/include/asr_stream/asr_stream.h").read_text()
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Wpedantic -Werror"


def test_functions_and_statuses_are_in_the_first_version() -> None:
    """A later version adds a line to `Versions` for its additions."""
    assert re.findall(r"^ \*   (\d+\.\d+): ", HEADER, re.MULTILINE) == ["0.1"]


def test_model_reports_word_pieces_and_unknown_language(library: Any, tiny_onnx: Path) -> None:
    proto = onnx_format.load(tiny_onnx)
    for entry in proto.metadata_props:
        if entry.key == "tokens":
            entry.value = entry.value.replace("\nB\n", "\n▁B\n")
        if entry.key == "language":
            entry.value = ""
    model = library.model(with_checksum(proto))
    assert (model.property("language"), model.property("units")) == ("", "word pieces")


@pytest.fixture(scope="module")
def captions(sample: np.ndarray) -> str:
    stream = Recognizer(chunk_ms=320).stream()
    stream.accept_waveform(sample)
    stream.end_utterance()
    finals = [event for event in stream.events() if isinstance(event, Final)]
    assert finals
    return "".join(f"{event.start:8.2f} {event.end:8.2f}  {event.text}\n" for event in finals)


@pytest.mark.parametrize("how", ["cmake", "pkg-config"])
def test_a_program_that_knows_the_installed_library_alone(
    how: str, prefix: Path, captions: str, sample: np.ndarray, tmp_path: Path
) -> None:
    """With the address (including leak) and undefined-behavior sanitizers."""
    source = ROOT / "tests" / "capi" / "toy"
    program = tmp_path / "toy"
    if how == "cmake":
        flags = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_FLAGS={SANITIZERS}"]
        cmake("-S", str(source), "-B", str(tmp_path), *flags)
        cmake("--build", str(tmp_path))
    else:
        where = os.environ | {"PKG_CONFIG_PATH": str(next(prefix.glob("**/pkgconfig")))}
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "asr_stream", env=where))
        run("cc", "-std=c99", *SANITIZERS.split(), str(source / "toy.c"), "-o", str(program), *flags)
    environment = os.environ | {"ASR_STREAM_ONNXRUNTIME": str(c_library.onnxruntime_library())}
    share = prefix / "share" / "asr_stream"
    files = [str(share / path.name) for path in MODELS]
    done = subprocess.run([program, *files], input=sample.tobytes(), capture_output=True, env=environment)
    assert (done.returncode, done.stderr.decode(), done.stdout.decode()) == (0, "", captions)
