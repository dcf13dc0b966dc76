"""The messages of `make` on a fresh machine. .ci/run tests the commands themselves."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from support.c_build import ROOT, run


def dry_run(*arguments: str) -> str:
    return run("make", "--dry-run", "--no-print-directory", "-C", str(ROOT), *arguments)


def test_help_lists_the_targets() -> None:
    lines = run("make", "--no-print-directory", "-C", str(ROOT), "help").splitlines()
    assert all(line.startswith("make ") and len(line) <= 110 for line in lines)
    assert {"stream", "serve", "train-tools", "docs", "check", "test", "lint", "js", "dist", "clean", "help"} == {
        line.split()[1] for line in lines
    }


def test_check_leaves_out_slow_tests() -> None:
    printed = dry_run("check").replace("\\\n", " ")
    lint, tests = (next(line for line in printed.splitlines() if name in line) for name in ("mypy asr", "pytest"))
    assert "ruff check" in lint and "-m 'not slow'" in tests
    folders = [word for word in shlex.split(tests) if word.startswith("tests/")]
    assert "tests/search" in folders and all((ROOT / folder).exists() for folder in folders)
    files = ["tests/streaming/test_long_recording.py", "tests/evaluation/test_evaluate.py"]
    collected = run(sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not slow", *files, cwd=ROOT)
    assert "test_each_word_occurs_once_in_its_place" in collected
    assert "test_search_over_phones_is_not_rescored" not in collected  # its fixture exports a model
    assert "test_memory_does_not_grow_with_the_recording" not in collected  # it is marked


@pytest.mark.parametrize(("target", "extra"), [("train-tools", "export"), ("test-python", "test")])
def test_pytorch_comes_from_the_index_that_is_chosen(target: str, extra: str, tmp_path: Path) -> None:
    def install(*variables: str) -> str:
        printed = dry_run(f"VENV={tmp_path}/venv", *variables, target)
        (line,) = (line.strip() for line in printed.splitlines() if f".[{extra}]" in line)
        return line

    assert install("TORCH_INDEX=https://torch.test/cpu").endswith("--extra-index-url https://torch.test/cpu")
    assert "index" not in install("TORCH_INDEX=")


@pytest.mark.parametrize(
    ("commands", "has_index"),
    [({"python3": "exit 0"}, True), ({"python3": "exit 1"}, False), ({"python3": "exit 0", "nvidia-smi": ""}, False)],
)
def test_pytorch_for_cpus_is_taken_without_a_gpu_if_its_index_can_be_reached(
    commands: dict[str, str], has_index: bool, tmp_path: Path
) -> None:
    for name, script in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    printed = run("env", path, "make", "--dry-run", "-C", str(ROOT), f"VENV={tmp_path}/venv", "train-tools")
    assert ("--extra-index-url" in printed) == has_index


@pytest.mark.parametrize("target", ["stream", "serve", "train-tools"])
def test_set_up_ends_by_naming_the_commands(target: str, tmp_path: Path) -> None:
    commands = dry_run(f"VENV={tmp_path}/venv", target).splitlines()
    (place,) = (index for index, line in enumerate(commands) if "/venv/bin/asr-stream;" in line)
    tools, install = (index for index, line in enumerate(commands) if "pip install" in line)
    assert "--no-build-isolation" in commands[install], "the core would be compiled again for the next target"
    assert tools < install < place and f"'. {tmp_path}/venv/bin/activate'" in commands[place]
