"""Training end to end: it learns, it resumes to the bit, it survives interruption, it says what is wrong."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tones import prepare_tones

from asr.checkpoint import Checkpoint, CheckpointError, checkpoint_path, checkpoints, resolve
from asr.cli import main
from asr.config import ChunkConfig, LossConfig, ModelConfig, OptimConfig
from asr.model import AsrModel, consistency_loss
from asr.onnx_model import bundled_model
from asr.optim import WeightAverage, learning_rate
from asr.pretrained import load_pretrained
from asr.train import draw_chunk

RECIPE = """
model: {dim: 48, num_heads: 2, encoder_layers: 2, encoder_ff_dim: 96, decoder_layers: 1, decoder_ff_dim: 96,
        subsampling_channels: 8, dropout: 0.05}
tokenizer: {kind: char}
data: {max_batch_s: 16, max_utterance_s: 8, min_utterance_s: 0.1, num_buckets: 2, num_workers: 0}
augment: {num_time_masks: 1, max_time_frames: 4, max_freq_bins: 4, time_warp: 0, offset_probability: 0,
          concat_probability: 0, silence_probability: 0}
optim: {lr: 3.0e-3, warmup_steps: 20, ema_decay: 0.9}
train: {valid_every: 1000, save_every: 1000, precision: fp32}
"""


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tones")
    return prepare_tones(folder, 120, "train"), prepare_tones(folder, 20, "valid", first_seed=1000)


@pytest.fixture
def arguments(tones: tuple[Path, Path], tmp_path: Path) -> list[str]:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    return [
        "train",
        str(recipe),
        f"data.train={tones[0]}",
        f"data.valid={tones[1]}",
        f"train.output={tmp_path / 'run'}",
    ]


def test_a_small_model_learns_the_toy_language(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=260", "train.valid_every=260"]) == 0
    history = Checkpoint.load(tmp_path / "run" / "best.pt").training["history"]
    assert set(history[0]["wer"]) == {"full", "640ms", "320ms"}
    assert max(history[0]["wer"].values()) < 0.1
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.parametrize(
    "extra", [[], ["loss.cr_ctc_weight=0.2", "loss.scheduled_sampling=0.2", "train.precision=bf16"]]
)
def test_resume_is_exact(arguments: list[str], tmp_path: Path, extra: list[str]) -> None:
    arguments = [*arguments, *extra, "train.save_every=7"]
    assert main([*arguments, "train.max_steps=24", f"train.output={tmp_path / 'straight'}", "optim.schedule=noam"]) == 0
    for steps in (7, 16, 24):  # 16 is in the second epoch
        assert main([*arguments, "optim.schedule=noam", "--resume", f"train.max_steps={steps}"]) == 0
    straight = Checkpoint.load(checkpoint_path(tmp_path / "straight", 24))
    resumed = Checkpoint.load(checkpoint_path(tmp_path / "run", 24))
    assert straight.training["epoch"] >= 1
    for name, value in straight.weights.items():
        assert torch.equal(value, resumed.weights[name]), name
        assert torch.equal(straight.average[name], resumed.average[name]), name


def test_interruption_saves_and_says_how_to_go_on(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "asr.cli", *arguments, "train.max_steps=100000", "data.num_workers=1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "run").glob("tensorboard/*")) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "--resume" in output and "Traceback" not in output
    (saved,) = checkpoints(tmp_path / "run")
    assert Checkpoint.load(saved).training["step"] > 0


def test_two_processes_train_one_model(arguments: list[str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "--standalone",
        "-m",
        "asr.cli",
    ]
    result = subprocess.run(
        [*command, *arguments, "train.max_steps=6", "train.valid_every=6"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    checkpoint = Checkpoint.load(tmp_path / "run" / "checkpoint-6.pt")
    assert checkpoint.training["world_size"] == 2
    assert checkpoint.training["history"][0]["step"] == 6


def test_a_second_run_does_not_overwrite_the_first(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    assert main([*arguments, "train.max_steps=1"]) == 1
    assert "--resume" in capsys.readouterr().err


def test_init_takes_the_weights_of_another_run(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=2"]) == 0
    second = tmp_path / "second"
    assert (
        main(
            [
                *arguments,
                "train.max_steps=1",
                f"train.output={second}",
                f"train.init={tmp_path / 'run'}",
                "optim.lr=1e-9",
            ]
        )
        == 0
    )
    before = Checkpoint.load(checkpoint_path(tmp_path / "run", 2)).average
    after = Checkpoint.load(checkpoint_path(second, 1)).weights
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_init_from_an_exported_file_recovers_every_weight(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=2"]) == 0
    exported = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "run"), "-o", str(exported)]) == 0
    checkpoint, pretrained = Checkpoint.load(resolve(tmp_path / "run")), load_pretrained(exported)
    assert pretrained.tokenizer == checkpoint.tokenizer
    assert pretrained.weights.keys() == checkpoint.average.keys()
    for name, value in checkpoint.average.items():  # the decoder travels in half precision
        assert torch.allclose(pretrained.weights[name], value, rtol=1e-3, atol=1e-5), name


def test_the_bundled_model_can_be_trained_further(tones: tuple[Path, Path], tmp_path: Path) -> None:
    """Its letters are a superset of the toy language's."""
    output = tmp_path / "mine"
    arguments = [f"data.train={tones[0]}", f"train.output={output}", "train.init=bundled", "data.curriculum_epochs=0"]
    assert main(["train", "tiny", *arguments, "data.min_utterance_s=0.1", "train.max_steps=1"]) == 0
    assert Checkpoint.load(checkpoint_path(output, 1)).tokenizer.vocab_size == 31


