"""Training in several processes: each does its part, all end together, and they train as one."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.clips import equal
from support.curves import curve
from support.trainer import become, new_trainer, recognizer

from asr.cli import main
from asr.evaluation.wer import WordErrors
from asr.model.model import AsrModel
from asr.recipe import load_config
from asr.training.batches import Batches
from asr.training.checkpoint import Checkpoint, checkpoint_path, checkpoints
from asr.training.plans import Plan
from asr.training.recognizer import Recognizer
from asr.training.train import batches_per_step
from asr.training.validate import VALIDATION_CHUNKS


def test_an_interrupted_process_first_tells_the_others(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = new_trainer([*arguments, "train.batches_per_step=2", "train.max_steps=5"])
    become(trainer, 0, 2)
    told = []

    def all_reduce(agreed: torch.Tensor, _: object) -> None:
        told.append(bool(agreed[0]))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    assert not trainer.run()
    assert told[:2] == [False, True] and trainer.step == 1


KILLED_ONCE_IN_STEP_7 = """
import os, signal, sys
from pathlib import Path
from asr.cli import main
from asr.training.step import Learner

take_step = Learner.__call__
killed = Path(__file__).with_suffix(".killed")

def dying_step(self, batches, step, *share):
    if step == 7 and os.environ["RANK"] == "1" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)  # the other has curves that are not written yet
    return take_step(self, batches, step, *share)

Learner.__call__ = dying_step
sys.exit(main(sys.argv[1:]))
"""


def test_two_processes_train_as_one_despite_a_kill(arguments: list[str], tmp_path: Path) -> None:
    """The same batches and losses at every step; torchrun begins again at the newest checkpoint; one process
    can go on where two stopped."""
    arguments = [*arguments, "train.batches_per_step=2", "train.log_every=1", "optim.schedule=noam"]
    arguments.append("train.save_every=4")
    single, run, program = tmp_path / "single", tmp_path / "run", tmp_path / "program.py"
    assert main([*arguments, "train.max_steps=12", f"train.output={single}"]) == 0
    program.write_text(KILLED_ONCE_IN_STEP_7)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command += [str(program), *arguments, "--resume", "train.max_steps=10", "train.valid_every=10"]
    # A store shared by all rounds still has the addresses of processes that have ended.
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert program.with_suffix(".killed").exists()
    assert "resuming at step 4," in done.stdout
    checkpoint = Checkpoint.load(checkpoint_path(run, 10))
    assert checkpoint.training["world_size"] == 2
    assert [each["step"] for each in checkpoint.training["history"]] == [10]
    assert main([*arguments, "train.max_steps=12", "--resume"]) == 0

    for name in ("total", "ctc", "attention", "grad_norm"):
        alone, together = (curve(folder, name) for folder in (single, run))
        assert list(alone) == sorted(together) == list(range(1, 13))
        assert [together[step] for step in alone] == pytest.approx(list(alone.values()), rel=1e-3), name
    assert curve(single, "total")[1] != pytest.approx(curve(single, "total")[2], rel=1e-2)
    # Each process counts its own audio as the audio of both.
    hours = [Checkpoint.load(checkpoint_path(folder, 12)).training["audio_hours"] for folder in (single, run)]
    assert hours[0] == pytest.approx(hours[1], rel=0.25)


def test_processes_must_share_a_steps_batches_evenly(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("torch.distributed.init_process_group", lambda *_: pytest.fail("waits for the others"))
    way = r"take train\.batches_per_step=4 data\.max_batch_s=30, for .*, or one of these numbers of processes: 1, 3$"
    with pytest.raises(ValueError, match=rf"train\.batches_per_step = 3 batches .* among 2 processes: {way}"):
        new_trainer([*arguments, "train.batches_per_step=3", "data.max_batch_s=40"])


@pytest.mark.parametrize(("per_step", "processes", "expected"), [(0, 8, 8), (4, 1, 4), (8, 4, 8), (4, 4, 4)])
def test_batches_of_a_step_are_those_chosen(per_step: int, processes: int, expected: int) -> None:
    config = load_config("tiny", [f"train.batches_per_step={per_step}"])
    assert batches_per_step(config, processes) == expected


def test_validation_adds_up_the_errors_of_all_processes(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer([*arguments, "train.batches_per_step=2", "train.max_steps=1", "train.valid_every=1"])
    become(trainer, 1, 2)
    shares: list[Any] = []

    def own(model: AsrModel, tokenizer: object, clips: list[Any], *_: object) -> dict[str, WordErrors]:
        shares.append([clip.id for clip in clips])
        return {name: WordErrors(0, 0, 1, 4) for name, _ in VALIDATION_CHUNKS}

    monkeypatch.setattr("asr.training.recognizer.validate", own)

    def all_reduce(tensor: torch.Tensor, op: object = None) -> None:
        if op is None:  # not the flag of an interruption
            tensor.add_(torch.tensor([1, 0, 1, 12]))

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    assert trainer.run()
    assert shares == [[clip.id for clip in recognizer(trainer).valid[1::2]]]
    assert trainer.history[0]["values"] == {name: 3 / 16 for name, _ in VALIDATION_CHUNKS}
    assert not (tmp_path / "run" / "best.pt").exists(), "the first process writes it"


def test_only_the_first_process_saves(arguments: list[str], tmp_path: Path) -> None:
    trainer = new_trainer(arguments)
    for rank, names in ((1, []), (0, ["checkpoint-0.pt"])):
        become(trainer, rank, 2)
        trainer.save()
        assert [path.name for path in checkpoints(tmp_path / "run")] == names


def test_one_interrupted_process_stops_all(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the other would wait for it without end."""
    trainer = new_trainer([*arguments, "train.batches_per_step=2", "train.max_steps=3"])
    become(trainer, 0, 2)
    others = itertools.chain([0], itertools.repeat(1))  # during the first step, another process is interrupted
    monkeypatch.setattr("torch.distributed.all_reduce", lambda agreed, op: agreed[:1].fill_(next(others)))
    assert not trainer.run() and trainer.step == 1


