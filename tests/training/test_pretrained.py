"""Weights to start from: the names in an exported file, and files that lack some or hold numbers that are none."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import pytest
import torch
from conftest import TOKENS
from onnx import numpy_helper
from rich.console import Console

from asr.cli import main
from asr.config import Config, ModelConfig, load_config
from asr.model.model import AsrModel
from asr.runtime.onnx_model import bundled_model
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.checkpoint import Checkpoint, CheckpointError, checkpoint_path
from asr.training.pretrained import Pretrained, load_model, load_pretrained, with_new_layers
from asr.training.train import Trainer

if TYPE_CHECKING:
    from asr.model.model import AsrModel


def test_an_exported_file_holds_every_weight_by_its_name_in_pytorch(tiny_model: AsrModel, tiny_onnx: Path) -> None:
    pretrained, weights = load_pretrained(tiny_onnx), tiny_model.state_dict()
    assert pretrained.tokenizer == Tokenizer("char", TOKENS)
    assert pretrained.weights.keys() == weights.keys()
    for name, value in weights.items():  # to the bit: they are in half precision already
        assert torch.equal(pretrained.weights[name], value), name


def edited(path: Path, target: Path, change: Callable[[onnx.TensorProto], None]) -> Path:
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        change(tensor)
    onnx.save(proto, target)
    return target


def test_a_weight_that_is_no_number_is_named(tiny_onnx: Path, tmp_path: Path) -> None:
    def damage(tensor: onnx.TensorProto) -> None:
        if tensor.name == "model.encoder.layers.1.attention.qkv.bias":
            value = numpy_helper.to_array(tensor).copy()
            value[3] = float("nan")
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))

    path = edited(tiny_onnx, tmp_path / "nan.onnx", damage)
    for load in (load_pretrained, load_model):
        with pytest.raises(
            ValueError, match=r"nan\.onnx .* not finite numbers, in encoder\.layers\.1\.attention\.qkv\.bias"
        ):
            load(path)


def test_a_checkpoint_with_a_weight_that_is_no_number_is_neither_exported_nor_trained_further(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    path = tmp_path / "run" / "checkpoint-1.pt"
    checkpoint = Checkpoint.load(path)
    checkpoint.average["ctc.bias"][0] = float("inf")
    checkpoint.save(tmp_path / "damaged.pt")
    with pytest.raises(CheckpointError, match=r"not finite numbers, in ctc\.bias"):
        Checkpoint.load(tmp_path / "damaged.pt")
    for command in (
        ["export", str(tmp_path / "damaged.pt"), "-o", str(tmp_path / "out.onnx")],
        [*arguments, f"train.init={tmp_path / 'damaged.pt'}", f"train.output={tmp_path / 'second'}"],
    ):
        capsys.readouterr()
        assert main(command) == 1
        assert re.search(r"damaged\.pt .*ctc\.bias", " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out.onnx").exists()


def test_weights_without_the_phone_head_of_their_configuration_are_refused(
    phone_model: tuple[Path, Path], tmp_path: Path
) -> None:
    def hide(tensor: onnx.TensorProto) -> None:
        if tensor.name.startswith("model.phone_ctc."):
            hidden[tensor.name] = tensor.name = tensor.name.replace("model.phone_ctc", "hidden").replace(".", "_")

    hidden: dict[str, str] = {}
    path = edited(phone_model[0], tmp_path / "headless.onnx", hide)
    proto = onnx.load(path)
    for node in proto.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = hidden.get(name, name)
    onnx.save(proto, path)
    with pytest.raises(ValueError, match=r"headless\.onnx .* another network .*phone_ctc\.bias, phone_ctc\.weight"):
        load_pretrained(path)


def relabeled(manifest: Path, folder: Path, letter: str, other: str) -> Path:
    """The data set with another letter in its transcripts."""
    shutil.copytree(manifest.parent, folder)
    copied = folder / manifest.name
    with gzip.open(copied, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        row["supervisions"][0]["text"] = row["supervisions"][0]["text"].replace(letter, other)
    with gzip.open(copied, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return copied


def test_letters_that_the_model_lacks_are_refused_or_become_units(
    arguments: list[str], tones: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=2"]) == 0
    umlauts = relabeled(tones[0], tmp_path / "umlauts", "F", "Ä")
    first = Checkpoint.load(checkpoint_path(tmp_path / "run", 2))
    data = [f"data.train={umlauts}", "optim.lr=1e-9"]
    options = [*data, f"train.init={tmp_path / 'run'}", f"train.output={tmp_path / 'second'}", "train.max_steps=1"]
    for refused in ([*arguments, *options], [*arguments, *data, "--resume", "train.max_steps=4"]):
        assert main(refused) == 1
        error = capsys.readouterr().err
        assert "letters that the model to start from does not write: 'Ä' (" in error and "train.new_units=true" in error
    assert main([*arguments, *options, "train.new_units=true"]) == 0
    assert "new units: Ä" in capsys.readouterr().out
    grown = Checkpoint.load(checkpoint_path(tmp_path / "second", 1))
    num_units = first.tokenizer.vocab_size
    assert grown.tokenizer.tokens == (*first.tokenizer.tokens, "Ä")
    for name, value in first.average.items():
        after = grown.weights[name]
        assert torch.allclose(after[tuple(map(slice, value.shape))], value, atol=1e-6), name
    assert grown.weights["ctc.weight"].shape[0] == grown.weights["decoder.embedding.weight"].shape[0] == num_units + 1
    assert grown.weights["ctc.weight"][num_units].std() > 0.01


def test_pieces_of_words_cannot_be_added(arguments: list[str], tones: tuple[Path, Path], tmp_path: Path) -> None:
    pieces = [*arguments, "tokenizer.kind=bpe", "tokenizer.vocab_size=20", "train.max_steps=1"]
    assert main(pieces) == 0
    umlauts = relabeled(tones[0], tmp_path / "umlauts", "F", "Ä")
    options = [f"data.train={umlauts}", f"train.init={tmp_path / 'run'}", f"train.output={tmp_path / 'second'}"]
    with pytest.raises(ValueError, match=r"train\.new_units adds letters, and the model .* writes bpe units"):
        Trainer(load_config(pieces[1], [*pieces[2:], *options, "train.new_units=true"]), False, Console())


@pytest.mark.parametrize("num_layers", [3, 4, 5, 8])
def test_new_layers_change_nothing_until_they_are_trained(num_layers: int) -> None:
    shape = ModelConfig(
        dim=16,
        num_heads=2,
        encoder_layers=3,
        encoder_ff_dim=32,
        decoder_ff_dim=32,
        condition_layers=(1, 2),
        vocab_size=5,
    )
    torch.manual_seed(0)
    model = AsrModel(shape).eval()
    for parameter in model.parameters():  # biases and the conditioning begin at zero
        torch.nn.init.normal_(parameter, std=0.3)
    tokenizer = Tokenizer("char", (*SPECIAL_TOKENS, "A", "B"))
    grown = with_new_layers(Pretrained(Config(model=shape), tokenizer, model.state_dict()), num_layers)
    deeper = AsrModel(grown.config.model).eval()
    deeper.load_state_dict(grown.weights)
    assert len(deeper.encoder.layers) == num_layers
    features, lengths = torch.randn(2, 80, 80), torch.tensor([80, 61])
    with torch.no_grad():
        outputs, others = (m.encoder(m.ctc, features, lengths, 4, 8) for m in (model, deeper))
    assert torch.equal(outputs[0], others[0])
    for inner, other in zip(outputs[2], others[2], strict=True):
        assert torch.equal(inner, other)
    weights = [layer.feed_forward.down.weight for layer in deeper.encoder.layers]
    assert sum(not weight.any() for weight in weights) == num_layers - 3
    loss = deeper.encoder(deeper.ctc, features, lengths, 4, 8)[0].square().mean()
    loss.backward()
    assert all(layer.feed_forward.down.weight.grad.any() for layer in deeper.encoder.layers)


def test_a_run_from_a_shallower_model_grows_its_encoder(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    options = [*arguments, f"train.output={tmp_path / 'second'}", f"train.init={tmp_path / 'run'}"]
    assert main([*options, "train.max_steps=1", "model.encoder_layers=3"]) == 0
    assert "the encoder grows from 2 to 3 layers" in capsys.readouterr().out
    assert "encoder.layers.2.feed_forward.up.weight" in Checkpoint.load(tmp_path / "second" / "checkpoint-1.pt").weights
    smaller = [f"train.output={tmp_path / 'third'}", "model.encoder_layers=1", "model.condition_layers=[]"]
    assert main([*options, *smaller]) == 1
    assert "model.encoder_layers is 2 there, 1 here" in " ".join(capsys.readouterr().err.split())


def test_layers_with_post_norm_do_not_grow() -> None:
    config = Config(model=ModelConfig(norm="post"))
    with pytest.raises(ValueError, match=r"model\.norm is 'post': only .* model\.norm=pre can grow"):
        with_new_layers(Pretrained(config, Tokenizer("char", (*SPECIAL_TOKENS, "A")), {}), 20)


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


def test_the_bundled_model_can_be_trained_further(tones: tuple[Path, Path], tmp_path: Path) -> None:
    """Its letters are a superset of the toy language's."""
    output = tmp_path / "mine"
    arguments = [f"data.train={tones[0]}", f"train.output={output}", "train.init=bundled", "data.curriculum_epochs=0"]
    assert main(["train", "tiny", *arguments, "data.min_utterance_s=0.1", "train.max_steps=1"]) == 0
    assert Checkpoint.load(checkpoint_path(output, 1)).tokenizer.vocab_size == 31


def test_a_quantized_file_is_no_start(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, f"train.init={bundled_model('int8')}"]) == 1
    assert "quantized" in capsys.readouterr().err


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
    assert "do not fit this configuration: model.dim is" in " ".join(capsys.readouterr().err.split())
