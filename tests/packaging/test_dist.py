"""`make dist`: each file, installed in an empty environment, captions the bundled recording.

That of the C library is the one that tests/capi/test_c_consumers.py uses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.c_build import ROOT, lock, run
from support.recognition import recognize
from support.server import serving

from asr import Recognizer
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final
from asr.streaming.terminal.cli import SAMPLE


def make(target: str, folder: Path, *variables: str) -> None:
    """Runs a target of `make dist` with this environment's tools."""
    # The stamp, so that make does not install them.
    stamp = Path(sys.prefix, "dist.stamp")
    run("make", "-C", str(ROOT), target, f"VENV={sys.prefix}", f"DIST={folder}", *variables, "-o", str(stamp))


def tracked(*folders: str) -> set[str]:
    return set(run("git", "-C", str(ROOT), "ls-files", *folders).split())


@pytest.fixture(scope="module")
def expected(sample: np.ndarray) -> str:
    """The words of the bundled recording as plain text."""
    text = " ".join(e.text for e in recognize(Recognizer(text="plain"), sample) if isinstance(e, Final))
    assert len(text.split()) > 8
    return text


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with lock("wheel"):
        # Outside of a temporary environment, so that what `make test` has compiled need not be compiled again.
        make("dist-wheels", folder, f"PYTHONS={sys.executable}", "WHEEL_OPTIONS=--no-build-isolation")
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with nothing but the wheel and what it needs, installed without a compiler."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    run(*pip, "install", "--quiet", f"{wheel}[server]", env=without_compiler(programs))
    return programs


def without_compiler(programs: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CMAKE_"))}
    return environment | {"PATH": str(programs), "CC": "/nowhere/cc", "CXX": "/nowhere/c++"}


def test_wheel_names_its_glibc_and_has_every_file(wheel: Path) -> None:
    minor = sys.version_info.minor
    assert re.search(rf"-cp3{minor}-cp3{minor}-manylinux_2_\d\d_{os.uname().machine}\.whl$", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = tracked("asr")
    sources |= {f"asr/{path}" for path in tracked("export", "streaming", "web")}
    assert len(sources) > 100 and not sources - names
    assert any(re.fullmatch(r"asr/_core\.\S+\.so", name) for name in names)


def test_the_wheel_captions_without_a_compiler(environment: Path, expected: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [environment / "asr-stream", "--sample", "--text", "plain"],
        cwd=tmp_path,
        env=without_compiler(environment),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_the_wheel_serves_the_page(environment: Path) -> None:
    with serving(program=str(environment / "asr-stream")) as server:

        def get(path: str) -> str:
            with urllib.request.urlopen(f"{server.url}/{path}") as answer:  # an error for any status but 200
                return answer.read().decode()

        scripts = re.findall(r'src="/?([^"]+\.js)"', get(""))
        assert scripts and all(map(get, scripts))


def test_the_sources_are_complete(tmp_path: Path) -> None:
    make("dist-sdist", tmp_path, "SDIST_OPTIONS=--no-isolation")  # what it needs is here
    (path,) = tmp_path.iterdir()
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive}
    sources = tracked(
        "asr", "export", "streaming", "web", "csrc", "cmake", "CMakeLists.txt", "pyproject.toml", "LICENSE"
    )
    assert len(sources) > 150 and not sources - names
    assert not {name for name in names if re.match(r"tests/|docs/|js/|build/|\.venv", name)}


def test_the_npm_package_captions(expected: str, tmp_path: Path) -> None:
    with lock("page"), lock("npm"):  # the core is built with the page, too
        make("dist-npm", tmp_path, "--jobs", "2")
    (package,) = tmp_path.iterdir()
    app = tmp_path / "app"
    app.mkdir()
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", str(package), cwd=app)
    shutil.copy(ROOT / "js" / "examples" / "transcribe.mjs", app)
    options = ["--model", str(bundled_model()), "--lm", str(BUNDLED), "--text", "plain"]
    output = run("node", "transcribe.mjs", *options, str(SAMPLE), cwd=app)
    assert output == expected + "\n"