def test_a_quantised_file_is_no_start(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, f"train.init={bundled_model('int8')}"]) == 1
    assert "quantised" in capsys.readouterr().err


def test_init_of_another_shape_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    other = [
        *arguments,
        f"train.output={tmp_path / 'other'}",
        f"train.init={tmp_path / 'run'}",
        "model.dim=64",
    ]
    assert main(other) == 1
    assert "do not fit the model section" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.max_utterance_s=0.15", "no training data"),
        ("optim.learning_rate=1", "did you mean"),
        ("data.train=nowhere.jsonl.gz", "nowhere.jsonl.gz"),
    ],
)
def test_what_cannot_work_is_one_clear_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    assert main([*arguments, override]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_damaged_checkpoints_are_refused(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    path = checkpoint_path(tmp_path / "run", 1)
    content = path.read_bytes()
    broken = tmp_path / "broken.pt"
    for cut in [0, 1, *range(len(content) // 8, len(content), len(content) // 8)]:
        broken.write_bytes(content[:cut])
        with pytest.raises(CheckpointError, match=r"broken\.pt"):
            Checkpoint.load(broken)
    torch.save({"format_version": 99}, broken)
    with pytest.raises(CheckpointError, match="format 99"):
        Checkpoint.load(broken)
    torch.save({"format_version": 1, "code": Evil()}, broken)
    with pytest.raises(CheckpointError):
        Checkpoint.load(broken)
    assert not (tmp_path / "evil").exists()


class Evil:
    """Runs code when unpickled by a loader that allows it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("evil",)


def test_failed_save_keeps_the_old_checkpoint(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    path = checkpoint_path(tmp_path / "run", 1)
    checkpoint, before = Checkpoint.load(path), path.read_bytes()

    def full_disk(values: object, file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise RuntimeError("unexpected pos, no space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.glob("*.part")] == []


def test_learning_rate_schedules() -> None:
    for schedule in ("noam", "linear", "cosine"):
        config = OptimConfig(lr=1.0, warmup_steps=10, schedule=schedule)
        rates = [learning_rate(config, step, 100) for step in range(1, 101)]
        assert rates[4] == pytest.approx(0.5) and max(rates) == rates[9] == pytest.approx(1.0)
        assert all(a > b for a, b in itertools.pairwise(rates[9:]))
    assert rates[99] == pytest.approx(0, abs=1e-6)
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=10, schedule="noam"), 40, 100) == pytest.approx(0.5)


def test_chunks_are_drawn_by_seed_and_cover_the_choices() -> None:
    config = ChunkConfig(full_probability=0.5, sizes=(4, 8), left_contexts=(16, -1))
    draws = [draw_chunk(config, f"1 {step}") for step in range(200)]
    assert set(draws) == {(0, -1), (4, 16), (4, -1), (8, 16), (8, -1)}
    assert draws == [draw_chunk(config, f"1 {step}") for step in range(200)]
    assert 60 < draws.count((0, -1)) < 140


def test_weight_average_follows_the_weights() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    average = WeightAverage(model, 0.5)
    before = average.weights["weight"].clone()
    with torch.no_grad():
        model.weight += 1
    average.update(model)
    assert torch.allclose(average.weights["weight"], before + (1 - 2 / 11))


def test_losses_ignore_what_padding_holds() -> None:
    torch.manual_seed(0)
    model = AsrModel(
        ModelConfig(dim=32, num_heads=2, encoder_layers=2, encoder_ff_dim=64, decoder_ff_dim=64, vocab_size=10)
    ).eval()
    features, num_frames = torch.randn(2, 120, 80), torch.tensor([120, 64])
    targets, lengths = torch.tensor([[3, 4, 5, 5], [6, 7, -1, -1]]), torch.tensor([4, 2])
    losses = model.losses(features, num_frames, targets, lengths, LossConfig())
    features[1, 64:] = 100.0
    again = model.losses(features, num_frames, targets, lengths, LossConfig())
    assert torch.allclose(losses.total, again.total, atol=1e-5)
    alone = [
        model.losses(
            features[i : i + 1, :n],
            num_frames[i : i + 1],
            targets[i : i + 1, :u],
            lengths[i : i + 1],
            LossConfig(),
        )
        for i, (n, u) in enumerate(((120, 4), (64, 2)))
    ]
    assert torch.allclose(losses.total * 6, alone[0].total * 4 + alone[1].total * 2, atol=1e-3)


def test_consistency_loss_is_zero_for_equal_views_only() -> None:
    view = torch.randn(2, 5, 7).log_softmax(-1)
    lengths = torch.tensor([5, 3, 5, 3])
    assert consistency_loss(torch.cat((view, view)), lengths) == pytest.approx(0, abs=1e-6)
    other = view.clone()
    other[1, 3:] = torch.randn(2, 7).log_softmax(-1)  # beyond the end of the second utterance
    assert consistency_loss(torch.cat((view, other)), lengths) == pytest.approx(0, abs=1e-6)
    other[1, 2] = torch.randn(7).log_softmax(-1)
    assert consistency_loss(torch.cat((view, other)), lengths) > 1e-3


@torch.no_grad()
def test_views_of_an_utterance_have_chunks_of_their_own() -> None:
    torch.manual_seed(0)
    model = AsrModel(
        ModelConfig(dim=32, num_heads=2, encoder_layers=2, encoder_ff_dim=64, decoder_ff_dim=64, vocab_size=10)
    ).eval()
    features, num_frames = torch.randn(1, 120, 80), torch.tensor([120])
    targets, lengths = torch.tensor([[3, 4, 5, 5]]), torch.tensor([4])
    full, chunked = (
        model.losses(features, num_frames, targets, lengths, LossConfig(), [chunk]) for chunk in ((0, -1), (4, 0))
    )
    assert abs(full.ctc - chunked.ctc) > 1e-3
    twice = (features.repeat(2, 1, 1), num_frames.repeat(2), targets.repeat(2, 1), lengths.repeat(2))
    both = model.losses(*twice, LossConfig(cr_ctc_weight=0.2), [(0, -1), (4, 0)])
    assert both.ctc.item() == pytest.approx((full.ctc + chunked.ctc).item() / 2, rel=1e-5)
    assert both.consistency > 1e-4
    same = model.losses(*twice, LossConfig(cr_ctc_weight=0.2), [(4, 0), (4, 0)])
    assert same.consistency == pytest.approx(0, abs=1e-6)
