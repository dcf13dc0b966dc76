"""`asr`: its message when a command cannot run."""

from __future__ import annotations

import errno
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from asr import __version__, cli, cores
from asr.command import explained
from asr.streaming.terminal import cli as terminal

PYPROJECT = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")


def test_packages_of_the_message_are_the_extras() -> None:
    named = set()
    for extra in ("train", "export"):
        block = re.search(rf"^{extra} = \[(.*?)\]$", PYPROJECT, re.DOTALL | re.MULTILINE)
        assert block
        named |= set(re.findall(r'"([a-z0-9]+)(?=[=><"])', block[1]))
    assert {name.replace("pyyaml", "yaml") for name in named} == set(cli.EXTRAS)


def test_a_package_of_an_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'torchaudio'", name="torchaudio.functional")

    monkeypatch.setattr(importlib, "import_module", fail)
    assert cli.main(["prepare"]) == 1
    assert capsys.readouterr().err == (
        "asr prepare needs more packages (No module named 'torchaudio'): "
        "run `make train-tools` in a clone, or `pip install 'WHEEL[train]'` for a wheel\n"
    )


WITHOUT_PYTORCH = "import sys; sys.modules['torch'] = None; from asr.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--help"],
            0,
            "recipes:\n  adapt, finetune, librispeech-100h, librispeech-960h, neural-lm,\n  punctuation, tiny",
        ),
        (["tiny", "data.trian=x"], 1, "unknown key 'data.trian'; did you mean 'data.train'?"),
        (["tiny"], 1, ": run `make train-tools` in a clone, or `pip install"),
    ],
)
def test_train_reads_its_arguments_without_pytorch(arguments: list[str], status: int, message: str) -> None:
    command = [sys.executable, "-c", WITHOUT_PYTORCH, "train", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_arguments_of_all_commands_need_no_pytorch() -> None:
    """So that `--help` and errors in arguments do not take seconds, and appear without the extras, too. Only recipes
    need YAML."""
    program = (
        f"import sys; sys.modules |= dict.fromkeys({sorted(cli.EXTRAS - {'yaml'})})\n"
        "from argparse import ArgumentParser; from importlib import import_module; from asr.cli import COMMANDS\n"
        "for module, _ in COMMANDS.values(): import_module(module).add_arguments(ArgumentParser())"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("name", ["asr.data.speech", "numpy.nonsense", None])
def test_other_missing_modules_raise_their_error(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["prepare"])


@pytest.mark.parametrize("command", ["train", "text", "evaluate"])
@pytest.mark.parametrize(("given", "policy"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_threads_sleep_while_waiting_before_pytorch_is_imported(
    command: str, given: dict[str, str], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spinning threads make training ten times as slow while another program runs."""
    monkeypatch.setattr(os, "environ", dict(given))
    seen = []

    def fail(name: str) -> Any:
        seen.append(dict(os.environ))
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(importlib, "import_module", fail)
    assert cli.main([command]) == 1
    assert [environ["OMP_WAIT_POLICY"] for environ in seen] == [policy]


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({"cpu.max": "150000 100000"}, "2"),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, "1"),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "6400000 100000"}, None),
        ({"system.slice/a.service/cpu.max": "300000 100000"}, "3"),
        ({"system.slice/a.service/cpu.max": "max 100000", "system.slice/cpu.max": "200000 100000"}, "2"),
        ({"cpu/docker/1/cpu.cfs_quota_us": "150000", "cpu/docker/1/cpu.cfs_period_us": "100000"}, "2"),
        ({"system.slice/other.service/cpu.max": "300000 100000"}, None),
        ({}, None),
    ],
)
def test_containers_and_services_have_as_many_threads_as_their_quota(
    files: dict[str, str], threads: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "own").write_text("5:cpuset:/x\n2:cpu,cpuacct:/../docker/1\n0::/system.slice/a.service\n")
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    monkeypatch.setattr(cores, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(os, "environ", {})
    cores.share_cores()
    assert os.environ.get("OMP_NUM_THREADS") == threads and cores.num_cores() == int(threads or 8)


@pytest.mark.parametrize("arguments", [["exprt"], ["prepare"], ["lm", "train"], ["inspect", "--wrong"]])
def test_errors_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert exit.value.code == 2 and error.count("\n") == 1 and error.startswith("asr") and "--help" in error


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def exhausted(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr("asr.runtime.inspect.run", exhausted)
    assert cli.main(["inspect", "x.onnx"]) == 1
    monkeypatch.setattr("asr.streaming.terminal.cli.recognizer_or_error", exhausted)
    assert terminal.main(["--sample"]) == 1
    monkeypatch.setattr("asr.streaming.server.cli.recognizer_or_error", exhausted)
    assert terminal.main(["serve", "--port", "0"]) == 1
    assert capsys.readouterr().err == (
        "asr inspect: there is not enough memory\n" + 2 * "asr-stream: there is not enough memory\n"
    )


def test_too_little_memory_for_a_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own MemoryError has no text, and an empty error is none."""
    monkeypatch.setattr("asr.streaming.recognizer.Recognizer.stream", Mock(side_effect=MemoryError))
    assert terminal.main(["--sample", "--search", "greedy", "--no-second-pass"]) == 1
    assert capsys.readouterr().err == "asr-stream: there is not enough memory\n"


def test_ctrl_c_while_a_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asr.cli.importlib.import_module", interrupted)
    assert cli.main(["train", "tiny"]) == 130
    assert capsys.readouterr().err == "asr: interrupted\n"


def test_a_command_may_follow_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    """As newer versions of argparse take `asr -- inspect x`, too."""
    with pytest.raises(SystemExit):
        cli.main(["--wrong", "inspect", "x"])
    assert capsys.readouterr().err == "asr: unrecognized arguments: --wrong; see asr --help\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(["--version"])
    assert exit.value.code == 0 and capsys.readouterr().out == f"asr {__version__}\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_whose_reader_has_ended(unbuffered: str) -> None:
    """A closed pipe, as in `asr inspect | head`, is not an error."""
    reader, writer = os.pipe()
    os.close(reader)
    command, env = [sys.executable, "-m", "asr.cli", "inspect"], os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=env)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_system_errors_are_explained_without_their_number() -> None:
    assert explained(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    assert explained(FileNotFoundError(errno.ENOENT, "No such file", "a.txt")) == "a.txt: No such file"
    assert explained(OSError("the disk is full")) == "the disk is full"


def test_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.txt"
    assert cli.main(["lm", "adapt", str(missing), "-o", str(tmp_path / "mine.lm")]) == 1
    assert capsys.readouterr().err == f"asr lm: {missing}: No such file or directory\n"
