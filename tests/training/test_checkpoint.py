"""Saving a checkpoint: if it fails, the previous one is kept and the reason is reported."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import TOKENS, checkpoint_of_step

from asr.cli import main
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint, CheckpointError, average_newest, checkpoint_path, checkpoints

SAVES_AND_IS_KILLED = """
import os, random, signal, sys, time
from itertools import count
from pathlib import Path
from asr.training.checkpoint import Checkpoint, checkpoints

folder, generator = Path(sys.argv[1]), random.Random(1)
checkpoint = Checkpoint.load(checkpoints(folder)[-1])
started, num_interrupted = time.monotonic(), 0
for checkpoint.training["step"] in range(2, 5):
    checkpoint.save_step(folder, 2)
save_s = (time.monotonic() - started) / 3
found = checkpoints(folder)
num_kills = 0
# More on a busy machine, where a process may get no time between its start and its end.
while num_kills < 12 or (num_kills < 100 and min(num_interrupted, checkpoint.training["step"] - 4) < 3):
    num_kills += 1
    step = checkpoint.training["step"]
    child = os.fork()
    if child == 0:
        for checkpoint.training["step"] in count(checkpoint.training["step"] + 1):
            checkpoint.save_step(folder, 2)
    time.sleep(generator.uniform(0, 3 * save_s))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    num_interrupted += bool(list(folder.glob("*.part")))
    before, found = len(found), checkpoints(folder)
    # A kill between the rename and the tidying leaves one too many, and so may the next one.
    assert 1 <= len(found) <= max(before, 2) + 1, found
    checkpoint = [Checkpoint.load(path) for path in found][-1]  # every one of them is whole
    save_s *= 0.95 if checkpoint.training["step"] > step else 1.1  # the machine may be busier, or idler, than at first
