"""`asr train --dry-run` and `--trial`: operations are those of a real step, the table follows from them, and a trial
measures the device that is there."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from support.benchmark_module import load_benchmark
from support.clips import silent_speech
from support.trainer import new_trainer
from torch.utils.flop_counter import FlopCounterMode

from asr.cli import main
from asr.features import SAMPLE_RATE
from asr.recipe import load_config
from asr.training import cost, inputs

SMALL = ["model.encoder_layers=3", "model.decoder_layers=2", "train.precision=fp32"]


@pytest.mark.parametrize(
    "options",
    [
        ["model.condition_layers=[1,2]"],
        ["model.condition_layers=[]", "data.lexicon=bundled", "model.activation=swiglu", "loss.cr_ctc_weight=0.2"],
        [
            "model.condition_layers=[1]",
            "tokenizer.kind=bpe",
            "tokenizer.vocab_size=100",
            "model.subsampling_channels=8",
        ],
    ],
)
def test_operations_are_those_of_a_real_step(options: list[str]) -> None:
    golden = load_benchmark("golden_losses")
    config = load_config("tiny", [*SMALL, *options])
    learner = golden.learner(config, torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        learner([golden.batch_of(config, torch.device("cpu"))], 1)
    expected = cost.flops_per_s(config, golden.ROW_S) * golden.NUM_ROWS * golden.ROW_S
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.03)


def test_days_and_price_follow_from_the_operations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step of 3 x 640 s at 1 TFLOP per second of audio; 40 to 2 % of 1 PFLOP/s, or a tenth of it in float32."""
    monkeypatch.setattr(cost, "flops_per_s", lambda *_: 1e12)
    monkeypatch.setattr(cost, "GPUS", {"large": cost.Gpu(bf16=1000, fp32=100, euros=2.0)})
    steps = ["data.max_batch_s=640", "train.max_steps=18000", "train.batches_per_step=3"]
    for precision, factor in (("bf16", 1), ("fp32", 10)):
        assert main(["train", "tiny", "--dry-run", *steps, f"train.precision={precision}"]) == 0
        text = " ".join(re.sub("[│┃]", " ", capsys.readouterr().out).split())
        assert "18000 steps of 1920 s of audio with its padding: at most 9600 h; 34.6 EFLOP" in text
        assert f"large {factor} to {20 * factor} {48 * factor} to {960 * factor}" in text
        assert "utterances of 12.3 s are assumed" in text and "--trial 20" in text


def test_epochs_follow_the_shares_of_the_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 h of 10 s, and half of 12 h of 20 s."""
    speech = silent_speech([10 * SAMPLE_RATE] * 720 + [20 * SAMPLE_RATE] * 2160)
    monkeypatch.setattr(inputs, "load_training_data", lambda _: (speech, np.repeat([1.0, 0.5], [720, 2160]), []))
    assert main(["train", "tiny", "--dry-run", "--on", "h100", "data.max_batch_s=80", "train.max_steps=3600"]) == 0
    text = capsys.readouterr().out
    assert "10.0 epochs of 8.0 h" in text and "assumed" not in text
    assert "8.00 hours of speech cannot make a model" in text and "l4" not in text


def test_devices_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tiny", "--dry-run", "--on", "h101"]) == 1
    error = capsys.readouterr().err
    assert "h101" in error and all(name in error for name in cost.GPUS)


def test_a_trial_measures_and_keeps_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(tmp_path.rglob("*"))
    assert main([*arguments, "--trial", "10", "train.max_steps=360"]) == 0
    text = capsys.readouterr().out
    found = re.search(
        r"([\d.]+) GB; (\S+)x real time, (\d+)% of the (\S+) TFLOP/s that the device multiplies in fp32\n"
        r"all 360 steps: ([\d.]+) h of audio, ([\d.]+) h\n",
        text,
    )
    assert found, text
    memory, speed, share, peak, hours, _ = map(float, found.groups())
    assert 0.1 < memory < 10 and speed > 0 and 0 <= share < 100 and peak > 0
    assert 0.5 < hours < 360 * 16 / 3600, "of batches of at most 16 s with their padding"
    assert set(tmp_path.rglob("*")) == before


def test_a_trial_measures_the_epochs_after_the_curriculum(arguments: list[str]) -> None:
    task = new_trainer([*arguments, "data.curriculum_epochs=2", "data.curriculum_s=1"]).task
    planned = task.planner.epoch(2)
    steps = [own.gathered[0].plan for own in islice(task.trial(), 2 * len(planned))]
    sizes = [plan.frames * len(plan.rows) for plan in steps]
    assert sizes[0] == max(sizes[: len(planned)]) == max(batch.frames * len(batch.rows) for batch in planned)
    assert sorted(sizes[: len(planned)]) == sorted(batch.frames * len(batch.rows) for batch in planned)
    assert sum(sizes) > 1.5 * sum(batch.frames * len(batch.rows) for batch in task.planner.epoch(0))


def test_too_short_a_trial_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--trial", "2"]) == 1
    assert "--trial 2 must be at least 10" in capsys.readouterr().err


def test_the_peak_is_a_rate_of_this_device() -> None:
    rate = cost.peak_flops(torch.device("cpu"), "fp32")
    assert 1e8 < rate < 1e14
