"""The neural language model: trees compared with sentences, training, the exported file, and its use in the core."""

from __future__ import annotations

import copy
import itertools
import math
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

from asr.cli import main
from asr.export import neural_lm as exporting
from asr.export.graph import trace
from asr.export.neural_lm import NeuralLmGraph, example_tree, export_neural_lm
from asr.neural_lm.checkpoint import NeuralLmCheckpoint
from asr.neural_lm.config import DEFAULTS, NeuralLmConfig
from asr.neural_lm.model import NeuralLm, causal
from asr.neural_lm.text import learn_pieces, read, rows
from asr.neural_lm.train import perplexity, rate, train
from asr.runtime.neural_lm import NeuralLmFile
from asr.runtime.onnx_session import ModelError
from asr.tokenizer import SOS_EOS_ID, Tokenizer
from asr.training.checkpoint import CheckpointError
from asr.training.short import TrainingError

LINES = ["THE CAT SAT ON THE MAT", "A DOG SAW THE CAT", "THE DOG RAN", "WE SAW A CAT ON A MAT"] * 40


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("neural") / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="module")
def tokenizer(text_file: Path) -> Tokenizer:
    return learn_pieces([text_file], 40)


def tiny(tokenizer: Tokenizer) -> NeuralLmConfig:
    return NeuralLmConfig(tokenizer.vocab_size, dim=16, num_heads=2, num_layers=2, ff_dim=24)


def trained(text_file: Path, tokenizer: Tokenizer, path: Path, steps: int, **options: int) -> NeuralLmCheckpoint:
    settings = {"rows": 8, "length": 16, "lr": 1e-2, "save_every": 5}
    return train(
        [read(text_file, 1.0, tokenizer)],
        path,
        tokenizer,
        replace(DEFAULTS, steps=steps, **(settings | options)),  # type: ignore[arg-type]
        tiny(tokenizer),
        resume=NeuralLmCheckpoint.load(path) if path.exists() else None,
    )


