"""What is shown of a training run beside its losses: the time left, and the speed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rich.console import Console
from support.curves import curve

from asr.model.model import Losses
from asr.training.progress import StepStats, TrainingProgress


def test_time_left_is_estimated_from_steps_and_not_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    with TrainingProgress(tmp_path, 1000, 0, Console(), 50, visible=True) as progress:
        now[0] = 500.0  # workers start
        assert [progress._time_left(step) for step in (1, 5)] == ["", ""]
        now[0] += 10 * 20.0
        assert progress._time_left(21) == "2 h 43 min left"  # 979 steps of 10 s
        now[0] += 10 * 960.0
        assert progress._time_left(981) == "3 min left"


def test_validation_is_not_part_of_the_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    stats = StepStats(Losses(*torch.ones(5)), torch.tensor(1.0))
    with TrainingProgress(tmp_path, 100, 0, Console(quiet=True), 1, visible=True) as progress:
        progress.update(1, 0, stats, 0.1, 3600.0)
        now[0] = 100.0
        progress.validated(1, {}, 60.0, "WER")
        progress.update(2, 0, stats, 0.1, 3600.0)
    assert curve(tmp_path, "audio_hours_per_s")[2] == pytest.approx(1 / 40)
