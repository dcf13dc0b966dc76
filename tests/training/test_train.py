"""Training end to end: it learns, resumes bit-identically, survives interruptions and reports errors."""

from __future__ import annotations

import copy
import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from support.curves import curve
from support.trainer import new_trainer, progress_of, recognizer
from torch.utils._python_dispatch import TorchDispatchMode

from asr.cli import main
from asr.config import ChunkConfig, Config
from asr.evaluation.wer import WordErrors
from asr.model.masks import draw_chunk
from asr.model.model import AsrModel
from asr.training import train as training
from asr.training.batches import Batch, Batches, Gathered
from asr.training.checkpoint import Checkpoint, checkpoint_path, checkpoints
from asr.training.plans import Plan
from asr.training.progress import TrainingProgress
from asr.training.step import Learner
from asr.training.task import Job
from asr.training.train import Trainer
from asr.training.validate import VALIDATION_CHUNKS


def test_a_small_model_learns_the_toy_language(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=260", "train.valid_every=260"]) == 0
    history = Checkpoint.load(tmp_path / "run" / "best.pt").training["history"]
    assert set(history[0]["values"]) == {"full", "640ms", "320ms"}
    assert max(history[0]["values"].values()) < 0.1
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert (tmp_path / "run" / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_resume_is_exact(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments += ["loss.cr_ctc_weight=0.2", "loss.scheduled_sampling=0.2", "train.precision=bf16"]
    arguments += ["train.save_every=7", "optim.schedule=noam"]
    assert main([*arguments, "train.max_steps=24", f"train.output={tmp_path / 'straight'}"]) == 0
    for steps in (7, 16, 24):  # 16 is in the second epoch
        assert main([*arguments, "--resume", f"train.max_steps={steps}"]) == 0
        is_new = f"no checkpoint in {tmp_path / 'run'}: training starts from the beginning" in capsys.readouterr().out
        assert is_new == (steps == 7)
    straight, resumed = (Checkpoint.load(checkpoint_path(tmp_path / name, 24)) for name in ("straight", "run"))
    assert straight.training["place"]["epoch"] >= 1
    assert_equal(straight.weights, resumed.weights)
    assert_equal(straight.average, resumed.average)
    for each in (straight, resumed):
        assert each.training.pop("minutes") > 0 and each.training.pop("history")
    assert_equal(straight.training, resumed.training)


def assert_equal(one: Any, other: Any) -> None:
    """Bit-identical in everything that the two contain."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


def test_resuming_with_another_optimizer_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "train.max_steps=1", "optim.kind=muon"]) == 0
    assert main([*arguments, "train.max_steps=2", "--resume"]) != 0
    assert "optim.kind=muon" in capsys.readouterr().err


def test_resuming_with_a_new_running_mean_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    assert main([*arguments, "train.max_steps=2", "--resume", "model.running_mean=true"]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path / 'run'} has been training other weights: continue it with model.running_mean=false, or" in error


def test_resuming_uses_the_new_weight_decay(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=1", "optim.weight_decay=0.01"]) == 0
    assert main([*arguments, "train.max_steps=2", "optim.weight_decay=0.5", "optim.betas=[0.8,0.9]", "--resume"]) == 0
    saved = Checkpoint.load(checkpoint_path(tmp_path / "run", 2)).training["optimizer"]
    assert {group["weight_decay"] for group in saved["param_groups"]} == {0.0, 0.5}
    assert all(tuple(group["betas"]) == (0.8, 0.9) for group in saved["param_groups"])


@pytest.mark.parametrize("cause", ["closed terminal", "closed pipe", "full disk"])
def test_lost_output_leaves_a_checkpoint(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """Output fails because the terminal was closed, because `head` or `tee` has ended, or because the disk is full."""
    print = Job.print

    def print_if_open(self: Job, text: str) -> None:
        if text == Trainer.stopping:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        print(self, text)

    def update(self: TrainingProgress, step: int, *_: object) -> None:
        if step == 2 and cause == "closed terminal":
            signal.raise_signal(signal.SIGHUP)
        elif step == 2:
            raise SystemExit(1) if cause == "closed pipe" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Job, "print", print_if_open)
    monkeypatch.setattr(TrainingProgress, "update", update)
    with suppress(SystemExit):
        status = main([*arguments, "train.max_steps=9"])
        assert status == {"closed terminal": 130, "full disk": 1}[cause]
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["checkpoint-2.pt"]


def test_a_second_interruption_cannot_end_the_saving(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = []
    monkeypatch.setattr(Trainer, "save", lambda self: handlers.append(signal.getsignal(signal.SIGINT)))
    assert main([*arguments, "train.max_steps=1"]) == 0
    assert handlers and signal.default_int_handler not in handlers


EVERYTHING = ["augment.telephone_probability=0.4", "augment.noise_probability=0.5", "augment.max_response_db=4"]


class NoHostSynchronisation(TorchDispatchMode):
    """Fails on every `item`, `float` and `if` of a tensor, because they wait for the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default), func
        return func(*args, **(kwargs or {}))


def test_a_step_never_waits_for_the_device(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["loss.cr_ctc_weight=0.2", "train.batches_per_step=2", "augment.room_probability=0.5", *EVERYTHING]
    trainer = new_trainer([*arguments, *options])
    gathered = first_gathered(trainer, 2)
    assert max(each.plan.num_rooms for each in gathered) and max(each.plan.num_lines for each in gathered)
    monkeypatch.setattr(Plan, "seconds", 1.0)  # known on the host
    with progress_of(tmp_path, 50, Console()) as progress:
        for name in ("tolist", "cpu", "numpy"):
            monkeypatch.setattr(torch.Tensor, name, None)
        with NoHostSynchronisation():
            figures, lr = trainer.learner([trainer.task.batch(each) for each in gathered], 1)
            progress.update(1, "epoch 0", figures, lr, 1.0, 0.01)
        with pytest.raises(AssertionError, match=r"is_nonzero|_local_scalar_dense"), NoHostSynchronisation():
            assert figures.grad_norm > 0
        with pytest.raises(TypeError, match="not callable"):
            progress.update(50, "epoch 0", figures, lr, 1.0, 0.5)
        monkeypatch.undo()


def test_step_with_nonfinite_gradient_changes_nothing(arguments: list[str], tmp_path: Path) -> None:
    trainer = new_trainer(arguments)
    (batch,) = first_batches(trainer, 1)
    trainer.learner([batch], 1)
    before, state = copy.deepcopy((trainer.task.network.state_dict(), trainer.optimizer.state_dict()["state"]))
    figures, lr = trainer.learner([batch._replace(features=batch.features + torch.nan)], 2)
    assert_equal(dict(trainer.task.network.state_dict()), dict(before))
    assert_equal(trainer.optimizer.state_dict()["state"], state)
    with progress_of(tmp_path / "log", 2, Console()) as progress:
        progress.update(1, "epoch 0", figures, lr, 1.0, 0.1)
        good, lr = trainer.learner([batch], 3)
        progress.update(2, "epoch 0", good, lr, 1.0, 0.2)
    assert curve(tmp_path / "log", "skipped_steps") == {2: 1}
    assert curve(tmp_path / "log", "total")[2] == pytest.approx(float(good.losses["total"]))
    assert not torch.equal(trainer.task.network.ctc.weight, before["ctc.weight"])


def first_gathered(trainer: Trainer, count: int) -> list[Gathered]:
    task = recognizer(trainer)
    planned = task.planner.epoch(0)
    return [task.batches.gather(task.planner.plan(0, number, planned[number])) for number in range(count)]


def first_batches(trainer: Trainer, count: int) -> list[Batch]:
    return [trainer.task.batch(each) for each in first_gathered(trainer, count)]


def test_losses_of_a_step_are_means_over_the_tokens_of_its_batches(arguments: list[str]) -> None:
    trainer = new_trainer([*arguments, "optim.lr=1e-12", "chunk.full_probability=1", "model.dropout=0"])
    first, second = first_batches(trainer, 2)
    alone = [trainer.learner([batch], 1)[0].losses["total"].item() for batch in (first, second)]
    together = trainer.learner([first, second], 1)[0].losses["total"].item()
    weights = [int(batch.divisor) for batch in (first, second)]
    assert together == pytest.approx((alone[0] * weights[0] + alone[1] * weights[1]) / sum(weights), rel=1e-4)


def test_an_error_while_gathering_reaches_the_user(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is raised in a thread, and the steps before it are kept."""
    gather, steps = Batches.gather, []

    def gather_two(self: Batches, plan: Plan) -> Gathered:
        steps.append(plan)
        if len(steps) == 3:
            raise ValueError("the samples are gone")
        return gather(self, plan)

    monkeypatch.setattr(Batches, "gather", gather_two)
    assert main([*arguments, "train.max_steps=9"]) == 1
    assert "the samples are gone" in capsys.readouterr().err and len(steps) == 3
    assert checkpoints(tmp_path / "run") == [checkpoint_path(tmp_path / "run", 2)]
    assert main([*arguments, "train.max_steps=9", f"train.output={tmp_path / 'new'}"]) == 0


def test_an_error_before_the_first_step_leaves_nothing_to_resume(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.batches_per_step=1000"]) == 1
    assert not checkpoints(tmp_path / "run")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rate of each step, by a clock on which a step takes a second and a validation an hour."""
    now, rates, step = [0.0], [], Learner.__call__

    def timed_step(*arguments: Any) -> tuple[object, float]:
        now[0] += 1.0
        stats, lr = step(*arguments)
        rates.append(lr)
        return stats, lr

    def validate(*_: object) -> dict[str, WordErrors]:
        now[0] += 3600.0
        return {name: WordErrors(num_words=1) for name, _ in VALIDATION_CHUNKS}

    monkeypatch.setattr("asr.training.train.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("asr.training.recognizer.validate", validate)
    monkeypatch.setattr(Learner, "__call__", timed_step)
    return rates


MINUTES = [
    "train.minutes=0.1",
    "optim.schedule=linear",
    "optim.warmup_steps=0",
    "optim.lr=1",
    "train.max_steps=1",
]


def test_minutes_end_training_and_lower_the_rate(arguments: list[str], tmp_path: Path, clock: list[float]) -> None:
    """Those of validation do not count."""
    assert main([*arguments, *MINUTES, "train.valid_every=2"]) == 0
    assert clock == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6], abs=1e-3)
    saved = Checkpoint.load(checkpoint_path(tmp_path / "run", 6)).training
    assert saved["minutes"] == pytest.approx(0.1) and len(saved["history"]) == 3


def test_minutes_begin_after_the_step_that_compiles(
    arguments: list[str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asr.training.train.is_compiled", lambda _: True)
    assert main([*arguments, *MINUTES, "train.valid_every=100"]) == 0
    assert clock == pytest.approx([1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6], abs=1e-3)


def test_a_resumed_run_has_the_rest_of_its_minutes(arguments: list[str], tmp_path: Path, clock: list[float]) -> None:
    assert main([*arguments, *MINUTES, "train.minutes=0.0666"]) == 0
    assert main([*arguments, *MINUTES, "--resume"]) == 0
    assert clock[4:] == pytest.approx([2 / 6, 1 / 6], abs=1e-3)
    assert Checkpoint.load(checkpoint_path(tmp_path / "run", 6)).training["minutes"] == pytest.approx(0.1)


def test_what_training_leaves_out_is_named(
    arguments: list[str], tones: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of a table that somebody has edited."""
    shutil.copytree(tones[0], tmp_path / "edited")
    table = tmp_path / "edited" / "utterances.tsv"
    head, columns, first, second, *rows = table.read_text().splitlines(keepends=True)
    fields = [first.rstrip("\n").split("\t"), second.rstrip("\n").split("\t")]
    fields[0][0], fields[0][-1] = "no-words", " "
    fields[1][0], fields[1][1:3] = "too-long", ["0", str(9 * 16000)]
    table.write_text("".join((head, columns, *("\t".join(row) + "\n" for row in fields), *rows)))
    data = [f"data.train={table}", f"data.valid={table}", "data.valid_utterances=1000"]
    assert main([*arguments, *data, "train.max_steps=1", "train.valid_every=1"]) == 0
    output = capsys.readouterr().out
    assert f"{len(rows)} training utterances, " in output and "; 2 left out" in output
    for line in (
        "left out, empty text: no-words",
        "left out, too long: too-long (9.00 s, expected 0.1 to 8 s)",
        "left out of validation, empty text: no-words",
    ):
        assert line in output
    assert "left out of validation, too long" not in output, "it fits in a batch"


def test_interruption_saves_and_prints_how_to_go_on(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "asr.cli", *arguments, "train.max_steps=100000"]
    command += ["train.log_every=1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert any(line.startswith("epoch 0  step ") for line in process.stdout), "it ended without a step"
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output  # a script with `set -e` must not go on
    assert "--resume" in output and "Traceback" not in output
    assert output.index("stopping: this step is finished") < output.index("interrupted at step")
    (saved,) = checkpoints(tmp_path / "run")
    assert Checkpoint.load(saved).training["step"] > 0


def test_steps_have_scheduled_rates_and_clipped_gradients(arguments: list[str]) -> None:
    options = ["optim.max_grad_norm=0.01", "optim.warmup_steps=4", "optim.schedule=noam", "optim.lr=0.01"]
    trainer = new_trainer([*arguments, *options])
    before = {name: value.clone() for name, value in trainer.task.network.state_dict().items()}
    own = first_batches(trainer, 3)
    figures, lr = trainer.learner(own[:1], 1)
    assert figures.grad_norm > 0.1
    moments = [trainer.optimizer.state[p]["exp_avg"] for p in trainer.task.network.parameters()]
    norm = torch.stack([moment.norm() for moment in moments]).norm()
    assert norm.item() == pytest.approx(0.1 * 0.01, rel=1e-3), "a first moment is a tenth of the clipped gradient"
    change = (trainer.task.network.ctc.bias - before["ctc.bias"]).abs().max()
    assert change.item() == pytest.approx(0.01 / 4, rel=1e-2), "Adam's first step is as long as the rate"
    expected = before["ctc.bias"].lerp(trainer.task.network.ctc.bias.detach(), 9 / 11)
    assert torch.allclose(trainer.average.weights["ctc.bias"], expected), "the average has the step"
    rates = [lr]
    for step, batch in enumerate(own[1:], 2):
        rates.append(trainer.learner([batch], step)[1])
        assert {group["lr"] for group in trainer.optimizer.param_groups} == {rates[-1]}
    assert rates == pytest.approx([0.0025, 0.005, 0.0075])


def test_the_average_is_what_is_validated(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer([*arguments, "optim.ema_decay=0.99", "train.max_steps=1", "train.valid_every=1"])
    seen: list[dict[str, torch.Tensor]] = []

    def keep(model: AsrModel, *_: object) -> dict[str, WordErrors]:
        assert not model.training
        seen.append(copy.deepcopy(model.state_dict()))
        return {name: WordErrors(num_words=1) for name, _ in VALIDATION_CHUNKS}

    monkeypatch.setattr("asr.training.recognizer.validate", keep)
    assert trainer.run()
    assert_equal(dict(seen[0]), trainer.average.weights)
    assert not torch.equal(seen[0]["ctc.weight"], trainer.task.network.ctc.weight)
    best = Checkpoint.load(tmp_path / "run" / "best.pt")
    assert torch.equal(best.average["ctc.weight"], seen[0]["ctc.weight"])


@pytest.mark.parametrize(("options", "best"), [(["chunk.full_probability=1"], 2), ([], 1)])
def test_only_trained_chunks_choose_the_best(
    options: list[str], best: int, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = (
        {
            name: WordErrors(substitutions=full if name == "full" else chunks, num_words=10)
            for name, _ in VALIDATION_CHUNKS
        }
        for full, chunks in ((5, 1), (4, 2))  # wrong words of 10
    )
    monkeypatch.setattr("asr.training.recognizer.validate", lambda *_: next(found))
    assert new_trainer([*arguments, *options, "train.max_steps=2", "train.valid_every=1"]).run()
    assert Checkpoint.load(tmp_path / "run" / "best.pt").training["step"] == best


def test_a_second_run_does_not_overwrite_the_first(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    assert main([*arguments, "train.max_steps=1"]) == 1
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.max_utterance_s=0.15", "no training data"),
        ("optim.learning_rate=1", "did you mean"),
        ("data.train=nowhere", "nowhere is not a data set"),
        ("train.batches_per_step=1000", "batches, fewer than one step takes, 1000"),
    ],
)
def test_what_cannot_work_is_one_clear_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    assert main([*arguments, override]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_oversized_batch_is_refused_with_advice(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Learner, "__call__", exhausted)
    for options in ([], ["--trial", "10"]):
        assert main([*arguments, "data.max_batch_s=12", *options]) == 1
        assert "a batch does not fit into the memory: lower data.max_batch_s = 12 " in capsys.readouterr().err


def test_more_processes_than_gpus_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert main(arguments) == 1
    assert "process 2 has no GPU, because there are 2; set --nproc_per_node=2" in capsys.readouterr().err


def test_refused_configuration_ends_the_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    def refused(*_: object) -> None:
        raise ValueError("no training data")

    monkeypatch.setattr(training, "Trainer", refused)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: ended.append(True))
    with pytest.raises(ValueError, match="no training data"):
        training.train(Config(), False, Console())
    assert ended == [True]


def test_seed_draws_chunks_that_cover_all_choices() -> None:
    config = ChunkConfig(full_probability=0.25, sizes=(4, 8), left_contexts=(16, -1))
    draws = [draw_chunk(config, f"1 {step}") for step in range(200)]
    assert set(draws) == {(0, -1), (4, 16), (4, -1), (8, 16), (8, -1)}
    assert draws == [draw_chunk(config, f"1 {step}") for step in range(200)]
    assert 25 < draws.count((0, -1)) < 75


def test_every_view_of_a_step_draws_its_chunk(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another one with another train.seed."""
    seeds: list[str] = []
    monkeypatch.setattr("asr.training.recognizer.draw_chunk", lambda _, seed: seeds.append(seed) or (0, -1))
    options = ["loss.cr_ctc_weight=0.2", "train.max_steps=3", "train.valid_every=100"]
    for seed in (1, 2):
        assert main([*arguments, *options, f"train.seed={seed}", f"train.output={tmp_path / str(seed)}"]) == 0
    assert len(seeds) == len(set(seeds)) == 12


def test_a_seed_changes_weights_and_batches(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[torch.Tensor, torch.Tensor]] = []

    def first_step(learner: Learner, batches: list[Batch], *_: object) -> None:
        started.append((learner.network.ctc.weight.detach().clone(), batches[0].features))
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "__call__", first_step)
    for run, seed in enumerate((1, 1, 2)):
        with pytest.raises(KeyboardInterrupt):
            new_trainer([*arguments, f"train.seed={seed}", f"train.output={tmp_path / str(run)}"]).run()
    first, same, other = started
    assert [torch.equal(*pair) for pair in zip(first, same, strict=True)] == [True, True]
    assert [torch.equal(*pair) for pair in zip(first, other, strict=True)] == [False, False]


def test_training_ends_when_it_gets_no_better(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train.valid_every=2", "train.patience=3", "train.max_steps=100", "optim.lr=1e-9"]
    assert main([*arguments, *options]) == 0
    (saved,) = checkpoints(tmp_path / "run")
    history = Checkpoint.load(saved).training["history"]
    assert len(history) == 4 and saved == checkpoint_path(tmp_path / "run", 8)
    assert Checkpoint.load(tmp_path / "run" / "best.pt").training["step"] == 2
    assert "no improvement in 3 validations" in " ".join(capsys.readouterr().out.split())
    assert main([*arguments, *options, "--resume"]) == 0, "as a script does"
    assert checkpoints(tmp_path / "run") == [saved]
    assert "no improvement in 3 validations" in " ".join(capsys.readouterr().out.split())


def test_the_best_weights_are_kept_if_their_line_cannot_be_printed(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = new_trainer([*arguments, "train.valid_every=2", "train.max_steps=4"])

    def refuse(*_: object) -> None:
        raise SystemExit(1)  # as rich does for a closed pipe

    monkeypatch.setattr(TrainingProgress, "validated", refuse)
    with pytest.raises(SystemExit):
        trainer.run()
    assert Checkpoint.load(trainer.folder / "best.pt").training["step"] == 2


def test_patience_without_validation_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "data.valid=[]", "train.patience=3", "train.max_steps=1"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "there is nothing to validate on, so train.patience has no effect" in out
    assert "hours of speech cannot make a model" in out


def test_the_end_of_a_training_is_validated_and_kept(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=5", "train.valid_every=3"]) == 0
    history = Checkpoint.load(checkpoint_path(tmp_path / "run", 5)).training["history"]
    assert [entry["step"] for entry in history] == [3, 5]


def test_gradients_that_stay_infinite_end_training(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Batches.__call__

    def damaged(self: Batches, gathered: Gathered) -> Batch:
        batch = made(self, gathered)
        return batch._replace(features=batch.features + torch.nan)

    monkeypatch.setattr(Batches, "__call__", damaged)
    assert main([*arguments, "train.max_steps=100", "train.log_every=10", "train.save_every=1000"]) == 1
    error = capsys.readouterr().err
    assert "the gradients of the last 20 steps, up to step 20, are not finite: lower optim.lr = 0.003" in error
    assert not list((tmp_path / "run").glob("*.pt"))
