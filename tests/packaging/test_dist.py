"""`make dist`: each file, installed in an empty environment, captions the bundled recording.

tests/capi/test_c_consumers.py does this for the C library.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import urllib.request
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import release
from conftest import SAMPLE
from support import js_build
from support.c_build import ROOT, lock, run
from support.recognition import recognize
from support.server import serving

import asr
from asr import Recognizer
from asr.streaming import Final

# With the tools of this environment; the stamp prevents make from installing them.
TOOLS = (f"VENV={sys.prefix}", "-o", str(Path(sys.prefix, "dist.stamp")))
# Without a temporary environment, so that code compiled by `make test` is not compiled again.
NO_ISOLATION = "WHEEL_OPTIONS=--no-build-isolation"


def make(target: str, folder: Path, *variables: str) -> None:
    """Runs a target of `make dist`."""
    run("make", "-C", str(ROOT), target, f"DIST={folder}", *TOOLS, *variables)


def tracked(*folders: str) -> set[str]:
    return set(run("git", "-C", str(ROOT), "ls-files", *folders).split())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with lock("wheel"):
        make("dist-wheels", folder, f"PYTHONS={sys.executable}", NO_ISOLATION)
    (path,) = folder.iterdir()
    return path


def test_wheel_names_its_glibc_and_has_every_file(wheel: Path) -> None:
    minor = sys.version_info.minor
    assert re.search(rf"-cp3{minor}-cp3{minor}-manylinux_2_\d\d_{os.uname().machine}\.whl$", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = tracked("asr")
    sources |= {f"asr/{path}" for path in tracked("export", "streaming", "web")}
    assert len(sources) > 100 and not sources - names
    assert any(re.fullmatch(r"asr/_core\.\S+\.so", name) for name in names)


def test_the_wheel_has_a_bill_of_materials(wheel: Path) -> None:
    """PEP 770 defines the location, CycloneDX the format."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if re.search(r"\.dist-info/sboms/.+", name))
        bill = json.loads(archive.read(name))
        models = [name for name in archive.namelist() if re.fullmatch(r"asr/models/(?!LICENSE).+", name)]
        hashes = {Path(name).name: hashlib.sha256(archive.read(name)).hexdigest() for name in models}
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/asr-stream@{asr.__version__}"
    libraries = {part["purl"] for part in bill["components"] if part["type"] == "library"}
    assert libraries == {f"pkg:pypi/pybind11@{version('pybind11')}"}
    stated = {part["name"]: part["hashes"][0]["content"] for part in bill["components"] if "hashes" in part}
    assert stated == hashes and len(hashes) > 4


@pytest.fixture(scope="module")
def without_npm(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files from `make dist` except the npm package."""
    folder = tmp_path_factory.mktemp("dist")
    shutil.copy(wheel, folder)
    make("dist-sdist", folder, "SDIST_OPTIONS=--no-isolation")  # its dependencies are available locally
    with lock("c_library"):
        make("dist-c", folder)
    return folder


def test_another_folder_gives_the_same_bytes(without_npm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    targets = ("dist-sdist", "dist-wheels", "dist-c", "SDIST_OPTIONS=--no-isolation", "-o", ".venv/dist.stamp")
    python = folder / ".venv" / "bin" / Path(sys.executable).name
    release.make_again(folder, Path(sys.prefix), *targets, "DIST=dist", f"PYTHONS={python}", NO_ISOLATION)
    assert len(list(without_npm.iterdir())) == 3
    assert list(release.other_bytes(without_npm, folder / "dist")) == []


def test_the_gate_captions_each_file(without_npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []
    monkeypatch.setitem(release.KINDS, "asr_stream-{}-*.whl", lambda path, _: tried.append(path) or "no caption")
    other, missing = release.wrong_files(without_npm, asr.__version__)
    assert tried == list(without_npm.glob("*.whl")) and f"captions {SAMPLE.name} as 'no caption'" in other
    assert f"has no asr-stream-{asr.__version__}.tgz: make dist" in missing


def test_the_wheel_captions_and_serves_the_page(wheel: Path, tmp_path: Path) -> None:
    programs = release.environment(f"{wheel}[server]", tmp_path)
    assert release.EXPECTED.read_text().strip() in release.caption_in(programs, tmp_path).upper()
    with serving(program=str(programs / "asr-stream")) as server:

        def get(path: str) -> str:
            with urllib.request.urlopen(f"{server.url}/{path}") as answer:  # an error for any status but 200
                return answer.read().decode()

        scripts = re.findall(r'src="/?([^"]+\.js)"', get(""))
        assert scripts and all(map(get, scripts))


def test_the_sources_are_complete(without_npm: Path) -> None:
    (path,) = without_npm.glob("asr_stream-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive}
    sources = tracked(
        "asr", "export", "streaming", "web", "csrc", "cmake", "CMakeLists.txt", "pyproject.toml", "LICENSE"
    )
    assert len(sources) > 150 and not sources - names
    assert not {name for name in names if re.match(r"tests/|docs/|js/|scripts/|build/|\.venv|\.github", name)}


def test_the_npm_package_captions(sample: np.ndarray, tmp_path: Path) -> None:
    expected = " ".join(e.text for e in recognize(Recognizer(text="plain"), sample) if isinstance(e, Final))
    assert len(expected.split()) > 8
    js_build.core()
    make("dist-npm", tmp_path)
    (package,) = tmp_path.iterdir()
    app = tmp_path / "app"
    app.mkdir()
    assert release.caption_npm(package, app) == expected + "\n"
