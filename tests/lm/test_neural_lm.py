"""The neural language model: trees compared with sentences, training, the exported file, and its use in the core."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from asr.cli import main
from asr.export import neural_lm as exporting
from asr.export.graph import trace
from asr.export.neural_lm import NeuralLmGraph, example_tree, export_neural_lm
from asr.neural_lm.config import NeuralLmConfig
from asr.neural_lm.model import NeuralLm
from asr.neural_lm.task import NeuralLmTask, from_onnx, perplexity
from asr.neural_lm.text import learn_pieces, read, rows
from asr.recipe import load_recipe
from asr.runtime.neural_lm import NeuralLmFile
from asr.runtime.onnx_session import ModelError
from asr.tokenizer import SOS_EOS_ID, Tokenizer
from asr.training.checkpoint import Checkpoint, checkpoints
from asr.training.train import Trainer

LINES = ["THE CAT SAT ON THE MAT", "A DOG SAW THE CAT", "THE DOG RAN", "WE SAW A CAT ON A MAT"] * 40
TINY = [
    *("model.dim=16", "model.num_heads=2", "model.num_layers=2", "model.ff_dim=24", "tokenizer.vocab_size=40"),
    *("data.rows=8", "data.length=16", "optim.lr=1e-2", "train.device=cpu", "train.log_every=5"),
]


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


def command(text_file: Path, run: Path, steps: int, *options: str) -> list[str]:
    settings = [f"data.train={text_file}", f"train.output={run}", f"train.max_steps={steps}"]
    return ["train", "neural-lm", *TINY, *settings, *options]


def trained(text_file: Path, run: Path, steps: int, *options: str) -> Checkpoint:
    assert main(command(text_file, run, steps, *options)) == 0
    return Checkpoint.load(checkpoints(run)[-1])


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
        with torch.no_grad():
            log_probs = model(sentence)[0].log_softmax(-1)
        expected = log_probs[:-1].gather(1, sentence[0, 1:, None])[:, 0]
        assert torch.allclose(scores[path[::-1][1:]], expected, atol=1e-4)


@pytest.mark.parametrize("steps", [2, 3])
def test_only_long_trainings_are_compiled(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """In one graph, which computes the same."""
    compiled, compile_graph = [], torch.compile

    def compile_(module: torch.nn.Module) -> Any:
        compiled.append(module)
        return compile_graph(module, backend="eager", fullgraph=True)

    monkeypatch.setattr(torch, "compile", compile_)
    expected = trained(text_file, tmp_path / "eager", steps)
    assert not compiled
    monkeypatch.setattr("asr.neural_lm.task.COMPILED_FROM", 3)
    found = trained(text_file, tmp_path / "compiled", steps)
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
            log_probs = model(part[:, :-1])[0].log_softmax(-1)
        total -= float(log_probs.gather(1, part[0, 1:, None]).sum())
    assert perplexity(model, pieces) == pytest.approx(math.exp(total / 300))


def test_training_learns_the_text(text_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = trained(text_file, tmp_path / "lm", 60, "optim.warmup_steps=10").network()
    ids = torch.tensor([[SOS_EOS_ID, *tokenizer.encode("THE DOG RAN"), SOS_EOS_ID]])
    with torch.no_grad():
        loss = F.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:])
    assert float(loss) < 0.6 * math.log(tokenizer.vocab_size)


def test_resumed_training_is_the_same_to_the_bit(text_file: Path, tmp_path: Path) -> None:
    options = ["train.batches_per_step=2", "optim.cooldown=0"]
    whole = trained(text_file, tmp_path / "whole", 12, *options)
    trained(text_file, tmp_path / "parts", 5, *options)
    parts = trained(text_file, tmp_path / "parts", 12, *options, "--resume")
    assert parts.training["place"] == whole.training["place"] == {"batch": 24}
    assert all(torch.equal(parts.weights[name], value) for name, value in whole.weights.items())


def test_processes_share_the_batches_of_a_step(text_file: Path, tmp_path: Path) -> None:
    arguments = command(text_file, tmp_path / "run", 1, "train.batches_per_step=4")
    trainer = Trainer(load_recipe(arguments[1], arguments[2:]), False, Console(quiet=True))
    task, numbers = trainer.task, {}
    assert isinstance(task, NeuralLmTask)
    for world_size in (1, 2):
        for rank in range(world_size):
            task._job = trainer.job._replace(rank=rank, world_size=world_size)
            step = next(task.steps({"batch": 8}))
            assert step.place == {"batch": 12} and step.amount == 4 / world_size * 8 * 16
            numbers[world_size, rank] = [task.batch(each).seed for each in step.gathered]
    assert numbers == {(1, 0): [8, 9, 10, 11], (2, 0): [8, 10], (2, 1): [9, 11]}


def test_the_best_weights_have_the_lowest_mean_perplexity(text_file: Path, tmp_path: Path) -> None:
    """That of all texts, with their weights, also if their files have the same name."""
    other = tmp_path / "other" / text_file.name
    other.parent.mkdir()
    names = [f"{each.parent.name}/{each.name}" for each in (text_file, other)]
    other.write_text("\n".join(["A MAT SAT ON THE DOG", "THE MAT RAN"] * 60) + "\n")
    texts = f"data.train=[{text_file}*3,{other}]"
    trained(text_file, tmp_path / "run", 20, texts, "train.valid_every=10", "optim.warmup_steps=0")
    history = Checkpoint.load(tmp_path / "run" / "best.pt").training["history"]
    assert [set(row["values"]) for row in history] == [set(names)] * len(history)
    values = history[-1]["values"]
    mean = math.exp(0.75 * math.log(values[names[0]]) + 0.25 * math.log(values[names[1]]))
    assert history[-1]["judged"] == pytest.approx(mean) == min(row["judged"] for row in history)


def test_texts_are_drawn_by_weight_at_utterance_starts(text_file: Path, tokenizer: Tokenizer) -> None:
    often, rarely = (read(text_file, "a", weight, tokenizer) for weight in (0.9, 0.1))
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
    checkpoint = trained(text_file, tmp_path / "lm", 30)
    tree = example_tree(tokenizer.vocab_size, 30)
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
        expected = log_probs(checkpoint.network(), tree)
        assert np.abs(file.log_probs(*tree) - expected)[1:].max() < (0.5 if int8 else 2e-3)
    shape, units, weights = from_onnx(report.path)  # the weights in int8 can be trained further
    assert units.tokens == tokenizer.tokens and shape == tiny(tokenizer)
    again = NeuralLm(shape).eval()
    again.load_state_dict(weights)
    assert np.abs(log_probs(again, tree) - expected)[1:].max() < 0.2


@pytest.mark.slow
def test_matrices_of_the_shape_of_the_table_are_no_table(
    text_file: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first matrix of a feed-forward layer is as wide as there are pieces."""
    monkeypatch.setattr(exporting, "NUM_BLOCKS", 1)  # more of them take longer to trace
    shape = [f"model.ff_dim={tokenizer.vocab_size}", "model.activation=relu", "model.num_layers=1"]
    checkpoint = trained(text_file, tmp_path / "lm", 1, *shape)
    report = export_neural_lm(checkpoint, tmp_path / "lm.onnx", int8=True)
    tree = example_tree(tokenizer.vocab_size, 30)
    expected = log_probs(checkpoint.network(), tree)
    assert np.abs(NeuralLmFile(report.path).log_probs(*tree) - expected)[1:].max() < 0.5


