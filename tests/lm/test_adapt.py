"""`asr lm adapt`: a language model that also knows the sentences of a user, and how their words are pronounced."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from asr.cli import main
from asr.lexicon.g2p import G2pOptions, train
from asr.lexicon.lexicon import Lexicon
from asr.lm.adapt import best_weight
from asr.lm.packed import few_words, load_lm, with_pronunciations


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words of A, B and C, pronounced as they are written."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "base.txt").write_text("A AB CAB\nAB A\nCAB A AB\n" * 20 + "A's AB\n".upper())
    out = folder / "base.lm"
    assert main(["lm", "train", str(folder / "base.txt"), "-o", str(out)]) == 0
    spoken = {word: [tuple(word.lower())] for word in ("A", "B", "C", "AB", "CAB", "BAC", "CC")}
    g2p = train(Lexicon(spoken), G2pOptions(order=2, fewest=1))
    words = {word: spoken[word] for word in ("A", "AB", "CAB")} | {"A'S": [("a", "c")]}
    out.write_bytes(with_pronunciations(out.read_bytes(), ["a", "b", "c"], words, g2p))
    return out


def test_sentences_are_mixed_in_and_new_words_pronounced(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "sentences.txt"
    text.write_text("A bac, cab!\nAB-BAC?\nA’s 2 cabs\n\n")
    out = tmp_path / "mine.lm"
    assert main(["lm", "adapt", str(text), "-o", str(out), "--base", str(base)]) == 0
    printed, error = capsys.readouterr()
    assert printed.startswith(f"adapting {base} to {text}; ")
    assert "2 sentences with 1 new word, weight 0.1\n" in printed and "  BAC  b a c" in printed
    assert printed.endswith(f"use it with: asr-stream --lm {out}\n")
    assert (
        error.startswith("1 line was left out because of digits, symbols or noise tags; write these in words")
        and "'A’s 2 cabs' (2)" in error
    )
    before, after = load_lm(base), load_lm(out)
    assert "BAC" in after and "BAC" not in before and after.g2p == before.g2p
    assert [after.pronunciations(word) for word in ("BAC", "CAB", "A'S")] == [
        [["b", "a", "c"]],
        [["c", "a", "b"]],
        [["a", "c"]],
    ]
    sentence, usual = "A BAC CAB".split(), "A AB CAB".split()
    assert sum(after.log_probs(sentence)) > sum(before.log_probs(sentence)) + 3
    assert abs(sum(after.log_probs(usual)) - sum(before.log_probs(usual))) < 2, "what the base knows stays likely"


def test_adaptation_says_how_to_use_its_model(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sentences.txt").write_text("bac cab\n4\n5\n")
    bundled = tmp_path / "english.lm"
    bundled.write_bytes(base.read_bytes())
    monkeypatch.setattr("asr.lm.packed.BUNDLED", bundled)  # a small one, for speed
    out = tmp_path / "mine.lm"
    assert main(["lm", "adapt", str(tmp_path / "sentences.txt"), "-o", str(out)]) == 0
    printed, error = capsys.readouterr()
    assert printed.startswith("adapting the bundled language model to ")
    assert printed.endswith(f"use it with: asr-stream --lm {out}\n")
    assert error.startswith("2 lines were left out because of digits")


def test_pronunciations_of_the_user_come_first(base: Path, tmp_path: Path) -> None:
    (tmp_path / "sentences.txt").write_text("bac cab\n")
    (tmp_path / "dict.txt").write_text("BAC  c c\nCAB  c\n")
    out = tmp_path / "mine.lm"
    command = ["lm", "adapt", str(tmp_path / "sentences.txt"), "-o", str(out), "--base", str(base)]
    assert main([*command, "--lexicon", str(tmp_path / "dict.txt")]) == 0
    lm = load_lm(out)
    assert [lm.pronunciations(word) for word in ("BAC", "CAB")] == [[["c", "c"]], [["c"], ["c", "a", "b"]]]


def test_pronunciations_need_a_base_that_has_some(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sentences.txt").write_text("bac cab\n")
    (tmp_path / "dict.txt").write_text("BAC  c c\n")
    spelled, out = tmp_path / "spelled.lm", tmp_path / "mine.lm"
    assert main(["lm", "train", str(base.with_name("base.txt")), "-o", str(spelled)]) == 0
    command = ["lm", "adapt", str(tmp_path / "sentences.txt"), "-o", str(out), "--base", str(spelled)]
    assert main([*command, "--lexicon", str(tmp_path / "dict.txt")]) == 1
    error = capsys.readouterr().err
    assert "has no pronunciations" in error and "leave out --lexicon" in error and not out.exists()
    assert main(command) == 0


@pytest.mark.parametrize(
    ("sentences", "weight"),
    [
        (["BAC A"] * 10, 0.3),  # the others know this word, the base does not
        (["A AB CAB", "AB A", "CAB A AB", "A AB CAB", "CAB A AB"], 0.02),  # the text of the base, of which it has more
        (["BAC A"] * 4, 0.1),
        (["D", "E", "F", "G", "H"], 0.3),  # words that no other part knows
    ],
)
def test_weight_follows_what_the_sentences_predict(base: Path, sentences: list[str], weight: float) -> None:
    assert best_weight([sentence.split() for sentence in sentences], load_lm(base), 3) == weight


def test_weight_is_the_same_after_each_history(base: Path, tmp_path: Path) -> None:
    """Otherwise a few sentences would replace what the base knows of their words."""
    (tmp_path / "sentences.txt").write_text("CAB BAC\n" * 20)
    out = tmp_path / "mine.lm"
    command = ["lm", "adapt", str(tmp_path / "sentences.txt"), "-o", str(out), "--base", str(base), "--weight", "0.1"]
    assert main(command) == 0
    before, after = (load_lm(path).log_probs(["CAB", "A"])[1] for path in (base, out))
    assert after == pytest.approx(before + math.log(0.9), abs=0.05)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", [], "the text has no sentence that can be used"),
        (
            "4 20\n",
            [],
            "used: 1 line was left out because of digits, symbols or noise tags; write these in words, as they are "
            "spoken, or remove tags with --noise-tags strip: '4 20'",
        ),
        ("a [noise] b-\n", [], "--noise-tags strip: 'a [noise] b-' ([NOISE] B-)"),
        ("[noise]\n", ["--noise-tags", "strip"], "the text has no sentence that can be used\n"),
        ("a\n", ["--weight", "1"], "--weight 1.0 must be between 0 and 1"),
        ("a\n", ["--base", "none.lm"], "none.lm cannot be read"),
    ],
)
def test_what_cannot_be_adapted(
    base: Path, tmp_path: Path, text: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sentences.txt").write_text(text)
    out = tmp_path / "mine.lm"
    command = ["lm", "adapt", str(tmp_path / "sentences.txt"), "-o", str(out), "--base", str(base), *options]
    assert main(command) == 1
    assert message in capsys.readouterr().err and not out.exists()


def test_a_model_of_few_words_is_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.txt").write_text("ONE TWO\n")
    assert main(["lm", "train", str(tmp_path / "few.txt"), "-o", str(tmp_path / "few.lm")]) == 0
    error = capsys.readouterr().err
    assert "few.lm knows 2 words" in error and f"asr lm mix 'bundled*0.7' '{tmp_path}/few.lm*0.3' -o mixed.lm" in error
    assert few_words(19_999, "a.lm") and not few_words(20_000, "a.lm")


@pytest.mark.parametrize(
    ("language", "advice", "names_bundled"),
    [
        ("en-GB", "below 20000 words, mix it with a general model, asr lm mix 'bundled*0.7'", True),
        ("de", "below 20000 words, train it on more text of the language de", False),
        ("", "train it on more text of the language, or mix it with a general model (English: asr lm mix", True),
    ],
)
def test_advice_about_few_words_follows_the_language(language: str, advice: str, names_bundled: bool) -> None:
    warning = few_words(2, "a.lm", language)
    assert advice in warning and ("bundled" in warning) == names_bundled


def test_words_with_digits_or_signs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, named in (("JOHN'S 40 CATS, TOO", "2 words have digits or signs"), ("JOHN'S CATS हिन्दी", "")):
        (tmp_path / "text.txt").write_text(text + "\n", encoding="utf-8")
        assert main(["lm", "train", str(tmp_path / "text.txt"), "-o", str(tmp_path / "words.lm")]) == 0
        error = capsys.readouterr().err
        assert named in error and ("digits or signs" in error) == bool(named)
        assert not named or ("40" in error and "CATS," in error)


def test_words_in_small_letters_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bundled models write capitals, and other models small letters: both can be trained, packed and mixed."""
    for name, text in (("small", "the DOG"), ("capitals", "THE DOG")):
        (tmp_path / f"{name}.txt").write_text(text + "\n")
        (tmp_path / f"{name}.arpa").write_text(
            f"\\data\\\nngram 1=3\n\n\\1-grams:\n-1 </s>\n-1 {text.replace(' ', chr(10) + '-1 ')}\n\n\\end\\\n"
        )
        output = ["-o", f"{tmp_path}/{name}.lm"]
        for command in (["train", f"{tmp_path}/{name}.txt"], ["pack", f"{tmp_path}/{name}.arpa"]):
            assert main(["lm", *command, *output]) == 0
            error = capsys.readouterr().err
            assert ("1 word has small letters: the; only models that write small letters use them" in error) == (
                name == "small"
            ), command
    assert main(["lm", "mix", f"{tmp_path}/small.lm", f"{tmp_path}/capitals.lm", "-o", f"{tmp_path}/mixed.lm"]) == 0
    assert "small letters: the; only models that write small letters use them. The bundled" in capsys.readouterr().err