def test_tree_scores_each_sentence_as_if_alone(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    model = NeuralLm(tiny(tokenizer)).eval()
    pieces, parents, depths, ends = example_tree(model.config.num_pieces, 40)
    with torch.no_grad():
        scores = NeuralLmGraph(model)(*(torch.from_numpy(each) for each in (pieces, parents, depths, ends)))
    for leaf in set(range(40)) - set(parents.tolist()):
        path = [leaf]
        while path[-1]:
            path.append(int(parents[path[-1]]))
        sentence = torch.from_numpy(pieces[path[::-1]])[None]
        depth, causal_mask = causal(len(path))
        with torch.no_grad():
            log_probs = model(sentence, depth, causal_mask)[0].log_softmax(-1)
        expected = log_probs[:-1].gather(1, sentence[0, 1:, None])[:, 0]
        assert torch.allclose(scores[path[::-1][1:]], expected, atol=1e-4)


def test_training_ends_after_its_minutes(
    text_file: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=12.0)
    monkeypatch.setattr("asr.neural_lm.train.time", SimpleNamespace(monotonic=lambda: next(clock)))
    shares: list[float] = []
    path, options = tmp_path / "lm.pt", replace(DEFAULTS, steps=100, rows=8, length=16)
    training = partial(train, [read(text_file, 1.0, tokenizer)], path, tokenizer, options, tiny(tokenizer), minutes=2.0)
    done = training(on_step=lambda report: shares.append(report.share))
    assert 0 < done.step == len(shares) < 10
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert training(resume=NeuralLmCheckpoint.load(path)).step == done.step  # its minutes have passed


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("restore_signals")
def test_ending_signals_save_the_last_step(
    ending: signal.Signals,
    text_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps, clip = itertools.count(), torch.nn.utils.clip_grad_norm_

    def interrupted(*args: Any, **options: Any) -> torch.Tensor:
        if next(steps) == 2:
            signal.raise_signal(ending)
        return clip(*args, **options)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", interrupted)
    output, handler = tmp_path / "lm.pt", signal.getsignal(signal.SIGTERM)
    command = ["neural-lm", str(text_file), "-o", str(output), "--pieces", "40", "--layers", "1", "--rows", "1"]
    assert main([*command, "--steps", "9"]) == 130
    assert f"{output} is saved, continue with --resume" in capsys.readouterr().err
    assert NeuralLmCheckpoint.load(output).step == 2
    assert signal.getsignal(signal.SIGTERM) == handler


def test_non_finite_gradients_change_nothing(
    text_file: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is skipped. A rate that makes all of them non-finite ends with an error and leaves the last good file."""
    path, clip, steps = tmp_path / "lm.pt", torch.nn.utils.clip_grad_norm_, itertools.count(1)
    bad: set[int] = set()

    def clip_(*args: Any, **options: Any) -> torch.Tensor:
        return clip(*args, **options) * (float("nan") if next(steps) in bad else 1.0)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip_)
    good = trained(text_file, tokenizer, path, 5)
    bad.add(6)
    skipped = trained(text_file, tokenizer, path, 6)
    assert skipped.step == 6
    assert all(torch.equal(value, good.weights[name]) for name, value in skipped.weights.items())
    bad.update(range(7, 100))
    with pytest.raises(TrainingError, match="gradients of the last 34 steps, up to step 40, are not finite: lower the"):
        trained(text_file, tokenizer, path, 60, save_every=1000)
    assert NeuralLmCheckpoint.load(path).step == 6


@pytest.mark.parametrize("steps", [2, 3])
def test_only_long_trainings_are_compiled(
    text_file: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """In one graph, which computes the same."""
    compiled, compile_graph = [], torch.compile

    def compile_(module: torch.nn.Module) -> Any:
        compiled.append(module)
        return compile_graph(module, backend="eager", fullgraph=True)

    monkeypatch.setattr(torch, "compile", compile_)
    expected = trained(text_file, tokenizer, tmp_path / "eager.pt", steps)
    assert not compiled
    monkeypatch.setattr("asr.neural_lm.train.COMPILED_FROM", 3)
    found = trained(text_file, tokenizer, tmp_path / "compiled.pt", steps)
    assert len(compiled) == (steps == 3)
    for name, value in expected.weights.items():
        torch.testing.assert_close(found.weights[name], value)


def test_perplexity_is_the_mean_over_pieces(tokenizer: Tokenizer) -> None:
    """Of a part of 256 and one of 44, with the end of the last utterance."""
    torch.manual_seed(1)
    model = NeuralLm(tiny(tokenizer)).eval()
    pieces = np.random.default_rng(1).integers(3, tokenizer.vocab_size, 300)
    ids, total = torch.tensor([*pieces, SOS_EOS_ID])[None], 0.0
    for part in (ids[:, :257], ids[:, 256:]):
        with torch.no_grad():
            log_probs = model(part[:, :-1], *causal(part.shape[1] - 1))[0].log_softmax(-1)
        total -= float(log_probs.gather(1, part[0, 1:, None]).sum())
    assert perplexity(model, pieces) == pytest.approx(math.exp(total / 300))


def test_rate_falls_to_zero_over_the_last_share() -> None:
    options = replace(DEFAULTS, steps=1000, lr=1.0)
    assert [round(rate(options, step, step / 1000, 0.5), 3) for step in (99, 400, 750, 999)] == [0.5, 1.0, 0.5, 0.002]
    assert rate(options, 400, 0.9, 0.5) == pytest.approx(0.2)  # a training of some minutes, of which 90 % have passed


def test_training_learns_the_text(text_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = trained(text_file, tokenizer, tmp_path / "lm.pt", 60).model()
    ids = torch.tensor([[SOS_EOS_ID, *tokenizer.encode("THE DOG RAN"), SOS_EOS_ID]])
    depth, mask = causal(ids.shape[1] - 1)
    with torch.no_grad():
        loss = F.cross_entropy(model(ids[:, :-1], depth, mask)[0], ids[0, 1:])
    assert float(loss) < 0.6 * math.log(tokenizer.vocab_size)


def test_resumed_training_is_the_same_to_the_bit(text_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = trained(text_file, tokenizer, tmp_path / "whole.pt", 12)

    class Stop(Exception):
        pass

    def stop(report: object, name: str, perplexity: float) -> None:
        raise Stop

    options = replace(DEFAULTS, steps=12, rows=8, length=16, lr=1e-2, save_every=5)
    text = read(text_file, 1.0, tokenizer)
    with pytest.raises(Stop):
        train([text], tmp_path / "parts.pt", tokenizer, options, tiny(tokenizer), on_scores=stop)
    parts = trained(text_file, tokenizer, tmp_path / "parts.pt", 12)
    assert parts.step == whole.step == 12
    assert all(torch.equal(parts.weights[name], value) for name, value in whole.weights.items())


def test_texts_are_drawn_by_weight_at_utterance_starts(text_file: Path, tokenizer: Tokenizer) -> None:
    often, rarely = read(text_file, 0.9, tokenizer), read(text_file, 0.1, tokenizer)
    swapped = type(rarely)("b", 0.1, np.where(rarely.pieces > 3, 5, rarely.pieces), rarely.starts, rarely.held_out)
    drawn = rows([often, swapped], 400, 8, (0, 0))
    assert (drawn[:, 0] == SOS_EOS_ID).all()
    of_second = (np.isin(drawn, (SOS_EOS_ID, 3, 5)).all(1)).mean()
    assert 0.05 < of_second < 0.2
    assert (rows([often], 4, 8, (0, 1)) == rows([often], 4, 8, (0, 1))).all()
    assert (rows([often], 4, 8, (0, 1)) != rows([often], 4, 8, (0, 2))).any()


@pytest.mark.slow
def test_exported_files_score_as_pytorch_does(
    text_file: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = trained(text_file, tokenizer, tmp_path / "lm.pt", 30)
    tree = example_tree(checkpoint.config.num_pieces, 30)
    graphs = []

    def traced_once(*arguments: Any) -> onnx.ModelProto:
        if not graphs:
            graphs.append(trace(*arguments))
        return copy.deepcopy(graphs[0])

    monkeypatch.setattr(exporting, "trace", traced_once)
    monkeypatch.setattr(exporting, "NUM_BLOCKS", 3)  # more of them take longer to trace
    for int8 in (False, True):
        with patch.object(torch.export, "export", wraps=torch.export.export) as way:
            report = export_neural_lm(checkpoint, tmp_path / "lm.onnx", int8=int8, share=0.4, weight=1.1)
        assert way.call_count == (not int8)  # if one way to trace fails, the exporter silently tries the next one
        file = NeuralLmFile(report.path)
        assert (file.metadata.share, file.metadata.weight) == (0.4, 1.1)
        for word in ("CAT", "MATS", "XYLOPHONE"):
            assert file.metadata.pieces_of(word) == ([] if "X" in word else tokenizer.encode(word))
        expected = log_probs(checkpoint, tree)
        assert np.abs(file.log_probs(*tree) - expected)[1:].max() < (0.5 if int8 else 2e-3)
    again = NeuralLmCheckpoint.from_onnx(report.path)  # the weights in int8 can be trained further
    assert again.tokenizer.tokens == tokenizer.tokens and again.config == checkpoint.config
    assert np.abs(log_probs(again, tree) - expected)[1:].max() < 0.2


def log_probs(checkpoint: NeuralLmCheckpoint, tree: tuple[np.ndarray, ...]) -> np.ndarray:
    with torch.no_grad():
        return NeuralLmGraph(checkpoint.model())(*(torch.from_numpy(each) for each in tree)).numpy()


@pytest.mark.slow
def test_commands_train_export_and_train_further(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "NUM_BLOCKS", 1)  # more of them take longer to trace
    output = tmp_path / "lm.pt"
    command = ["neural-lm", f"{text_file}*2", "-o", str(output), "--lr", "1", "--rows", "4"]
    assert main([*command, "--steps", "1", "--layers", "1", "--pieces", "40"]) == 0
    assert NeuralLmCheckpoint.load(output).config.num_layers == 1
    assert main([*command, "--steps", "1"]) == 1
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--steps", "2", "--resume"]) == 0
    assert NeuralLmCheckpoint.load(output).step == 2
    assert main(["export", str(output), "-o", str(tmp_path / "lm.onnx"), "--int8"]) == 0
    assert "int8" in capsys.readouterr().out
    further = [*command[:3], str(tmp_path / "further.pt"), "--init", str(tmp_path / "lm.onnx"), "--rows", "4"]
    assert main([*further, "--steps", "1"]) == 0
    assert NeuralLmCheckpoint.load(tmp_path / "further.pt").summary["pieces"] == 3 * 4 * 128
    assert main([*further[:3], str(tmp_path / "other.pt"), "--init", str(output)]) == 1
    assert f"{output} is not a neural language model of asr export" in capsys.readouterr().err
    assert main([*further, "--resume"]) == 1
    assert "--init cannot be given with it" in capsys.readouterr().err
    for wrong, error in (
        (["--lr", "0"], "--lr 0.0 must be above 0"),
        (["--rows", "0"], "--rows 0 must be at least 1"),
        (["--minutes", "0"], "--minutes 0.0 must be above 0"),
        (["--layers", "2", "--init", "bundled"], "--layers is for a new network"),
        (["--dim", "448", "--init", "bundled"], "--dim is for a new network"),
        (["--dim", "450"], "--dim 450 must be a multiple of 64"),
    ):
        assert main([*command[:3], str(tmp_path / "other.pt"), *wrong]) == 1
        assert error in capsys.readouterr().err


PEAK_OF_LONG_TREE = """
import resource, sys
from asr.export.neural_lm import example_tree
from asr.runtime.neural_lm import NeuralLmFile, bundled_neural_lm

def peak_mb():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6

file = NeuralLmFile(bundled_neural_lm())
file.log_probs(*example_tree(4096, 2))
before = peak_mb()
file.log_probs(*example_tree(4096, 800))
print(peak_mb() - before)
"""


def test_scoring_a_long_tree_takes_little_memory() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK_OF_LONG_TREE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 35, "MB; 47 with the scores of all nodes at once, 105 without an arena"


@pytest.mark.parametrize("start", [["--init", "no.onnx"], ["--resume"]])
def test_number_of_pieces_is_for_new_ones(start: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["neural-lm", "no.txt", "-o", str(tmp_path / "lm.pt"), *start, "--pieces", "40"]
    assert main(command) == 1
    assert "--pieces is for new word pieces: --resume and --init keep theirs" in capsys.readouterr().err


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["neural-lm", "no.txt", "-o", str(tmp_path / "lm.pt"), "--init", "bundled"]) == 1
    error = capsys.readouterr().err
    assert "asr neural-lm needs more packages (import of onnx" in error and "[train]" in error


def test_what_is_not_a_language_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"kind": "other"}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of a neural language model"):
        NeuralLmCheckpoint.load(path)
    with pytest.raises(ModelError):
        NeuralLmFile(path)
