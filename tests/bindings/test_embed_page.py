"""The programs of docs/guides/embed.md, in seven languages, print the same."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import js_build
from support.c_build import MODELS, ROOT, run
from support.c_library import onnxruntime_library
from support.recognition import recognize

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model

PAGE = (ROOT / "docs" / "guides" / "embed.md").read_text()
JARS = "/usr/share/java/jna.jar:/usr/share/java/gson.jar"


class Builder:
    """Builds the program of a language in its own folder."""

    def __init__(self, folder: Path, prefix: Path) -> None:
        pkgconfig = next(prefix.glob("**/pkgconfig"))
        self.folder, self.library = folder, pkgconfig.parent
        self.environment = os.environ | {"PKG_CONFIG_PATH": str(pkgconfig), "LD_LIBRARY_PATH": str(self.library)}
        self.environment["ASR_STREAM_ONNXRUNTIME"] = str(onnxruntime_library())
        self.environment |= {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
        self.shared = prefix.parent  # with test_bindings.py; the usual caches would remember another prefix
        self.environment["GOCACHE"] = str(self.shared / "go-cache")

    def write(self, name: str, language: str) -> str:
        (code,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        return str(path)

    def run(self, *command: str) -> str:
        return run(*command, env=self.environment, cwd=self.folder)

    def python(self) -> list[str]:
        return [sys.executable, self.write("captions.py", "python")]

    def c(self) -> list[str]:
        return self._compile("cc", "-std=c99", self.write("captions.c", "c"))

    def cpp(self) -> list[str]:
        return self._compile("c++", "-std=c++17", self.write("captions.cc", "cpp"))

    def _compile(self, *command: str) -> list[str]:
        flags = shlex.split(self.run("pkg-config", "--cflags", "--libs", "asr_stream"))
        self.run(*command, "-Wall", "-Wextra", "-Werror", "-o", "captions", *flags)
        return ["./captions"]

    def js(self) -> list[str]:
        (self.folder / "node_modules").mkdir()
        (self.folder / "node_modules" / "asr-stream").symlink_to(js_build.core())
        return ["node", self.write("captions.mjs", "js")]

    def rust(self) -> list[str]:
        crate = f'asr-stream = {{ path = "{ROOT / "bindings" / "rust"}" }}'
        package = '[package]\nname = "captions"\nversion = "0.0.0"\nedition = "2021"\n'
        (self.folder / "Cargo.toml").write_text(f"{package}[dependencies]\n{crate}\n")
        self.write("src/main.rs", "rust")
        shutil.copy(ROOT / "bindings" / "rust" / "Cargo.lock", self.folder)  # the tested versions of its dependencies
        self.run("cargo", "build", "--quiet", "--target-dir", str(self.shared / "cargo"))
        return [str(self.shared / "cargo" / "debug" / "captions")]

    def go(self) -> list[str]:
        module, path = "asr-stream/bindings/go", ROOT / "bindings" / "go"
        (self.folder / "go.mod").write_text(f"module captions\nrequire {module} v0.1.0\nreplace {module} => {path}\n")
        self.write("captions.go", "go")
        self.run("go", "build", "-o", "captions", ".")
        return ["./captions"]

    def java(self) -> list[str]:
        sources = map(str, (ROOT / "bindings" / "java" / "src").glob("**/*.java"))
        self.run("javac", "-cp", JARS, "-d", "classes", *sources)
        classes = f"{JARS}:{self.folder / 'classes'}"
        return ["java", f"-Djna.library.path={self.library}", "-cp", classes, self.write("Captions.java", "java")]


def test_npm_is_given_a_file() -> None:
    """Without ./ it reads FOLDER/FILE as the name of a repository on GitHub."""
    files = [*ROOT.glob("docs/guides/*.md"), *ROOT.glob(".github/workflows/*.yml")]
    commands = [text for path in files for text in re.findall(r"npm (?:install|publish)[^`\n]*\.tgz", path.read_text())]
    assert len(commands) >= 3
    for command in commands:
        assert command.split()[-1].startswith("./"), command


@pytest.mark.parametrize("language", ["python", "c", "cpp", "js", "rust", "go", "java"])
def test_the_program_captions_a_pipe(language: str, prefix: Path, sample: np.ndarray, tmp_path: Path) -> None:
    builder = Builder(tmp_path, prefix)
    build: Callable[[], list[str]] = getattr(builder, language)
    command = build()
    # WebAssembly rounds products of int8 in its own way.
    model = bundled_model("float32" if language == "js" else "int8")
    for path in MODELS:
        (tmp_path / path.name).symlink_to(model if path == bundled_model() else path)
    recognizer = Recognizer(model, lm="bundled", chunk_ms=320)
    expected = "".join(f"{event.type} {event.text}\n" for event in recognize(recognizer, sample))
    audio = sample.tobytes() + b"\0" * (language == "js")  # a pipe gives Node any number of bytes
    done = subprocess.run(command, input=audio, capture_output=True, env=builder.environment, cwd=tmp_path)
    assert (done.returncode, done.stdout.decode()) == (0, expected), done.stderr.decode()