def test_batches_do_not_depend_on_processes_or_start(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batches, "gather", lambda self, plan: plan)
    monkeypatch.setattr(Plan, "plan", property(lambda self: self), raising=False)
    trainer = new_trainer([*arguments, "data.max_batch_s=8", "train.batches_per_step=4"])
    task, rest = recognizer(trainer), lambda place: plans(task, place)
    straight = rest({})
    assert len(straight) > 12 and len(straight) % 4 == 0
    assert all(map(equal, rest({"epoch": 0, "batch": 8}), straight[8:]))
    shares = []
    for rank in (0, 1):
        become(trainer, rank, 2)
        shares.append(rest({}))
    together = [plan for pair in zip(*shares, strict=True) for plan in pair]
    assert len(together) == len(straight) and all(map(equal, together, straight))


def plans(task: Recognizer, place: dict[str, int]) -> list[Any]:
    """Those of this process in the rest of an epoch."""
    steps = itertools.takewhile(lambda step: step.place["epoch"] == 0, task.steps(place))
    return [plan for step in steps for plan in step.gathered]


def test_processes_agree_on_the_time(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise their learning rates would differ, and one would wait for the other at the end."""
    trainer = new_trainer([*arguments, "train.batches_per_step=2", "train.minutes=9", "train.max_steps=5"])
    become(trainer, 0, 2)
    minutes = itertools.chain([0.0, 3.0], itertools.repeat(9.0))  # of the slowest process

    def all_reduce(values: torch.Tensor, op: object = None) -> None:
        if op is not None:  # the time; otherwise the errors of a validation
            values[1:].fill_(next(minutes))

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    assert trainer.run() and trainer.step == 2 and trainer.minutes == 9