def log_probs(model: NeuralLm, tree: tuple[np.ndarray, ...]) -> np.ndarray:
    with torch.no_grad():
        return NeuralLmGraph(model)(*(torch.from_numpy(each) for each in tree)).numpy()


@pytest.mark.slow
def test_commands_train_export_and_train_further(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "NUM_BLOCKS", 1)  # more of them take longer to trace
    run, file = tmp_path / "lm", tmp_path / "lm.onnx"
    assert main(command(text_file, run, 2, f"data.train={text_file}*2", "optim.warmup_steps=0")) == 0
    output = capsys.readouterr().out
    assert "weight 2" in output and "perplexity lines.txt " in output and f"asr export {run} -o lm.onnx" in output
    assert main(["export", str(run), "-o", str(file), "--int8"]) == 0
    assert "int8" in capsys.readouterr().out
    trained(text_file, tmp_path / "further", 1, f"train.init={file}")
    trained(text_file, tmp_path / "again", 1, f"train.init={run}")
    for init, error in (
        (text_file, f"{text_file} is not a checkpoint"),
        (tmp_path / "no.onnx", "no.onnx: No such file"),
        ("bundled", "model.dim is 384 there, 16 here"),
    ):
        assert main(command(text_file, tmp_path / "other", 1, f"train.init={init}")) == 1
        assert error in capsys.readouterr().err
    assert main(["export", str(run), "-o", str(file), "--average", "2", "--lm", "x"]) == 1
    assert "--average and --lm cannot be used for a neural language model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("data.train=[]", "data.train = [] is not allowed: it must be one text file or more"),
        ("data.rows=0", "data.rows = 0 is not allowed"),
        ("model.dim=450", "model.dim = 450 must be a multiple of 2 * model.num_heads, 4"),
        ("tokenizer.kind=bpe", "tokenizer.kind = 'bpe' must be wordpiece"),
        ("augment.speeds=[1]", "unknown key 'augment'"),
        ("data.train=nothing.txt", "nothing.txt"),
        ("data.train=[a.txt,a.txt*0.5]", "data.train names the same file or folder more than once: a.txt a.txt"),
        ("task=speech", "task = 'speech' is not allowed: it must be one of recognizer, neural_lm, punctuation"),
    ],
)
def test_what_cannot_work_is_named(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, error: str
) -> None:
    assert main(command(text_file, tmp_path / "run", 1, option)) == 1
    assert error in capsys.readouterr().err


def test_a_run_of_another_task_is_refused(text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    trained(text_file, run, 1)
    assert main(["train", "punctuation", f"data.train={text_file}", f"train.output={run}", "--resume"]) == 1
    assert "is a checkpoint of neural_lm, not of punctuation" in capsys.readouterr().err
    assert main(["average", str(run), "-o", str(tmp_path / "mean.safetensors")]) == 1
    assert "is a checkpoint of neural_lm, not of recognizer" in capsys.readouterr().err


def test_the_cost_of_a_training_on_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Six operations for each weight, and those of attention; the table of pieces counts once."""
    assert main(["train", "neural-lm", "--dry-run", "--on", "h100"]) == 0
    output = capsys.readouterr().out
    assert "6000 steps of 12288 pieces: 74 million; 0.00" in output and "h100" in output


PEAK_OF_LONG_TREE = """
import resource, sys
from asr.export.neural_lm import example_tree
from asr.recipe import load_recipe
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


def test_a_missing_package_is_named_with_its_extra(
    text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(command(text_file, tmp_path / "run", 1, "train.init=bundled")) == 1
    error = capsys.readouterr().err
    assert "asr train needs more packages (import of onnx" in error and "[train]" in error


def test_what_is_not_a_language_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"config": {}}, path)
    with pytest.raises(ModelError):
        NeuralLmFile(path)
