"""The progress of a training run in addition to its losses: the remaining time and the speed."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console
from support.curves import curve
from support.trainer import progress_of

from asr.model.model import Losses
from asr.training.step import StepStats
from asr.training.task import Scores

STATS = StepStats(Losses(*torch.ones(5))._asdict(), torch.tensor(1.0))


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Gets a line for each step."""
    monkeypatch.setattr("asr.training.progress.PLAIN_EVERY", 1)
    return Console(file=io.StringIO())


def test_time_left_ignores_the_time_of_starting(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    with progress_of(tmp_path, 1, console) as progress:
        now[0] = 500.0  # noise and rooms are read
        progress.update(1, "epoch 0", STATS, 1e-3, 1.0, 0.001)
        for step in (2, 3, 21, 981):
            now[0] = 500.0 + 10.0 * (step - 1)
            progress.update(step, "epoch 0", STATS, 1e-3, 1.0, step / 1000)
    left = [line.partition(" of peak")[2].strip() for line in console.file.getvalue().splitlines()]
    assert left == ["", "", "2 h 46 min left", "2 h 43 min left", "3 min left"]  # 997 steps of 10 s, and so on


def test_time_left_follows_the_clock_if_minutes_end_training(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    with progress_of(tmp_path, 1, console) as progress:
        for step in (1, 2, 3):
            now[0] = 60.0 * step
            progress.update(step, "epoch 0", STATS, 1e-3, 1.0, step / 10)
    assert console.file.getvalue().endswith(" of peak  7 min left\n")


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("phones", [0.0, 1.5])
def test_the_bar_fits_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, phones: float) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    losses = Losses(*torch.tensor([123.456, 1.0, 2.0, 0.0, phones]))._asdict()
    stats = [StepStats(losses | {"total": torch.tensor(value)}, torch.tensor(1.0)) for value in (123.456, torch.nan)]
    rows = []
    for last in (12_003, 12_005, 12_010):
        console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        with progress_of(tmp_path, 5, console, step=12_000) as progress:
            for step in range(12_001, last + 1):
                now[0] += 10.0
                progress.update(step, "epoch 12", stats[step == 12_010], 1e-3, 450.0, step / 100_000)
        shown = re.split(r"[\r\n]|\x1b\[[0-9?;]*[A-Za-z]", console.file.getvalue())
        rows += [row.rstrip() for row in shown if row.strip()]
    assert all(len(row) <= width for row in rows) and not any("…" in row for row in rows), rows
    bar = r"epoch 12 [━╸╺ ]+ step 120\d\d +"
    parts = (
        r" \(ctc 1.000, attention 2.000" + (", phone_ctc 1.500" if phones else "") + r"\)  lr 1.00e-03"
        if width > 80
        else ""
    )
    peak = ", 9% of peak" if width > 80 else ""
    left = " +244 h 2[67] min left"
    assert any(re.fullmatch(bar + left, row) for row in rows), rows  # after the third step
    assert any(re.fullmatch(bar + "loss 123.456" + parts + "  45x real time" + peak + left, row) for row in rows), rows
    assert re.search("  1 of 5 steps skipped", rows[-1]), rows


@pytest.mark.parametrize(
    ("audio_s", "text"), [(65.12, "6.51x"), (8123.0, "812x"), (9997.0, "1,000x"), (53504.0, "5,350x")]
)
def test_the_speed_has_no_exponent(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch, audio_s: float, text: str
) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    with progress_of(tmp_path, 1, console) as progress:
        now[0] += 10.0
        progress.update(1, "epoch 1", STATS, 1e-3, audio_s, 0.1)
    share = audio_s / 10.0 * 2e-3
    assert console.file.getvalue().endswith(f"  {text} real time, {share:.0%} of peak\n")


def test_validation_is_not_part_of_the_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("asr.training.progress.time.monotonic", lambda: now[0])
    with progress_of(tmp_path, 1, Console(quiet=True)) as progress:
        now[0] = 20.0
        progress.update(1, "epoch 0", STATS, 0.1, 3600.0, 0.1)
        now[0] = 120.0
        progress.validated(1, Scores("WER", {}, 0.0), 60.0)
        progress.update(2, "epoch 0", STATS, 0.1, 3600.0, 0.1)
    assert curve(tmp_path, "audio_hours_per_s") == pytest.approx({1: 1 / 20, 2: 1 / 40})


def test_validation_is_printed_and_drawn(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    with progress_of(tmp_path, 1, console) as progress:
        progress.validated(20, Scores("PER", {"full": 0.25, "640ms": 0.3125}, 0.3125), 1.0)
    assert console.file.getvalue() == "step 20: PER full 25.0%, 640ms 31.2%\n"
    assert curve(tmp_path, "per_640ms", "valid") == {20: 0.3125}


def test_resumed_curves_replace_later_points(tmp_path: Path) -> None:
    for first, last, lr in ((0, 4, 0.25), (2, 3, 0.5)):
        with progress_of(tmp_path, 1, Console(quiet=True), step=first) as progress:
            for step in range(first + 1, last + 1):
                progress.update(step, "epoch 0", STATS, lr, 1.0, 0.1)
    assert curve(tmp_path, "lr") == {1: 0.25, 2: 0.25, 3: 0.5}


def test_steps_without_a_finite_one_have_no_loss(tmp_path: Path) -> None:
    with progress_of(tmp_path, 1, Console(quiet=True)) as progress:
        progress.update(
            1,
            "epoch 0",
            StepStats(Losses(*torch.full((5,), torch.nan))._asdict(), torch.tensor(torch.nan)),
            0.1,
            1.0,
            0.1,
        )
    assert curve(tmp_path, "skipped_steps") == {1: 1}
    with pytest.raises(KeyError):
        curve(tmp_path, "total")


def test_a_log_gets_every_fifth_point(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    with progress_of(tmp_path, 2, console) as progress:
        for step in range(1, 21):
            progress.update(step, "epoch 0", STATS, 0.1, 1.0, 0.1)
    assert re.findall(r"step (\d+)", console.file.getvalue()) == ["10", "20"]
    assert list(curve(tmp_path, "lr")) == list(range(2, 21, 2))


def test_only_the_first_process_reports(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    with progress_of(tmp_path, 1, console, visible=False) as progress:
        progress.update(5, "epoch 0", STATS, 0.1, 1.0, 0.1)
        progress.validated(5, Scores("WER", {"full": 0.25}, 0.25), 1.0)
    assert console.file.getvalue() == "" and not list(tmp_path.iterdir())
