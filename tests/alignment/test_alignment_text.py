"""Words of a text: what is said for them, and their spellings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from asr.lm.packed import load_lm
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.streaming.alignment.anchors import find_anchors
from asr.streaming.alignment.text import Speller, TextWord, text_words


def test_words_keep_their_punctuation_and_their_paragraph() -> None:
    assert text_words("\u201cHello,\u201d he said \u2014 once.\n \nA well-known U.S. man\u2019s 1,234.50 R&D\n") == [
        TextWord("\u201cHello,\u201d", 0, ("HELLO",)),
        TextWord("he", 0, ("HE",)),
        TextWord("said \u2014", 0, ("SAID",)),
        TextWord("once.", 0, ("ONCE",)),
        TextWord("A", 1, ("A",)),
        TextWord("well-known", 1, ("WELL", "KNOWN")),
        TextWord("U.S.", 1, ("U", "S")),
        TextWord("man\u2019s", 1, ("MAN'S",)),
        TextWord("1,234.50", 1, ("1,234.50",)),
        TextWord("R&D", 1, ("R&D",)),
    ]
    assert text_words("\u2014 Yes.\n\n\u2026") == [TextWord("\u2014 Yes.", 0, ("YES",))]
    assert text_words(" \n\n*** \n") == []


def test_words_have_their_pronunciations_and_numbers_what_was_heard() -> None:
    model, lm = OnnxModel(bundled_model()), load_lm("bundled")
    speller = Speller(model, lm)
    names = speller.phones

    def said(word: str) -> list[str]:
        return [" ".join(names[(id - 1) // 2] for id in ids) for ids in speller(word)]

    assert {"T AH M EY T OW", "T AH M AA T OW"} <= set(said("TOMATO"))
    assert [ids[0] % 2 for ids in speller("TOMATO")] == [1] * len(speller("TOMATO"))
    assert len(said("ZORBLAX")) > 0  # by the model for other words
    assert said("1945") == []
    other = Speller(model, lm)
    other.learn("1945", ["NINETEEN", "SIX"])
    assert "".join(" ".join(names[(id - 1) // 2] for id in other("1945")[0]).split()) == "NAYNTIYNSIHKS"


def test_without_pronunciations_words_are_spelled_in_letters(tiny_onnx: Path) -> None:
    model = OnnxModel(tiny_onnx)
    speller = Speller(model, None)
    assert speller.phones == ()
    assert ["".join(model.tokens[id] for id in ids) for ids in speller("CAT")] == ["CAT"]
    assert speller("7") == speller("R&D") == []


def test_anchors_are_equal_words_in_the_same_order() -> None:
    rng = random.Random(1)
    vocabulary = [str(number) for number in range(300)]
    text = rng.choices(vocabulary, k=1000)
    recognized = []
    kept = []
    for place, word in enumerate(text):
        if 300 <= place < 450 or rng.random() < 0.05:  # a part that is not read, and single words
            continue
        if is_right := rng.random() < 0.9:
            kept.append((place, len(recognized)))
        recognized.append(word if is_right else rng.choice(vocabulary))
    found = find_anchors(text, recognized)
    assert all(text[i] == recognized[j] for i, j in found)
    assert found == sorted(set(found)) and len({j for _, j in found}) == len(found)
    assert len(set(found) & set(kept)) > 0.85 * len(kept)
    assert len(set(found) - set(kept)) < 0.02 * len(kept)


@pytest.mark.parametrize(
    ("text", "recognized", "anchors"),
    [
        ("a b c d", "a b c d", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("a b c d", "", []),
        ("a b a b", "a b", []),  # either
        ("x a b y c d", "a b c d", [(1, 0), (2, 1), (4, 2), (5, 3)]),
        ("a b c d", "c d a b", [(2, 0), (3, 1)]),  # either
        ("a a a a a", "a a a a a", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
    ],
)
def test_anchors_of_few_words(text: str, recognized: str, anchors: list[tuple[int, int]]) -> None:
    assert find_anchors(text.split(), recognized.split()) == anchors
