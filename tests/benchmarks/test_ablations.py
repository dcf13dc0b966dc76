"""benchmarks/ablations.py: its variants match their names, and it continues where it was stopped."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
import torch
from support.benchmark_module import load_benchmark

from asr.cli import main
from asr.model.model import AsrModel, with_vocab
from asr.recipe import load_config
from asr.training.checkpoint import checkpoints

STEPS = 30


ablations = load_benchmark("ablations")


def test_every_variant_differs_as_named_from_the_baseline() -> None:
    base = load_config("tiny")
    chosen, left_out = ablations.choose_variants("tiny", [])
    assert not left_out
    # One option of each choice is the recipe itself; the others are variants.
    assert set(ablations.all_variants(base)) - set(chosen) == {
        *("position-rope", "norm-pre", "activation-relu", "label-smoothing-0.1", "scheduled-sampling-0"),
        *("units-char", "cr-ctc-off", "ctc-weight-0.5", "intermediate-ctc-0.3"),
    }
    sizes, configs = {}, [base]
    for name, overrides in chosen.items():
        config = load_config("tiny", overrides)
        assert 1 <= len(overrides) <= 2
        assert config not in configs, name
        configs.append(config)
        with torch.device("meta"):
            model = AsrModel(with_vocab(config.model, max(config.tokenizer.vocab_size, 4)))
        sizes[name] = sum(p.numel() for p in model.parameters())
    assert sizes["units-bpe-512"] > sizes["units-bpe-256"] == sizes["cr-ctc"] > sizes["units-bpe-128"]
    # Equal shapes must mean equal work for a fair comparison.
    for name in ("norm-post", "activation-swiglu", "position-sinusoidal", "position-none"):
        assert sizes[name] == pytest.approx(sizes["cr-ctc"], rel=0.01), name


def test_trained_weights_leave_only_variants_of_their_shape() -> None:
    chosen, left_out = ablations.choose_variants("tiny", ["train.init=bundled"])
    assert {"cr-ctc", "chunk-none", "activation-gelu", "label-smoothing-0"} <= set(chosen)
    assert "parameters" in left_out["position-learned"] and "units" in left_out["units-bpe-256"]
    with pytest.raises(ValueError, match="the baseline cannot start from the weights of bundled"):
        ablations.choose_variants("tiny", ["train.init=bundled", "model.encoder_layers=12"])


def test_what_does_not_fit_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--only", "norm-port"], r"--only norm-port: there are seed-2, position-relative"),
        (["--only", "norm-post", "--init", "bundled"], "--only norm-post (other parameters than the weights hold)"),
        (["--set", "optim.rate=1"], "unknown key 'optim.rate'"),
        (["--recipe", "no-recipe"], "no configuration file 'no-recipe'"),
    ):
        assert ablations.main(["--list", *arguments]) == 1
        assert message in capsys.readouterr().err
    assert ablations.main(["--list"]) == 0
    assert "norm-post              model.norm=post\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        ablations.main([])
    assert "--train and --valid are needed" in capsys.readouterr().err


def interrupt(at: Path) -> None:
    """Presses Ctrl-C as soon as there is a checkpoint in `at`."""
    deadline = time.monotonic() + 120
    while not checkpoints(at) and time.monotonic() < deadline:
        time.sleep(0.005)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGINT)


class AtOnce(Executor):
    """Runs a submitted function before it returns."""

    def __init__(self, max_workers: int) -> None:
        assert max_workers == 1

    def submit(self, function: Callable, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def run_here(commands: Any, *arguments: str, processes: int = 1) -> None:
    if main(arguments):
        raise sys.modules["ablations"].AblationError(f"asr {arguments[0]}")


def test_interrupted_run_goes_on_to_table_and_plot(
    arguments: list[str],
    tones: tuple[Path, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    command = ["--recipe", arguments[1], "--train", str(tones[0]), "--valid", str(tones[1]), "--out", str(out)]
    command += ["--steps", str(STEPS), "--set", "train.save_every=5", "train.log_every=10", "optim.warmup_steps=5"]
    only = ["--only", "ctc-weight-1"]

    threading.Thread(target=interrupt, args=(out / "baseline",), daemon=True).start()
    assert ablations.main([*command, *only]) == 130
    assert "the same command goes on" in capfd.readouterr().err
    (saved,) = checkpoints(out / "baseline")
    stopped = int(saved.stem.split("-")[1])
    assert 0 < stopped < STEPS
    assert json.loads((out / "results.json").read_text())["results"] == {}

    # The others run in this process, which has already imported PyTorch; only the main thread may set signal handlers.
    monkeypatch.setattr(ablations, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(ablations.Commands, "run", run_here)

    # A variant that cannot be trained is named, and earlier measurements are kept.
    (out / "ctc-weight-1").mkdir()
    (out / "ctc-weight-1" / "checkpoint-1.pt").write_bytes(b"damaged")
    assert ablations.main([*command, *only]) == 1
    captured = capfd.readouterr()
    assert f"resuming at step {stopped}," in captured.out
    assert "failed: ctc-weight-1; the same command tries them again" in captured.err
    results = read(out)
    assert set(results) == {"baseline"}

    (out / "ctc-weight-1" / "checkpoint-1.pt").unlink()
    assert ablations.main([*command, *only]) == 0
    printed = capfd.readouterr().out
    assert "[2/2] ctc-weight-1 loss.ctc_weight=1\n" in printed and "baseline model" not in printed
    after = read(out)
    assert {name: after[name] for name in results} == results
    check_report(out, after)

    with pytest.raises(SystemExit):
        ablations.main([*command, "--processes", "0"])
    assert ablations.main([*command, "--steps", "50"]) == 1
    assert f"(steps was {STEPS}, is 50): choose another --out" in capfd.readouterr().err


def read(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())["results"]


def check_report(out: Path, results: dict[str, Any]) -> None:
    for result in results.values():
        assert set(result["cer"]) == {"full", "640", "320", "160"}
        assert all(0 < rate < 2 for rate in result["cer"].values())
        assert result["seconds_per_step"] > 0
        assert result["wer_640"] > 0
    base, other = results["baseline"], results["ctc-weight-1"]
    assert base["rescored_640"] is not None and other["rescored_640"] is None
    lines = (out / "ablations.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert [row[0] for row in rows] == ["variant", "baseline", "ctc-weight-1"]
    assert rows[1][4] == f"{100 * base['cer']['full']:.1f}"
    difference = 100 * (other["cer"]["160"] - base["cer"]["160"])
    assert rows[2][7] == f"{100 * other['cer']['160']:.1f} ({difference:+.1f})"
    assert rows[2][1] == "`loss.ctc_weight=1`" and rows[2][-2] == ""
    assert (out / "ablations.png").read_bytes().startswith(b"\x89PNG")


def test_table_has_baseline_first_and_differences_in_brackets() -> None:
    cer = dict.fromkeys(ablations.CHUNKS, 0.5)
    base = {"overrides": [], "parameters": 5_780_000, "seconds_per_step": 0.5, "cer": cer, "wer_640": 0.75}
    worse = {**base, "overrides": ["a=1"], "cer": {**cer, "320": 0.625}, "rescored_640": 0.25, "seconds_per_step": None}
    base = {**base, "rescored_640": 0.375}
    *_, first, second = ablations.table({"baseline": base, "other": worse}).splitlines()
    assert first == "| baseline |  | 5.78 M | 0.50 | 50.0 | 50.0 | 50.0 | 50.0 | 37.5 | 75.0 |"
    assert second == (
        "| other | `a=1` | 5.78 M |  | 50.0 (+0.0) | 50.0 (+0.0) | 62.5 (+12.5) | 50.0 (+0.0) | 25.0 (-12.5) "
        "| 75.0 (+0.0) |"
    )
