"""American and British spellings of formatted text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.c_build import ROOT
from support.recognition import recognize

from asr import Recognizer
from asr._core import TextFormatter, text_options
from asr.runtime.onnx_model import OnnxModel
from asr.streaming import Final

SOURCE = (ROOT / "csrc/text/en/national_spelling.cc").read_text()


def pair(entry: str) -> tuple[str, str]:
    """The British and the American spelling of a table entry, such as colo(u)r, organi_e or theatre=theater."""
    british, american = entry.split("=")[0], entry.split("=")[-1]
    return re.sub("[()]", "", british).replace("_", "s"), re.sub(r"\(.*?\)", "", american).replace("_", "z")


PAIRS = [pair(entry) for line in re.findall(r'^ {4}"(.*)"', SOURCE, re.M) for entry in line.split()]


def respelled(text: str, spelling: str, **options: object) -> str:
    made = text_options(language="en", spelling=spelling, **options)
    assert made is not None
    formatter = TextFormatter(made)
    formatter.final([(word, float(i), i + 0.5, 0.9) for i, word in enumerate(text.upper().split())], False)
    return " ".join(word for word, *_ in formatter.shown()[0])


@pytest.mark.parametrize(
    ("recognized", "american", "british"),
    [
        ("the colour of honor", "the color of honor", "the colour of honour"),
        ("his neighbour's theatre", "his neighbor's theater", "his neighbour's theatre"),
        ("coloured armour economised", "colored armor economized", "coloured armour economised"),
        ("a gray sky realised", "a gray sky realized", "a grey sky realised"),
        ("many kilometres of traveling", "many kilometers of traveling", "many kilometres of travelling"),
        ("the programme meter", "the program meter", "the programme meter"),  # not every meter is a metre
        ("we dont connexion", "we don't connection", "we dont connexion"),
        ("greyhound for four hours", "greyhound for four hours", "greyhound for four hours"),
    ],
)
def test_words_have_one_spelling(recognized: str, american: str, british: str) -> None:
    assert respelled(recognized, "american") == american
    assert respelled(recognized, "british") == british
    assert respelled(recognized, "mixed") == recognized


def test_hotwords_and_replacements_keep_their_spelling() -> None:
    assert respelled("the colour club", "american", written_forms=[("colour club", "Colour Club")]) == "the Colour Club"
    assert respelled("my colour", "american", replace="colour -> colour!") == "my colour!"


def test_spelling_of_each_table_word_is_stable() -> None:
    assert len(PAIRS) > 1200
    british, american = zip(*PAIRS, strict=True)
    assert len(set(british)) == len(british) and not set(british) & set(american)
    assert respelled(" ".join(british), "american") == " ".join(american)


def test_a_recognizer_writes_the_chosen_spelling(onnx: OnnxModel, conversation: np.ndarray) -> None:
    for spelling, word in (("american", "color"), ("british", "colour")):
        made = Recognizer(onnx, phrases=["color"], unknown_cost=100.0, spelling=spelling)
        texts = [event.text for event in recognize(made, conversation) if isinstance(event, Final)]
        assert set(" ".join(texts).lower().split()) == {word}
