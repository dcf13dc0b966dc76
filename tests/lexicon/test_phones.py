"""Words as phone tokens, and a training run that learns them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.curves import curve
from support.tones import LETTER_HZ

from asr.cli import main
from asr.config import LossConfig
from asr.lexicon import Lexicon
from asr.lexicon.phones import PhoneTokenizer, num_phone_tokens
from asr.lm.packed import load_lm
from asr.training.checkpoint import Checkpoint, checkpoints
from asr.training.inputs import lm_lexicon, phone_denominator

WORDS = Lexicon({"A": (("AH",), ("EY",)), "CAB": (("K", "AE", "B"),), "BACK": (("B", "AE", "K"),)})


def test_denominator_counts_a_repeated_text_once() -> None:
    config, units = LossConfig(denominator_weight=0.9), PhoneTokenizer(WORDS)
    log_probs = torch.randn(1, 9, num_phone_tokens(units.phones)).log_softmax(-1)
    found = []
    for texts in (["CAB A", "BACK"], ["CAB A", "CAB A", "CAB A", "BACK"], ["CAB A", "BACK", "BACK A"]):
        denominator = phone_denominator(config, units, texts)
        assert denominator is not None
        found.append(denominator(log_probs, torch.tensor([9])).item())
    assert found[0] == found[1] != found[2]


def test_phones_have_tokens_for_word_beginning_and_inside() -> None:
    units = PhoneTokenizer(WORDS)
    assert units.phones == ("AE", "AH", "B", "EY", "K")
    assert units.encode("A CAB back") == [3, 9, 2, 6, 5, 2, 10]
    assert units.decode([0, *units.encode("A CAB")]) == "▁AH ▁K AE B"
    assert max(units.encode("CAB BACK")) < num_phone_tokens(units.phones) == 11
    assert units.missing("A TAXI back CAB to") == ["TAXI", "to"]


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    """Words of up to three letters; each letter has its own phone."""
    letters = sorted(LETTER_HZ)
    words = [*letters, *(a + b for a in letters for b in letters)]
    words += [a + b + c for a in letters for b in letters for c in letters]
    path = tmp_path / "lexicon.txt"
    path.write_text("".join(f"{word}  {' '.join(f'T{letter}' for letter in word)}\n" for word in words))
    return path


def test_a_run_cannot_gain_or_lose_its_phones(
    arguments: list[str], lexicon: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (before, now) in enumerate((("", lexicon), (lexicon, ""))):
        run = tmp_path / str(number)
        command = [*arguments, f"train.output={run}", "train.max_steps=1"]
        assert main([*command, f"data.lexicon={before}"]) == 0
        assert main([*command, f"data.lexicon={now}", "--resume"]) == 1
        error = capsys.readouterr().err
        assert f"{run} has been training other weights: continue it with data.lexicon={before}, or start a new" in error


@pytest.mark.slow
def test_training_with_a_lexicon_learns_phones_and_resumes(
    arguments: list[str], lexicon: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"data.lexicon={lexicon}", "loss.phone_weight=0.7", "train.max_steps=160", "train.valid_every=160"]
    assert main([*arguments, *options]) == 0
    (path,) = checkpoints(tmp_path / "run")
    checkpoint = Checkpoint.load(path)
    assert checkpoint.config.model.phones == ("TA", "TB", "TC", "TD", "TE", "TF")
    assert checkpoint.training["history"][-1]["values"]["full"] < 0.5  # of phones; 1.0 without training
    assert checkpoint.pretrained().model().phone_ctc.weight.shape == (13, 48)
    assert main([*arguments, *options, "train.max_steps=161", "--resume"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "step 160: PER full" in printed and "resuming at step 160" in printed


def test_letters_alone_can_go_on_with_phones(arguments: list[str], lexicon: Path, tmp_path: Path) -> None:
    assert main([*arguments, "train.max_steps=2"]) == 0
    (first,) = checkpoints(tmp_path / "run")
    again = [f"train.init={first}", f"train.output={tmp_path / 'phones'}", f"data.lexicon={lexicon}"]
    assert main([*arguments, *again, "train.max_steps=1", "optim.lr=1e-12"]) == 0
    (second,) = checkpoints(tmp_path / "phones")
    before, after = Checkpoint.load(first).average, Checkpoint.load(second).average
    assert set(after) - set(before) == {"phone_ctc.weight", "phone_ctc.bias"}
    assert all(torch.allclose(after[name], value, atol=1e-6) for name, value in before.items())


def test_the_denominator_is_a_part_of_the_loss(arguments: list[str], lexicon: Path, tmp_path: Path) -> None:
    losses = []
    for weight in (0, 0.5):
        options = [f"data.lexicon={lexicon}", "train.max_steps=1", f"loss.denominator_weight={weight}"]
        assert main([*arguments, *options, "train.log_every=1", f"train.output={tmp_path / str(weight)}"]) == 0
        losses.append(curve(tmp_path / str(weight), "phone_ctc")[1])
    assert losses[1] < losses[0] - 0.1


def test_words_without_pronunciation_are_named(
    arguments: list[str], lexicon: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lexicon.write_text("".join(line for line in lexicon.open() if not line.startswith("F ")))
    assert main([*arguments, f"data.lexicon={lexicon}"]) == 1
    assert "lacks 1 words of the data, such as F: add them" in " ".join(capsys.readouterr().err.split())


def test_the_phones_of_a_model_keep_their_order() -> None:
    units = PhoneTokenizer(Lexicon({"A": (("AH",),)}), phones=("K", "AH", "B"))
    assert units.phones == ("K", "AH", "B") and units.encode("A") == [3]
    with pytest.raises(ValueError, match=r"the model lacks the phones AE, EY of the lexicon: it has AH B K"):
        PhoneTokenizer(WORDS, phones=("AH", "B", "K"))


def test_bundled_language_model_pronounces_unknown_words() -> None:
    lexicon = lm_lexicon(load_lm("bundled"), ["the cat", "brankovik"])
    assert lexicon["CAT"] == (("K", "AE", "T"),) and ("DH", "AH") in lexicon["THE"]
    (unknown,) = lexicon["BRANKOVIK"]
    assert unknown[:3] == ("B", "R", "AE") and unknown[-1] == "K"


@pytest.mark.slow
def test_fine_tuning_keeps_or_reports_the_phone_head(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [argument for argument in arguments if argument.startswith("data.")]
    command = ["train", "finetune", *data, "data.min_utterance_s=0.1", "train.max_steps=1", "train.valid_every=5"]
    assert main([*command, f"train.output={tmp_path / 'kept'}"]) == 0
    (path,) = checkpoints(tmp_path / "kept")
    assert len(Checkpoint.load(path).config.model.phones) == 39
    assert main([*command, f"train.output={tmp_path / 'dropped'}", "data.lexicon="]) == 0
    (path,) = checkpoints(tmp_path / "dropped")
    assert Checkpoint.load(path).pretrained().model().phone_ctc is None
    assert "the phone head is dropped" in " ".join(capsys.readouterr().out.split())
