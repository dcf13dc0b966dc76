"""libasr_stream built for the tests: once for all of them, and rebuilt only if a source has changed."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from asr.lm.packed import BUNDLED
from asr.runtime.neural_lm import bundled_neural_lm
from asr.runtime.onnx_model import bundled_model
from asr.runtime.punctuation import bundled_punctuation

ROOT = Path(__file__).parents[2]

MODELS = [path for path in (bundled_model(), BUNDLED, bundled_punctuation(), bundled_neural_lm()) if path]
"""As the C library's examples take them."""


def run(*command: str, **options: object) -> str:
    """Standard output of a command, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def cmake(*arguments: str, program: str = "cmake", **options: object) -> str:
    beside_python = Path(sys.executable).parent / program
    found = str(beside_python) if beside_python.exists() else shutil.which(program)
    assert found, "the tests build with CMake: pip install 'asr-stream[test]'"
    return run(found, *arguments, **options)


def lock(name: str) -> FileLock:
    """A lock for builds in a shared folder: only one pytest-xdist process holds it at a time."""
    (ROOT / "build").mkdir(exist_ok=True)
    return FileLock(ROOT / "build" / f"{name}.lock")


@functools.cache
def build() -> Path:
    """The folder with libasr_stream.so, built as for users."""
    folder = ROOT / "build" / "c_library"
    with lock("c_library"):
        cmake("-S", str(ROOT), "-B", str(folder))
        cmake("--build", str(folder), "--parallel", "2")
    return folder


def unpack_archive(folder: Path) -> Path:
    """The C library's archive, written and unpacked in `folder` if it is not there yet."""
    if not folder.exists():
        cmake("--config", str(build() / "CPackConfig.cmake"), "-B", str(folder), program="cpack")
        (archive,) = folder.glob("*.tar.gz")
        run("tar", "xf", str(archive), "-C", str(folder))
    (pkgconfig,) = folder.glob("*/lib*/**/pkgconfig")
    return next(parent for parent in pkgconfig.parents if parent.parent == folder)