checkpoint.save_step(folder, 2)
assert len(checkpoints(folder)) == 2
print(num_interrupted, -4 + checkpoint.training["step"])
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that has saved step 1."""
    checkpoint_of_step(1).save_step(tmp_path, 2)
    return tmp_path


def assert_step_1_is_left(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["checkpoint-1.pt"]
    assert Checkpoint.load(checkpoint_path(folder, 1)).training["step"] == 1


def test_a_flipped_bit_is_noticed(run: Path) -> None:
    path = checkpoint_path(run, 1)
    content = path.read_bytes()
    whole = Checkpoint.load(path)
    generator = random.Random(1)
    num_refused = 0
    for _ in range(40):
        damaged = bytearray(content)
        damaged[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            loaded = Checkpoint.load(path)
        except CheckpointError as error:
            assert str(path) in str(error)
            num_refused += 1
        else:  # between what the file holds
            assert all(torch.equal(value, loaded.weights[name]) for name, value in whole.weights.items())
    assert num_refused > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(weights={"ctc.bias": torch.zeros(3)}), "weights that do not match"),
        (lambda values: values["average"].pop("ctc.bias"), "weights that do not match .*: ctc.bias"),
        (lambda values: values.update(weights=3), "not an asr-stream checkpoint"),
        (lambda values: values.update(training=None), "not an asr-stream checkpoint"),
        (lambda values: values["tokenizer"].update(tokens=["A"]), "tokens begin with"),
        (lambda values: values["config"]["model"].update(dim="wide"), r"model\.dim"),
        (lambda values: values.update(config=[]), "must be a mapping"),
        (lambda values: values.pop("average"), "it is damaged: .*'average'"),
    ],
)
def test_odd_contents_are_named(run: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    path = checkpoint_path(run, 1)
    values = torch.load(path, weights_only=True)
    change(values)
    torch.save(values, path)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.load(path)


def test_no_message_advises_to_load_unsafely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pickled.pt"
    torch.save({"weights": Path("x")}, path)
    assert main(["export", str(path), "-o", str(tmp_path / "a.onnx")]) == 1
    err = capsys.readouterr().err
    assert "pickled.pt is not a checkpoint of asr-stream, or it is damaged: it must hold only tensors and plain" in err
    assert "weights_only" not in err and "trust" not in err


def test_features_can_be_computed_after_loading(run: Path) -> None:
    """Loading builds shapes on the meta device; a module that is imported there keeps its constants there."""
    program = "import sys; from pathlib import Path; from asr.training.checkpoint import Checkpoint\n"
    program += "Checkpoint.load(Path(sys.argv[1]))\n"
    program += "import numpy as np; from asr.features import fbank; print(*fbank(np.ones(1600, np.float32)).shape)"
    command = [sys.executable, "-c", program, str(checkpoint_path(run, 1))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.stdout == "10 80\n", result.stderr


def test_the_newest_checkpoints_stay(run: Path) -> None:
    for step in (2, 10):
        checkpoint_of_step(step).save_step(run, 2)
    assert [path.name for path in checkpoints(run)] == ["checkpoint-2.pt", "checkpoint-10.pt"]


def test_kills_while_saving_leave_a_loadable_checkpoint(run: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SAVES_AND_IS_KILLED, str(run)], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    num_interrupted, num_saved = map(int, result.stdout.split())
    assert num_interrupted >= 3 and num_saved >= 3
    assert not list(run.glob("*.part"))


def test_a_checkpoint_is_synced_before_its_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, lambda *_, name=name: calls.append(name))
    checkpoint_of_step(1).save(tmp_path / "a.pt")
    checkpoint_of_step(1).pretrained().save(tmp_path / "a.safetensors")
    assert calls == 2 * ["fsync", "replace"]


def test_a_full_disk_keeps_the_old_checkpoint(run: Path) -> None:
    (run / "checkpoint-2.pt.part").symlink_to("/dev/full")  # a device that is always full
    with pytest.raises(OSError, match=r"cannot write .*checkpoint-2\.pt: No space left on device"):
        checkpoint_of_step(2).save_step(run, 2)
    assert_step_1_is_left(run)


def test_truncated_write_keeps_the_old_checkpoint(run: Path) -> None:
    size = checkpoint_path(run, 1).stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write .*checkpoint-2\.pt: File too large"):
            checkpoint_of_step(2).save_step(run, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_step_1_is_left(run)


def test_a_read_only_directory_keeps_the_old_checkpoint(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = checkpoint_of_step(2)
    monkeypatch.chdir(run)
    run.chmod(0o555)
    try:
        with as_nobody(), pytest.raises(OSError, match=r"cannot write checkpoint-2\.pt: Permission denied"):
            checkpoint.save_step(Path("."), 2)
    finally:
        run.chmod(0o755)
    assert_step_1_is_left(run)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Runs without root privileges, because root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_the_newest_checkpoints_are_averaged_as_trained(tmp_path: Path) -> None:
    for step in (8, 9, 10, 11):  # in the order of their numbers, not of their names
        checkpoint = checkpoint_of_step(step)
        checkpoint.weights = {name: value + step**2 for name, value in checkpoint.weights.items()}
        checkpoint.training["history"] = [{"name": "WER", "values": {"full": 0.25}}]
        checkpoint.save_step(tmp_path, 4)
    start = checkpoint_of_step(0).weights
    for count, mean in ((1, 121), (3, (81 + 100 + 121) / 3)):
        averaged = average_newest(tmp_path, count)
        assert averaged.training["step"] == 11
        assert torch.equal(averaged.weights["ctc.bias"], start["ctc.bias"] + 121)
        assert "wer" not in averaged.summary(), "it was not measured for the mean"
        weights = averaged.pretrained().model().state_dict()
        assert all(torch.allclose(weights[name], value + mean) for name, value in start.items())


def test_what_cannot_be_averaged_is_refused(run: Path) -> None:
    checkpoint_of_step(2).save_step(run, 2)
    for count in (0, 3):
        with pytest.raises(CheckpointError, match=rf"average {count} checkpoints .* has 2: choose 1 to 2, .*keep_c"):
            average_newest(run, count)
    with pytest.raises(CheckpointError, match=r"checkpoint-2\.pt is not the folder"):
        average_newest(checkpoint_path(run, 2), 1)
    (run / "empty").mkdir()
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        average_newest(run / "empty", 1)

    checkpoint = checkpoint_of_step(3)
    checkpoint.tokenizer = Tokenizer("char", (*TOKENS[:-1], "C"))
    checkpoint.save_step(run, 2)
    with pytest.raises(CheckpointError, match=r"checkpoint-2\.pt has different tokens than .*checkpoint-3\.pt"):
        average_newest(run, 2)


def test_damaged_checkpoints_are_refused(run: Path, tmp_path: Path) -> None:
    content = checkpoint_path(run, 1).read_bytes()
    broken = tmp_path / "broken.pt"
    for cut in [0, 1, *range(len(content) // 8, len(content), len(content) // 8)]:
        broken.write_bytes(content[:cut])
        with pytest.raises(CheckpointError, match=r"broken\.pt"):
            Checkpoint.load(broken)
    torch.save({"format_version": 99}, broken)
    with pytest.raises(CheckpointError, match="format 99"):
        Checkpoint.load(broken)
    torch.save({"weights": {}}, broken)
    with pytest.raises(CheckpointError, match="not a checkpoint of `asr train`"):
        Checkpoint.load(broken)
    torch.save({"format_version": 1, "code": Evil()}, broken)
    with pytest.raises(CheckpointError):
        Checkpoint.load(broken)
    assert not (tmp_path / "evil").exists()


class Evil:
    """Runs code when unpickled by a loader that allows it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("evil",)
