"""benchmarks/scaling.py: its law fits errors that follow one, and finished trainings are not repeated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.benchmark_module import load_benchmark

from asr.cli import main
from asr.data.cuts import iterate_cuts, load_cuts

scaling = load_benchmark("scaling")


def row(parameters: float, hours: float, seen: float, floor: float = 0.0) -> dict[str, Any]:
    errors = floor + 40.0 * parameters**-0.2 * hours**-0.1 * seen**-0.3
    return {"parameters": parameters, "hours": hours, "audio_hours": seen, "phone_errors": {"full": errors}}


def rows_of(floor: float) -> list[dict[str, Any]]:
    return [row(n, hours, seen, floor) for n in (1e6, 2e6, 4e6) for hours in (8, 30) for seen in (25, 50, 100)]


@pytest.mark.parametrize(("floor", "tolerance"), [(0.0, 1e-9), (0.3, 0.02)])
def test_the_law_of_errors_is_found(floor: float, tolerance: float) -> None:
    rows = rows_of(floor)
    law = scaling.fit(scaling.law_inputs(rows), scaling.law_errors(rows))
    assert law.floor == pytest.approx(floor, abs=tolerance)
    assert law.coefficients[1:] == pytest.approx([-0.2, -0.1, -0.3], abs=tolerance)
    point = row(8e6, 960, 1000, floor)
    assert scaling.predict(rows, point) == pytest.approx([point["phone_errors"]["full"]] * 3, rel=tolerance)


def test_errors_without_a_law_widen_the_interval() -> None:
    rows = rows_of(0.0)
    for number, each in enumerate(rows):
        each["phone_errors"]["full"] *= 1.1 if number % 4 in (0, 3) else 0.9
    rate, low, high = scaling.predict(rows, row(8e6, 960, 1000))
    assert low < 0.9 * rate and rate * 1.1 < high


def test_fewer_hours_have_fewer_speakers(tones: tuple[Path, Path]) -> None:
    cuts = list(load_cuts(tones[0]))
    hours = sum(cut.duration for cut in cuts) / 3600 / 2
    chosen = list(iterate_cuts(scaling.subset(tones[0], hours)))
    assert 0.8 * hours < sum(cut.duration for cut in chosen) / 3600 <= hours
    speakers = {cut.supervisions[0].speaker for cut in chosen}
    kept = [cut.id for cut in cuts if cut.supervisions[0].speaker in speakers]
    assert len(kept) - len(chosen) < len(kept) / len(speakers) and {cut.id for cut in chosen} <= set(kept)
    assert chosen[0].load_features().shape[1] == 80


def test_only_missing_trainings_are_done(
    tones: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def run_here(commands: Any, *arguments: str, processes: int = 1) -> None:
        trained.append(arguments)
        assert not main(arguments)

    runs = [scaling.Run(16, 1, scaling.ALL_HOURS, seen / 60, 1e-3) for seen in (1, 2)]
    monkeypatch.setattr(scaling, "law_runs", lambda: runs)
    monkeypatch.setattr(scaling.Commands, "run", run_here)
    monkeypatch.setattr(scaling, "SETTINGS", (*scaling.SETTINGS, "data.lexicon=", "data.min_utterance_s=0.1"))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # only the main thread may set handlers
    points = tmp_path / "points.json"
    command = ["scaling", str(tones[0]), "--valid", str(tones[1]), "--points", str(points), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert scaling.main() == 0
    rows = json.loads(points.read_text())
    assert [each["seen_hours"] for each in rows] == [1 / 60, 2 / 60] and len(trained) == 2
    assert 0 < rows[0]["audio_hours"] < rows[1]["audio_hours"] and 0 < rows[0]["phone_errors"]["full"] <= 1.5
    points.write_text(json.dumps(rows[1:]))
    assert scaling.main() == 0
    assert len(trained) == 3 and len(json.loads(points.read_text())) == 2
