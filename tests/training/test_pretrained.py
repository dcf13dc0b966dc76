"""Initial weights: their file, damaged files, and networks with added tokens and layers."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import shutil
from pathlib import Path

import onnx
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from support.checkpoints import checkpoint_of_step

from asr.cli import main
from asr.config import Config, ModelConfig, TokenizerConfig
from asr.export.write import export_model, in_half_precision, with_checksum
from asr.model.model import AsrModel, with_vocab
from asr.recipe import load_config
from asr.runtime.onnx_decoder import decoder_beside
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.checkpoint import Checkpoint, checkpoint_path, load_pretrained
from asr.training.pretrained import HEADER, CheckpointError, Pretrained, with_new_layers
from asr.training.train import Trainer


@pytest.fixture
def pretrained(checkpoint: Checkpoint) -> Pretrained:
    weights = {name: value.clone() for name, value in checkpoint.average.items()}
    return dataclasses.replace(checkpoint.pretrained(), weights=weights, license="CC0-1.0")


def test_a_saved_file_holds_everything_to_the_bit(pretrained: Pretrained, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    pretrained.weights["encoder.layers.0.attention.qkv.weight"][0, 0] = 1e-3  # float16 has no such number
    pretrained.weights["ctc.weight"][:] = torch.randn(pretrained.weights["ctc.weight"].shape).half().float()
    pretrained.save(path)
    loaded = load_pretrained(path)
    assert loaded.weights.keys() == pretrained.weights.keys()
    for name, value in pretrained.weights.items():
        assert loaded.weights[name].dtype == torch.float32 and torch.equal(loaded.weights[name], value), name
    for name in ("config", "tokenizer", "training", "license"):
        assert getattr(loaded, name) == getattr(pretrained, name), name
    stored = load_file(path)
    assert stored["ctc.weight"].dtype == torch.float16
    assert stored["encoder.layers.0.attention.qkv.weight"].dtype == torch.float32
    second = tmp_path / "second.safetensors"
    loaded.save(second)
    assert second.read_bytes() == path.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {path.name, second.name}


def test_weights_of_a_version_with_other_keys_keep_their_network(
    pretrained: Pretrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = pretrained.config.to_dict()
    values["data"]["num_buckets"] = 20
    monkeypatch.setattr(Config, "to_dict", lambda self: values)
    pretrained.save(tmp_path / "weights.safetensors")
    loaded = load_pretrained(tmp_path / "weights.safetensors")
    assert loaded.config == Config(model=pretrained.config.model, tokenizer=pretrained.config.tokenizer)


def test_units_that_need_rules_are_kept(tmp_path: Path) -> None:
    """The SentencePiece scores, which an exported graph does not have."""
    tokenizer = Tokenizer.train("bpe", ["SIX SEVEN EIGHT NINE", "SEVEN SIX"] * 20, 20)
    checkpoint = checkpoint_of_step(3)
    config = dataclasses.replace(checkpoint.config, tokenizer=TokenizerConfig("bpe", 20))
    weights = AsrModel(with_vocab(config.model, tokenizer.vocab_size)).state_dict()
    Pretrained(config, tokenizer, weights).save(tmp_path / "bpe.safetensors")
    loaded = load_pretrained(tmp_path / "bpe.safetensors")
    assert loaded.tokenizer == tokenizer and loaded.tokenizer.encode("SEVEN NINE") == tokenizer.encode("SEVEN NINE")


def test_damage_anywhere_in_a_file_is_found(pretrained: Pretrained, tmp_path: Path) -> None:
    path, broken = tmp_path / "weights.safetensors", tmp_path / "broken.safetensors"
    pretrained.save(path)
    data = path.read_bytes()
    generator = random.Random(0)
    places = [generator.randrange(len(data)) for _ in range(40)] + [generator.randrange(4000) for _ in range(60)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << generator.randrange(8)
        broken.write_bytes(damaged)
        try:
            loaded = load_pretrained(broken)
        except CheckpointError as error:
            assert str(broken) in str(error)
        else:  # one space more or less in the header
            assert loaded.config == pretrained.config and loaded.tokenizer == pretrained.tokenizer
            assert all(torch.equal(loaded.weights[name], value) for name, value in pretrained.weights.items())
    for length in (0, 7, 100, len(data) - 1):
        broken.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"broken\.safetensors"):
            load_pretrained(broken)
    with pytest.raises(CheckpointError, match=r"cannot read weights .*none\.safetensors: No such file"):
        load_pretrained(tmp_path / "none.safetensors")


def test_files_of_others_are_refused(pretrained: Pretrained, tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    header = {"format_version": 1, "config": {}, "tokenizer": {}, "training": {}, "license": ""}
    for tensors, metadata in (
        ({}, None),
        (pretrained.weights, None),
        ({"a": torch.zeros(2, dtype=torch.bfloat16)}, {HEADER: json.dumps(header)}),
        ({}, {HEADER: "[]"}),
        ({}, {HEADER: "no JSON"}),
        ({}, {HEADER: json.dumps({**header, "format_version": 2})}),
    ):
        save_file(tensors, path, metadata)
        with pytest.raises(CheckpointError, match=r"other\.safetensors"):
            load_pretrained(path)


def test_a_later_format_is_refused(pretrained: Pretrained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "later.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr("asr.training.pretrained.FORMAT_VERSION", 2)
        pretrained.save(path)
    with pytest.raises(CheckpointError, match=r"later\.safetensors .* this version reads weights of format 1"):
        load_pretrained(path)


def test_exported_float32_file_has_the_exact_weights(
    exported: Path, checkpoint: Checkpoint, quick: None, tmp_path: Path
) -> None:
    loaded, pretrained = load_pretrained(exported), checkpoint.pretrained()
    rounded = in_half_precision(pretrained.model()).state_dict()
    assert loaded.weights.keys() == rounded.keys()
    for name, value in rounded.items():
        assert torch.equal(loaded.weights[name], value), name
    assert (loaded.tokenizer, loaded.training) == (pretrained.tokenizer, pretrained.training)
    assert loaded.license == "CC-BY-4.0" and loaded.config.model == pretrained.config.model
    assert loaded.config.data.train == ("some",)  # without the folder of the machine that trained it
    again = export_model(loaded, tmp_path / "again.onnx", chunk_size=8, left_context=32, rescore_ctc_weight=0.25)
    assert again.path.read_bytes() == exported.read_bytes()


def test_exported_files_without_trainable_weights_are_refused(
    exported: Path, exported_int8: Path, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, f"train.init={exported_int8}"]) == 1
    assert f"{exported_int8} has weights in int8, which are only for inference" in capsys.readouterr().err
    model = onnx.load(exported)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    config = json.loads(properties["config"])
    broken = tmp_path / "broken.onnx"
    with pytest.raises(CheckpointError, match=r"broken\.decoder\.onnx: No such file"):
        load_pretrained(Path(shutil.copy(exported, broken)))
    shutil.copy(decoder_beside(exported), decoder_beside(broken))
    for section, key, value, reason in (
        ("tokenizer", "kind", "bpe", "a bpe tokenizer needs a model"),
        ("model", "dim", 64, "do not match its configuration"),
        ("model", "dim", "wide", "model.dim"),
    ):
        changed = json.dumps({**config, section: {**config[section], key: value}})
        onnx.helper.set_model_props(model, {**properties, "config": changed})
        broken.write_bytes(with_checksum(model))
        with pytest.raises(CheckpointError, match=rf"broken\.onnx has no weights for training: .*{reason}"):
            load_pretrained(broken)
    broken.write_bytes(exported.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"broken\.onnx"):
        load_pretrained(broken)


@pytest.mark.parametrize(
    ("part", "reason"), [("weight", "not finite numbers, in ctc.bias"), ("shape", "do not match its configuration")]
)
def test_weights_of_other_shapes_or_nan_are_refused(
    pretrained: Pretrained, tmp_path: Path, part: str, reason: str
) -> None:
    path = tmp_path / "odd.safetensors"
    if part == "shape":
        del pretrained.weights["phone_ctc.bias"]
    else:
        pretrained.weights["ctc.bias"][0] = float("nan")
    pretrained.save(path)
    with pytest.raises(CheckpointError, match=rf"odd\.safetensors .*{reason}"):
        load_pretrained(path)


def test_checkpoint_with_nan_is_not_used(
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


def relabeled(data_set: Path, folder: Path, letter: str, other: str) -> Path:
    """The data set with an additional letter in its transcripts."""
    shutil.copytree(data_set, folder)
    head, *rows = (folder / "utterances.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    fields = [row.split("\t") for row in rows]
    changed = ["\t".join((*each[:-1], each[-1].replace(letter, other))) for each in fields]
    (folder / "utterances.tsv").write_text("".join((head, *changed)), encoding="utf-8")
    return folder


def test_letters_unknown_to_the_model_need_new_tokens(
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
        assert "letters that the model to start from does not write: 'Ä' (" in error and "data.new_tokens=true" in error
    assert main([*arguments, *options, "data.new_tokens=true"]) == 0
    assert "new tokens: Ä" in capsys.readouterr().out
    grown = Checkpoint.load(checkpoint_path(tmp_path / "second", 1))
    num_units = first.tokenizer.vocab_size
    assert grown.tokenizer.tokens == (*first.tokenizer.tokens, "Ä")
    for name, value in first.average.items():
        after = grown.weights[name]
        assert torch.allclose(after[tuple(map(slice, value.shape))], value, atol=1e-6), name
    assert grown.weights["ctc.weight"].shape[0] == grown.weights["decoder.embedding.weight"].shape[0] == num_units + 1
    assert grown.weights["ctc.weight"][num_units].std() > 0.01


def test_new_tokens_need_initial_weights(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "data.new_tokens=true"]) == 1
    assert "data.new_tokens adds letters to the weights of train.init, which is empty" in capsys.readouterr().err


def test_pieces_of_words_cannot_be_added(arguments: list[str], tones: tuple[Path, Path], tmp_path: Path) -> None:
    pieces = [*arguments, "tokenizer.kind=bpe", "tokenizer.vocab_size=20", "train.max_steps=1"]
    assert main(pieces) == 0
    umlauts = relabeled(tones[0], tmp_path / "umlauts", "F", "Ä")
    options = [f"data.train={umlauts}", f"train.init={tmp_path / 'run'}", f"train.output={tmp_path / 'second'}"]
    with pytest.raises(ValueError, match=r"data\.new_tokens adds letters, but the model .* writes bpe tokens"):
        Trainer(load_config(pieces[1], [*pieces[2:], *options, "data.new_tokens=true"]), False, Console())


def test_weights_keep_their_kind_of_units(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    again = [*arguments, "tokenizer.vocab_size=20", "train.max_steps=2"]
    new = [f"train.init={tmp_path / 'run'}", f"train.output={tmp_path / 'second'}"]
    for options in (["--resume"], new):
        assert main([*again, *options, "tokenizer.kind=bpe"]) == 1
        error = " ".join(capsys.readouterr().err.split())
        assert f"the weights of {tmp_path / 'run'} have other tokens" in error
        assert "tokenizer.kind is 'char' there, 'bpe' here. Keep theirs with tokenizer.kind=char, or train" in error
        assert main([*again, *options]) == 0, "for letters, the number of tokens is that of the text"


def test_weights_keep_their_number_of_pieces(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = [*arguments, "tokenizer.kind=bpe", "train.max_steps=1"]
    assert main([*pieces, "tokenizer.vocab_size=20"]) == 0
    capsys.readouterr()
    assert main([*pieces, "tokenizer.vocab_size=24", "--resume", "train.max_steps=2"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "tokenizer.vocab_size is 20 there, 24 here. Keep theirs with tokenizer.vocab_size=20, or" in error


@pytest.mark.parametrize("conditioned", [(), (1,), (1, 2)])
@pytest.mark.parametrize("num_layers", [3, 4, 5, 8])
def test_new_layers_change_nothing_until_they_are_trained(num_layers: int, conditioned: tuple[int, ...]) -> None:
    shape = ModelConfig(
        dim=16,
        num_heads=2,
        encoder_layers=3,
        encoder_ff_dim=32,
        decoder_ff_dim=32,
        condition_layers=conditioned,
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
        outputs, others = (m.encoder(m.ctc, features, lengths, ((4, 8),)) for m in (model, deeper))
    assert torch.equal(outputs[0], others[0])
    for inner, other in zip(outputs[2], others[2], strict=True):
        assert not conditioned or torch.equal(inner, other)  # else they are those of the middle layer
    weights = [layer.feed_forward.down.weight for layer in deeper.encoder.layers]
    assert sum(not weight.any() for weight in weights) == num_layers - 3
    loss = deeper.encoder(deeper.ctc, features, lengths, ((4, 8),))[0].square().mean()
    loss.backward()
    assert all(layer.feed_forward.down.weight.grad.any() for layer in deeper.encoder.layers)


def test_shallower_model_grows_its_encoder(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "train.max_steps=1"]) == 0
    options = [*arguments, f"train.output={tmp_path / 'second'}", f"train.init={tmp_path / 'run'}"]
    grown = [*options, "model.encoder_layers=5"]
    assert main([*grown, "train.max_steps=1"]) == 0
    assert "the encoder grows from 2 to 5 layers" in capsys.readouterr().out
    assert "encoder.layers.4.feed_forward.up.weight" in Checkpoint.load(tmp_path / "second" / "checkpoint-1.pt").weights
    assert main([*grown, "train.max_steps=2", "--resume"]) == 0
    smaller = [f"train.output={tmp_path / 'third'}", "model.encoder_layers=1", "model.condition_layers=[]"]
    assert main([*options, *smaller]) == 1
    assert "model.encoder_layers is 2 there, 1 here" in " ".join(capsys.readouterr().err.split())


def test_layers_with_post_norm_do_not_grow() -> None:
    config = Config(model=ModelConfig(norm="post"))
    with pytest.raises(ValueError, match=r"model\.norm is 'post': only .* model\.norm=pre can grow"):
        with_new_layers(Pretrained(config, Tokenizer("char", (*SPECIAL_TOKENS, "A")), {}), 20)


def test_a_run_keeps_its_initial_weights(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "run", tmp_path / "second"
    assert main([*arguments, "train.max_steps=1"]) == 0
    again = [*arguments, "--resume", f"train.output={second}"]
    assert main([*again, "train.max_steps=1", f"train.init={first}"]) == 0
    assert main([*again, "train.max_steps=2"]) == 0
    assert main([*again, "train.max_steps=3", f"train.init={first}"]) == 0
    assert Checkpoint.load(checkpoint_path(second, 3)).config.train.init == str(first)
    capsys.readouterr()
    for run, former in ((first, ""), (second, str(first))):
        assert main([*again, "train.max_steps=4", f"train.output={run}", "train.init=bundled"]) == 1
        error = " ".join(capsys.readouterr().err.split())
        assert f"train.init = 'bundled' cannot be loaded into {run}, " in error
        assert f"train.init={former!r}: give that to continue it, or choose another train.output" in error
        assert not checkpoint_path(run, 4).exists()
