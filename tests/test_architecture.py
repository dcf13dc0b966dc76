"""The direction of dependencies: csrc <- asr._core <- asr <- {asr.export, asr.streaming}, and no cycles."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"asr": "asr", "asr.export": "export", "asr.streaming": "streaming", "asr.web": "web"}
TRAINING = ("torch", "torchaudio", "onnx")
WITH_PYTORCH = ("asr.model", "asr.data", "asr.training", "asr.evaluation", "asr.punctuation", "asr.neural_lm")
"""The folders of asr/ that may import PyTorch; the modules that apps import are elsewhere."""
FORBIDDEN = {
    "asr": ("asr.export", "asr.streaming"),
    "asr.export": ("asr.streaming",),
    "asr.streaming": ("asr.export", *WITH_PYTORCH, *TRAINING),
    "asr.model": ("asr.data", "asr.training", "asr.evaluation", "asr.lm", "asr.runtime"),
    "asr.data": ("asr.training", "asr.evaluation", "asr.lm", "asr.runtime"),
    "asr.lm": (*WITH_PYTORCH, "asr.runtime", *TRAINING),
    "asr.lexicon": (*WITH_PYTORCH, "asr.runtime", *TRAINING),
    "asr.runtime": (*WITH_PYTORCH, "asr.lm", *TRAINING),
}


def modules() -> dict[str, Path]:
    """Every module of the packages, by its dotted name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def checks_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(path: Path, *, for_types: bool = True) -> set[str]:
    """Every module that a file imports, anywhere in the file. for_types: include imports for annotations only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif checks_types(node) and not for_types:
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_depend_in_one_direction(package: str) -> None:
    within = {name: path for name, path in modules().items() if lies_in(name, package)}
    assert within
    for name, path in within.items():
        # `from asr import Recognizer` is the public name of asr.streaming.recognizer, which it imports on demand.
        if name == "asr" or (package == "asr" and (lies_in(name, "asr.export") or lies_in(name, "asr.streaming"))):
            continue
        for module in imports(path):
            for forbidden in FORBIDDEN[package]:
                assert not lies_in(module, forbidden), f"{path} imports {module}"


def test_no_circles_of_imports() -> None:
    """Also counts imports inside functions, except for names that a package imports on demand."""
    known = modules()
    offered = {name for name, path in known.items() if path.name == "__init__.py"}
    graph = {name: imports(path, for_types=False) & known.keys() - {name} for name, path in known.items()}
    graph |= {name: set() for name in offered}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


def test_only_the_api_of_the_core_includes_onnxruntime() -> None:
    sources = [p for p in (ROOT / "csrc").rglob("*.*") if "python" not in p.relative_to(ROOT / "csrc").parts]
    assert sources
    for path in sources:
        api = path.is_relative_to(ROOT / "csrc" / "api") or path.is_relative_to(ROOT / "csrc" / "include")
        forbidden = r"pybind11|Python\.h" if api else r"pybind11|Python\.h|(?i:onnxruntime)"
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path


def without_pytorch() -> list[str]:
    """Modules of asr/ that apps import: asr/ itself, and its folders without PyTorch."""
    return sorted(
        name
        for name in modules()
        if not any(lies_in(name, package) for package in (*WITH_PYTORCH, "asr.export", "asr.streaming"))
    )


def test_what_apps_import_brings_no_pytorch() -> None:
    code = (
        f"import importlib, sys\n"
        f"for name in {without_pytorch()!r}:\n"
        f"    importlib.import_module(name)\n"
        f"    brought = {set(TRAINING)!r} & set(sys.modules)\n"
        f"    if brought: sys.exit(f'{{name}} imports {{brought}}')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_lines_are_as_wide_as_those_of_python() -> None:
    wide = [
        f"{path}:{number} has {len(line)} columns"
        for folder in ("csrc", "js/csrc", "js/src", "js/tests", "js/examples", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".h", ".c", ".cc", ".js", ".mjs", ".ts")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert wide == []


def test_the_types_of_the_core_are_those_of_its_module() -> None:
    """The same names. pybind11 has a metaclass, read-only properties and classes without a constructor, none of which a
    stub can express."""
    command = [sys.executable, "-m", "mypy.stubtest", "asr._core"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    errors = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    known = re.compile(r'metaclass differs|is read-only at runtime|"args"|OptionValues is not present')
    assert errors and [line for line in errors if not known.search(line)] == [], done.stdout + done.stderr


def test_the_modules_of_the_tests_have_names_of_their_own() -> None:
    """pytest imports them by their names alone, so of two in different folders it can collect only one."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
