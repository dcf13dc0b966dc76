"""The contract in asr_stream.h: layouts, properties, a missing _init, and a program that uses only the header."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support.benchmark_module import load_benchmark
from support.c_build import MODELS, ROOT, cmake, run

from asr import Recognizer
from asr.export.write import with_checksum
from asr.runtime.onnx_model import bundled_model
from asr.streaming.events import Final

c_library = load_benchmark("c_library")
HEADERS = "".join((ROOT / "csrc/include/asr_stream" / name).read_text() for name in ("asr_stream.h", "options.h"))
NOT_INITIALIZED = 9
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -Wall -Wextra -Wpedantic -Werror"


def structs() -> dict[str, list[str]]:
    """The members of the header's structs, in order."""
    code = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.DOTALL)
    found = re.findall(r"typedef struct (\w+) \{(.*?)\}", code, re.DOTALL)
    return {name: re.findall(r"(\w+);", body) for name, body in found}


def test_library_tells_the_layout_of_header_structs(library: Any) -> None:
    layouts = {
        "asr_model_options": c_library._ModelOptions,
        "asr_options": c_library._Options,
        "asr_assets": c_library._Assets,
        "asr_word": c_library._Word,
        "asr_alternative": c_library._Alternative,
        "asr_event": c_library._Event,
    }
    assert structs().keys() == layouts.keys()
    for name, members in structs().items():
        layout = layouts[name]
        assert [field[0] for field in layout._fields_] == members
        assert library.c.asr_layout(name.encode()) == ctypes.sizeof(layout)
        for member in members:
            assert library.c.asr_layout(f"{name}.{member}".encode()) == getattr(layout, member).offset
    unknown = ctypes.c_size_t(-1).value
    for name in (b"", b"asr_event.", b"asr_event.word", b"asr_options.", b"asr_options.size", b"asr_options.chunk_ms "):
        assert library.c.asr_layout(name) == unknown
    assert library.c.asr_layout(None) == unknown


def test_functions_and_statuses_are_in_the_first_version() -> None:
    """A later version adds a line to `Versions` for its additions."""
    assert re.findall(r"^ \*   (\d+\.\d+): ", HEADERS, re.MULTILINE) == ["0.1"]


@pytest.mark.parametrize("size", [0, 7, 12, 4096])
def test_forgotten_init_has_a_status_of_its_own(library: Any, tiny_onnx: Path, size: int) -> None:
    model = library.model(tiny_onnx)
    words = rf"struct_size is {size}; it must be \d+, as asr_\w+_init sets it"
    with pytest.raises(c_library.LibraryError, match=words) as caught:
        model.stream(struct_size=size)  # of asr_options
    assert caught.value.status == NOT_INITIALIZED
    with pytest.raises(c_library.LibraryError, match=words) as caught:
        library.model(tiny_onnx, struct_size=size)
    assert caught.value.status == NOT_INITIALIZED
    assets = c_library._Assets(struct_size=size)
    status = library.c.asr_stream_new(
        model.handle, 16000, None, ctypes.byref(assets), ctypes.byref(ctypes.c_void_p()), None, ctypes.c_size_t(0)
    )
    assert status == NOT_INITIALIZED


def test_the_properties_of_a_model_are_enumerated(library: Any, file_with_defaults: Path) -> None:
    properties = library.model(bundled_model()).properties()
    assert list(properties) == sorted(properties)
    # The metadata of the file, except for the decoder's graph.
    named = {entry.key: entry.value for entry in onnx_format.load(bundled_model()).metadata_props}
    assert named.pop("decoder_onnx") and {name: properties[name] for name in named} == named
    facts = {"language": "en", "sample_rate": "16000", "units": "letters", "license": "Apache-2.0"}
    facts |= {"chunk_ms": "640", "left_context_ms": "2560"}
    assert {name: properties[name] for name in facts} == facts and "decoder_onnx" not in properties
    other = library.model(file_with_defaults)
    assert (other.property("chunk_ms"), other.property("left_context_ms")) == ("320", "640")
    assert other.property("language") == "en" and other.property("nothing") is None


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
