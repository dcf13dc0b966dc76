"""Every bundled recipe from the corpus to captions, on a LibriSpeech tree of a few toy utterances."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.benchmark_module import load_benchmark
from support.synth import write_audio
from support.tones import say, sentence

from asr.cli import main
from asr.model.model import AsrModel, with_vocab
from asr.recipe import RECIPES, load_config
from asr.training.checkpoint import checkpoints

PARTS = ("train-clean-100", "train-clean-360", "train-other-500", "dev-clean", "dev-other")

# Losses, augmentation, tokenizer and schedule of the recipe; sizes and amounts for a test.
SMALL = [
    *("model.dim=32", "model.num_heads=2", "model.encoder_ff_dim=64", "model.decoder_ff_dim=64"),
    *(
        "model.subsampling_channels=4",
        "model.encoder_layers=2",
        "model.condition_layers=[1]",
        "model.decoder_layers=1",
        "tokenizer.vocab_size=12",
    ),
]
SHORT = [
    *("data.max_batch_s=10", "data.max_utterance_s=10", "data.min_utterance_s=0.1", "data.num_rooms=3"),
    *("train.max_steps=2", "train.valid_every=2"),
]
TINY_DATA = ["data.train=data/train-clean-100", "data.valid=data/dev-clean"]

RECIPE_NAMES = load_benchmark("golden_losses").recipes()
RESUMED = "librispeech-960h"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared as the headers of the recipes say; their data sets are in `data` here."""
    folder = tmp_path_factory.mktemp("corpus")
    for number, part in enumerate(PARTS):
        chapter = folder / "LibriSpeech" / part / str(100 + number) / "7"
        lines = []
        for index in range(12):
            id, text = f"{100 + number}-7-{index:04d}", sentence(100 * number + index)
            write_audio(chapter / f"{id}.flac", say(text))
            lines.append(f"{id} {text}\n")
        (chapter / f"{100 + number}-7.trans.txt").write_text("".join(lines))
    prepare = ["prepare", "librispeech", str(folder), "--out", str(folder / "data"), "--jobs", "1"]
    assert main(prepare) == 0
    return folder


@pytest.mark.usefixtures("restore_signals")
@pytest.mark.parametrize("recipe", RECIPE_NAMES)
def test_a_recipe_trains_on_a_corpus(
    recipe: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """test_languages_doc.py goes on to captions."""
    monkeypatch.chdir(corpus)
    config = load_config(recipe)
    data = [] if config.data.train else TINY_DATA
    run = tmp_path / "run"
    small = [] if config.train.init else SMALL  # a run that starts from weights has their size
    train = ["train", recipe, *data, *small, *SHORT, f"train.output={run}"]
    assert main(train) == 0
    assert "resuming" not in capsys.readouterr().out
    if recipe == RESUMED:
        assert main([*train, "--resume", "train.max_steps=3"]) == 0
        assert "resuming at step 2," in capsys.readouterr().out
    assert checkpoints(run)[-1].name == f"checkpoint-{3 if recipe == RESUMED else 2}.pt"


@pytest.mark.parametrize(("recipe", "millions"), [("librispeech-100h", 18.0), ("librispeech-960h", 75.1)])
def test_recipes_have_the_sizes_that_they_state(recipe: str, millions: float) -> None:
    import torch

    config = load_config(recipe)
    with torch.device("meta"):
        model = AsrModel(with_vocab(config.model, config.tokenizer.vocab_size))
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)
    assert f"{millions:.1f} M parameters" in (RECIPES / f"{recipe}.yaml").read_text()
