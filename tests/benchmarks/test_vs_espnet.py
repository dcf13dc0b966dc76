"""benchmarks/vs_espnet.py: without ESPnet it reports this; our side trains for the given time."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest
import torch
from support.benchmark_module import load_benchmark

from asr.data.batches import load_training_cuts
from asr.training.inputs import estimate_cmvn, train_tokenizer

SMALL = (
    *("model.dim=32", "model.num_heads=2", "model.encoder_layers=2", "model.encoder_ff_dim=64", "tokenizer.kind=char"),
    *("model.condition_layers=[1]", "model.decoder_ff_dim=64", "data.max_batch_s=8", "data.max_utterance_s=8"),
    *("data.min_utterance_s=0.1", "data.curriculum_epochs=0", "train.precision=fp32"),
)


vs_espnet = load_benchmark("vs_espnet")


def test_without_espnet_it_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "espnet2", None)
    assert vs_espnet.main(["--train", "train.jsonl.gz", "--valid", "dev.jsonl.gz"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("vs_espnet: ESPnet cannot be imported") and error.endswith("pip install espnet\n")


def test_what_espnet_prints_is_not_taken_for_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("""#!/bin/sh\necho "Failed to import Flash Attention"\necho "[{\\"system\\": \\"$6\\"}]"\n""")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    for jobs in (1, 2):
        rows = vs_espnet.run_both(["--train", "t"], jobs)
        assert rows == [{"system": "asr-stream"}, {"system": "espnet"}]


def test_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vs_espnet.main(["--train", "t", "--valid", "d", "--minutes", "0"])
    assert "--minutes 0.0 must be above 0" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_mark(tones: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--train", str(tones[0]), "--valid", str(tones[1]), "--only", "asr-stream", "--num-utterances", "3"]
    assert vs_espnet.main([*options, "--minutes", "0.01", "--json", "--set", *SMALL]) == 0
    half, full = json.loads(capsys.readouterr().out)
    assert (half["share"], full["share"]) == (0.5, 1.0)
    assert half["parameters"] == full["parameters"] and half["steps"] < full["steps"]
    assert half["audio_h"] < full["audio_h"] and all(0 < row["cer"] <= 2 for row in (half, full))
    rows = vs_espnet.table([half, full]).splitlines()
    assert len(rows) == 4 and rows[-1].endswith(f"| {100 * full['cer']:.1f} % |")


def test_measuring_takes_no_time_and_rate_reaches_zero(
    tones: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that advances by 1 s on every call."""
    config = vs_espnet.load_config("tiny", [*SMALL, f"data.train={tones[0]}", "optim.warmup_steps=4"])
    parts, _ = load_training_cuts(config.data)
    tokenizer = train_tokenizer(config.tokenizer, (cut.supervisions[0].text for cuts, _ in parts for cut in cuts))
    system = vs_espnet.Ours(config, tokenizer, *estimate_cmvn(parts, 1))
    clock = itertools.count()
    monkeypatch.setattr(vs_espnet.time, "process_time", lambda: float(next(clock)))
    rates = []
    monkeypatch.setattr(
        vs_espnet, "learning_rate", lambda *a, rate=vs_espnet.learning_rate: rates.append(rate(*a)) or rates[-1]
    )
    steps, before = [], {name: value.clone() for name, value in system.network.state_dict().items()}
    for mark in vs_espnet.train(system, config, vs_espnet.all_batches(config, tokenizer, parts, None), 20.0):
        steps.append(mark["steps"])
        for _ in range(50):
            next(clock)
    assert steps == [10, 20]
    assert max(rates) <= config.optim.lr and rates[-1] < 0.02 * config.optim.lr
    assert any(not torch.equal(value, before[name]) for name, value in system.network.state_dict().items())
