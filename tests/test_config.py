"""Configuration: unknown or impossible settings are rejected by name; a written recipe reads back unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from asr.config import Config, ConfigError
from asr.recipe import RECIPES, from_dict, load_config, load_recipe, recipe_of


@pytest.mark.parametrize("recipe", sorted(p.stem for p in RECIPES.glob("*.yaml")))
def test_bundled_recipes_are_valid(recipe: str) -> None:
    config = load_recipe(recipe)
    assert recipe_of(config.to_dict()) == config


def test_overrides_take_the_type_of_the_field() -> None:
    config = load_config("tiny", ["optim.lr=1e-4", "data.train=[a, b*0.5]", "chunk.sizes=[4]", "model.norm=post"])
    assert config.optim.lr == 1e-4
    assert config.data.train == ("a", "b*0.5")
    assert config.chunk.sizes == (4,)
    assert config.model.norm == "post"


def test_home_folders_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    config = load_config("tiny", ["train.output=~/runs/a", "data.train=[~/data*0.5, b]", "train.init="])
    assert (config.train.output, config.train.init) == ("/home/ann/runs/a", "")
    assert config.data.train == ("/home/ann/data*0.5", "b")


def test_speeds_have_three_decimals() -> None:
    assert load_config("tiny", ["augment.speeds=[1.005, 0.999]"]).augment.speeds == (1.005, 0.999)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.dimm=3", r"unknown key 'model\.dimm'; did you mean 'model\.dim'"),
        ("modell.dim=3", r"unknown key 'modell'; did you mean 'model'"),
        ("model.dim=190", r"model\.dim = 190 .*multiple of 16"),
        ("model.dim=big", r"model\.dim = 'big' must be of type int"),
        ("model.dim=true", r"model\.dim = True must be of type int"),
        ("model.position=absolute", "rope, relative, sinusoidal, learned, none"),
        ("model.dropout=1.0", r"in \[0, 1\)"),
        ("model.condition_layers=[5, 14]", r"condition_layers = \(5, 14\) .*from 1 to 13"),
        ("data.max_utterance_s=1000", "at most data.max_batch_s"),
        ("data.num_rooms=0", r"data\.num_rooms = 0 is not allowed: it must be at least 1"),
        ("augment.speeds=[1.0005]", r"at most three decimals"),
        ("augment.speeds=[0.4]", r"augment\.speeds = \(0\.4,\) is not allowed: it must be factors in \[0\.5, 2\]"),
        ("augment.speeds=[1.00001]", "at most three decimals"),
        ("augment.room_probability=0.95", r"at most 1 - augment\.telephone_probability"),
        ("optim.cooldown=2", r"optim\.cooldown = 2\.0 is not allowed: it must be in \[0, 1\]"),
        ("train.minutes=-1", r"train\.minutes = -1\.0 is not allowed"),
        ("chunk.sizes=[]", "non-empty"),
        ("optim.betas=[0.9]", "list of 2"),
        ("train.max_steps=0", "at least 1"),
        ("model=3", "must be a mapping"),
        ("model.dim.x=3", "not a section"),
        ("nonsense", "write section.key=value"),
        ("optim.lr=[1", r"the value of 'optim\.lr=\[1' is not YAML"),
        ("optim.lr=" + 5000 * "[", "is not YAML"),
        ("optim={lr: 1, lr: 2}", "the key 'lr' is in this section twice"),
        ("train.seed=-1", r"train\.seed = -1 is not allowed: it must be in \[0, 2\^63\)"),
        ("train.seed=99999999999999999999", r"train\.seed = 99999999999999999999 is not allowed"),
        ("data.max_batch_s=.inf", r"data\.max_batch_s = inf must be finite"),
        ("optim.lr=" + 400 * "9", "must be of type float"),
        ("optim.betas=[0.9,1]", r"optim\.betas = .* two numbers in \[0, 1\)"),
        ("optim.betas=", "must be a list of 2"),
        ("optim.weight_decay=-1", r"optim\.weight_decay = -1\.0 is not allowed: it must be at least 0"),
        ("model.encoder_layers=1000000000", r"model\.encoder_layers = 1000000000 .* at most 1000$"),
        ("model.decoder_layers=1001", "at most 1000$"),
        ("model.dim=1000000000", r"model\.dim = 1000000000 .* at most 65536$"),
        ("model.subsampling_channels=65537", "at most 65536$"),
        ("model.condition_layers=[99]", "layers from 1 to "),
    ],
)
def test_errors_name_value_and_range(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("tiny", [override])


def test_an_empty_value_is_an_empty_list() -> None:
    assert load_config("tiny", ["data.valid="]).data.valid == ()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[1, 2]", b"just text", b"a: [", b"model: {dim: }"])
def test_odd_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError):
        load_config(path)


def test_message_about_a_huge_value_is_short() -> None:
    """Nine levels of lists that YAML's aliases make of a few lines: ten billion values."""
    value: list[object] = 10 * [0]
    for _ in range(9):
        value = 10 * [value]
    with pytest.raises(ConfigError, match=r"model\.dim = \[.* must be of type int, not list") as raised:
        from_dict(Config, {"model": {"dim": value}})
    assert len(str(raised.value)) < 300


def test_a_missing_file_lists_the_recipes() -> None:
    with pytest.raises(ConfigError, match="tiny"):
        load_config("nowhere")


def test_an_empty_override_is_empty_text() -> None:
    assert load_config("finetune").train.init == "bundled"
    assert load_config("finetune", ["train.init=", "data.lexicon="]).train.init == ""
