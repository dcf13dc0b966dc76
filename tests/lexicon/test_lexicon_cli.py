"""`asr lexicon`, and the pronunciations in the files of `asr lm`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from asr._core import NgramLm
from asr.cli import main
from asr.lexicon import load_lexicon

DICTIONARY = """\
KA  k a
KI  k i
KIKA  k i k a
MA  m a
MI  m i
MA(2)  m e
MAMI  m a m i
KAMI  k a m i
MIKA  m i k a
"""


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dict.txt, g2p.model trained on it, and text.txt."""
    folder = tmp_path_factory.mktemp("lexicon")
    (folder / "dict.txt").write_text(DICTIONARY)
    (folder / "text.txt").write_text("mami kaka\nka mika 7 kaka\n")
    assert main(["lexicon", "train", str(folder / "dict.txt"), "-o", str(folder / "g2p.model"), "--order", "3"]) == 0
    return folder


def test_training_prints_error_rates_of_words_held_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lexicon", "train", str(files / "dict.txt"), "-o", str(files / "other.model"), "--order", "3"]
    assert main([*command, "--held-out", "0.25"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^2 words held out: \d+\.\d% of them wrong, \d+\.\d% of their phones$", out, re.MULTILINE), out
    assert "other.model: 8 words, 5 phones, 0.0 MB" in out
    assert (files / "other.model").read_bytes() == (files / "g2p.model").read_bytes()  # of all words


def test_every_word_of_a_text_is_pronounced(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lexicon", "make", str(files / "text.txt"), "-o", str(files / "out.txt"), "--dict"]
    assert main([*command, str(files / "dict.txt"), "--g2p", str(files / "g2p.model")]) == 0
    out, err = capsys.readouterr()
    assert "out.txt: 4 words: 3 from the dictionary, 1 by the model" in out
    assert "1 words without pronunciation are left out: 7\n" in err
    made = load_lexicon(files / "out.txt")
    assert made["KAKA"] == (("k", "a", "k", "a"),) and made["KA"] == (("k", "a"),)
    assert main([*command, str(files / "dict.txt"), "--num-words", "1"]) == 0
    assert "left out: KAKA; name a model for them with --g2p" in capsys.readouterr().err


def test_words_are_shown_with_their_source(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dict", str(files / "dict.txt"), "--g2p", str(files / "g2p.model"), "--max-variants", "1"]
    assert main(["lexicon", "show", "ma", "kiki", *options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "MA  m a    from the dictionary",
        "MA(2)  m e    from the dictionary",
        "KIKI  k i k i    by the model",
    ]
    assert main(["lexicon", "show", "kiki", *options[:2]]) == 1
    assert "no pronunciation of KIKI; name a model" in capsys.readouterr().err
    assert main(["lexicon", "show", "KELLY'S", "BRONTËX", "phronsie", "--max-variants", "1"]) == 1
    out, err = capsys.readouterr()
    assert out == "KELLY'S  K EH L IY Z    from the dictionary\nPHRONSIE  F R OW N S IY    by the model\n"
    assert "no pronunciation of BRONTËX\n" in err


def test_model_gives_as_many_pronunciations_as_requested(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.lexicon.make.pronounce", lambda g2p, word, count: [(("k",), -1.0), (("m",), -1.1)][:count])
    options = ["--dict", str(files / "dict.txt"), "--g2p", str(files / "g2p.model")]
    for count in (1, 2):
        assert main(["lexicon", "show", "KIKI", *options, "--max-variants", str(count)]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count


def test_the_language_model_carries_pronunciations(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lm", "train", str(files / "text.txt"), "--order", "2", "-o", str(files / "words.lm")]
    assert main([*command, "--lexicon", str(files / "dict.txt"), "--g2p", str(files / "g2p.model")]) == 0
    assert re.search("1 of 5 words have no pronunciation, .* cannot recognize them: 7", capsys.readouterr().err)
    lm = NgramLm(np.fromfile(files / "words.lm", np.uint8))
    assert lm.phones == ["a", "e", "i", "k", "m"]
    assert lm.pronunciations("kaka") == [["k", "a", "k", "a"]]  # a word in lower case, a lexicon in upper case
    assert lm.g2p == (files / "g2p.model").read_bytes()
    assert main(command) == 0 and not NgramLm(np.fromfile(files / "words.lm", np.uint8)).phones


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "dict.txt", "--order", "1"], "--order 1 must be in [2, 9]"),
        (["train", "dict.txt", "--held-out", "1"], "--held-out 1.0 must be in [0, 1)"),
        (["train", "dict.txt", "--megabytes", "nan"], "--megabytes nan must be above 0"),
        (["train", "none.txt"], "none.txt cannot be read: No such file"),
        (["make", "text.txt", "--dict", "none"], "--dict none needs a model"),
        (["make", "text.txt", "--dict", "dict.txt", "--max-variants", "0"], "--max-variants 0 must be at least 1"),
        (["make", "text.txt", "--dict", "dict.txt", "--num-words", "0"], "--num-words 0 must be at least 1"),
        (["make", "text.txt", "--dict", "dict.txt", "--g2p", "dict.txt"], "dict.txt: not a language model"),
        (["make", "empty.txt", "--dict", "dict.txt"], "there are no words in empty.txt"),
    ],
)
def test_mistakes_are_named(
    command: list[str],
    message: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    (files / "empty.txt").touch()
    assert main(["lexicon", *command, "-o", "never.out"]) == 1
    assert message in capsys.readouterr().err
    assert not (files / "never.out").exists()
    assert main(["lexicon", "train", "dict.txt", "-o", "none/g2p.model"]) == 1
    assert "there is no folder none to write g2p.model into" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dict", "--g2p"])
def test_no_input_is_replaced(option: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes((files / ("dict.txt" if option == "--dict" else "g2p.model")).read_bytes())
    before = mine.read_bytes()
    others = ["--dict", "none"] if option == "--g2p" else []
    assert main(["lexicon", "make", str(files / "text.txt"), "-o", str(mine), *others, option, str(mine)]) == 1
    assert f"{mine} is also an input" in capsys.readouterr().err and mine.read_bytes() == before
