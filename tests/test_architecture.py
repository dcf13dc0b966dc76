"""The direction of dependencies: csrc <- asr._core <- asr <- {asr.export, asr.streaming}."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"asr": "asr", "asr.export": "export", "asr.streaming": "streaming"}
FORBIDDEN = {
    "asr": ("asr.export", "asr.streaming"),
    "asr.export": ("asr.streaming",),
    "asr.streaming": ("asr.export", "torch", "torchaudio", "lhotse", "onnx"),
}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", FOLDERS)
def test_packages_depend_in_one_direction(package: str) -> None:
    files = list((ROOT / FOLDERS[package]).rglob("*.py"))
    assert files
    for path in files:
        if path == ROOT / "asr" / "__init__.py":  # the front door, `from asr import Recognizer`, opens on demand
            continue
        for module in imports(path):
            for forbidden in FORBIDDEN[package]:
                assert module != forbidden and not module.startswith(forbidden + "."), f"{path} imports {module}"


def test_the_core_knows_no_python_and_only_its_runtime_onnxruntime() -> None:
    sources = [p for p in (ROOT / "csrc").rglob("*.*") if "python" not in p.relative_to(ROOT / "csrc").parts]
    assert sources
    for path in sources:
        runtime = path.is_relative_to(ROOT / "csrc" / "runtime") or path.is_relative_to(ROOT / "csrc" / "include")
        forbidden = r"pybind11|Python\.h" if runtime else r"pybind11|Python\.h|(?i:onnxruntime)"
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    "module",
    [
        "asr",
        "asr.cli",
        "asr.config",
        "asr.text",
        "asr.features",
        "asr.metadata",
        "asr.onnx_model",
        "asr.search",
    ],
)
def test_what_apps_import_brings_no_pytorch(module: str) -> None:
    code = f"import sys, {module}; sys.exit(', '.join({{'torch', 'lhotse', 'onnx'}} & set(sys.modules)) or None)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, f"{module} imports {result.stderr}"


def test_files_stay_readable() -> None:
    for folder in (*FOLDERS.values(), "csrc"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".h", ".cc"):
                length = len(path.read_text(encoding="utf-8").splitlines())
                assert length <= 400, f"{path} has {length} lines: it holds more than one idea"
