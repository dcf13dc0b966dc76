"""`asr average`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from support.checkpoints import TOKENS, checkpoint_of_step

from asr.cli import main
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import load_pretrained
from asr.training.pretrained import with_new_layers


def saved(path: Path, step: int, added: float) -> Path:
    checkpoint = checkpoint_of_step(step)
    checkpoint.average = {name: value + added for name, value in checkpoint.average.items()}
    checkpoint.training["history"] = [{"name": "WER", "values": {"full": 0.25}}]
    checkpoint.save(path)
    return path


def test_shares_weigh_the_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = (saved(tmp_path / f"{step}.pt", step, added) for step, added in ((1, 0.0), (2, 4.0), (3, 20.0)))
    output = tmp_path / "mean.safetensors"
    assert main(["average", f"{one}*0.5", f"{two}*1", f"{three}*0.5", "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}: 25 % {one}, 50 % {two}, 25 % {three}\n"
    start, mean = checkpoint_of_step(1), load_pretrained(output)
    assert all(torch.allclose(mean.weights[name], value + 7, atol=1e-5) for name, value in start.average.items())
    assert (mean.training["steps"], mean.training["audio_hours"], "wer" in mean.training) == (6, 4.5, False)
    assert main(["average", str(output), str(one), "-o", str(output)]) == 1
    assert f"{output} is also an input, which would be replaced" in capsys.readouterr().err
    second = tmp_path / "second.safetensors"
    assert main(["average", str(output), str(one), "-o", str(second)]) == 0  # means can be averaged again
    assert torch.allclose(load_pretrained(second).weights["ctc.bias"], start.average["ctc.bias"] + 3.5)


def test_error_rates_of_the_sources_are_dropped(tmp_path: Path) -> None:
    path, output = tmp_path / "phones.pt", tmp_path / "mean.safetensors"
    checkpoint = checkpoint_of_step(1, ("A", "B"))
    checkpoint.training["history"] = [{"name": "PER", "values": {"full": 0.25}}]
    checkpoint.save(path)
    assert load_pretrained(path).training["phone_error_rate"] == {"full": 0.25}
    assert main(["average", str(path), str(path), "-o", str(output)]) == 0
    assert not {"wer", "phone_error_rate"} & load_pretrained(output).training.keys()


def test_weights_without_the_running_mean_count_as_zeros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, other = saved(tmp_path / "plain.pt", 1, 0.0), checkpoint_of_step(2)
    model = dataclasses.replace(other.config.model, running_mean=True)
    speaker = {f"encoder.speaker.{name}.weight": torch.full(shape, 2.0) for name, shape in speaker_maps(model.dim)}
    adapted = dataclasses.replace(
        other,
        config=dataclasses.replace(other.config, model=model),
        weights=other.weights | speaker,
        average=other.average | speaker,
    )
    adapted.save(tmp_path / "adapted.pt")
    output = tmp_path / "mean.safetensors"
    assert main(["average", str(tmp_path / "adapted.pt"), f"{plain}*3", "-o", str(output)]) == 0
    mean = load_pretrained(output)
    assert all(bool((mean.weights[name] == 0.5).all()) for name in speaker)
    assert main(["average", str(plain), str(tmp_path / "adapted.pt"), "-o", str(output)]) == 1
    assert "model.running_mean is True there, False here" in capsys.readouterr().err


def test_an_encoder_with_fewer_layers_grows_first(tmp_path: Path) -> None:
    small, large, output = (
        saved(tmp_path / "small.pt", 1, 0.0),
        tmp_path / "large.safetensors",
        tmp_path / "mean.safetensors",
    )
    grown = with_new_layers(load_pretrained(small), 3)
    dataclasses.replace(grown, weights={name: value + 4 for name, value in grown.weights.items()}).save(large)
    assert main(["average", str(large), f"{small}*3", "-o", str(output)]) == 0
    mean = load_pretrained(output)
    assert mean.config.model.encoder_layers == 3
    assert all(torch.allclose(mean.weights[name], value + 1, atol=1e-5) for name, value in grown.weights.items())
    assert main(["average", str(small), str(large), "-o", str(output)]) == 1  # the first sets the number of layers


def speaker_maps(dim: int) -> tuple[tuple[str, tuple[int, int]], ...]:
    return ("to_features", (80, 80)), ("to_layers", (dim, 80))


def test_the_output_is_a_file_for_further_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "a.pt", 1, 0.0)
    for output, message in (("mean.pt", "must end in .safetensors"), ("no/mean.safetensors", "no folder")):
        assert main(["average", str(path), str(path), "-o", str(tmp_path / output)]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("share", ["0", "-1", "half", "nan", "inf"])
def test_odd_shares_are_refused(share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "a.pt", 1, 0.0)
    assert main(["average", str(path), f"{path}*{share}", "-o", str(tmp_path / "mean.safetensors")]) == 1
    assert "the share after * must be a number above 0" in capsys.readouterr().err
    assert not (tmp_path / "mean.safetensors").exists()


def test_other_networks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = saved(tmp_path / "a.pt", 1, 0.0), tmp_path / "b.pt"
    checkpoint = checkpoint_of_step(2)
    checkpoint.tokenizer = Tokenizer("char", (*TOKENS[:-1], "C"))
    checkpoint.save(other)
    assert main(["average", str(path), str(other), "-o", str(tmp_path / "mean.safetensors")]) == 1
    assert f"{other} has different tokens than {path}: they cannot be averaged" in capsys.readouterr().err
    for saved_to, phones in ((path, ("A", "B")), (other, ("B", "A"))):
        checkpoint_of_step(1, phones).save(saved_to)
    assert main(["average", str(path), str(other), "-o", str(tmp_path / "mean.safetensors")]) == 1
    assert f"{other} has different phones than {path}: they cannot be averaged" in capsys.readouterr().err
    shape = dataclasses.replace(checkpoint.config.model, activation="gelu")
    dataclasses.replace(checkpoint, config=dataclasses.replace(checkpoint.config, model=shape)).save(other)
    assert main(["average", str(path), str(other), "-o", str(tmp_path / "mean.safetensors")]) == 1
    assert "model.activation is 'gelu' there" in capsys.readouterr().err
