"""Prose split into utterances where people pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from asr.cli import main
from asr.lm.packed import LmError
from asr.lm.utterances import MAX_WORDS, read_spellings, utterances

PROSE = [
    "Mr. Brown's dog, which had slept, rose and barked.",
    "Nobody came!",
    "In 1848 there was war.",
    "The day was long; the night, on the other hand, was short.",
]


def test_words_lose_only_case_and_marks() -> None:
    words = " ".join(utterances(PROSE * 20, {})).split()
    expected = "MISTER BROWN'S DOG WHICH HAD SLEPT ROSE AND BARKED NOBODY CAME".split()
    assert words[: len(expected)] == expected
    assert not any(character.isdigit() for word in words for character in word)


def test_a_sentence_with_digits_parts_the_text() -> None:
    found = list(utterances(PROSE, {}))
    assert found.count("") == 1
    assert not any("WAR" in utterance for utterance in found)


def test_accents_are_removed_and_other_letters_refused() -> None:
    assert " ".join(utterances(["The caf\u00e9 is na\u00efve."], {})).split() == "THE CAFE IS NAIVE".split()
    assert list(utterances(["Stra\u00dfe and \u0413\u043e\u0434."], {})) == [""]


def test_most_sentences_and_some_commas_end_an_utterance() -> None:
    found = list(utterances(["We went, slowly, home."] * 1000, {}))
    num_sentences_inside = sum(utterance.count("HOME WE") for utterance in found)
    num_cut_at_commas = sum(utterance.endswith(("WENT", "SLOWLY")) for utterance in found)
    assert 330 < num_sentences_inside < 470
    assert 100 < num_cut_at_commas < 230


def test_utterances_have_at_most_twenty_seconds_of_speech() -> None:
    found = list(utterances(["word " * 1000], {}))
    assert max(len(utterance.split()) for utterance in found) == MAX_WORDS
    assert sum(len(utterance.split()) for utterance in found) == 1000


def test_longest_spelling_that_fits_is_changed(tmp_path: Path) -> None:
    table = tmp_path / "american.tsv"
    table.write_text("colour\tcolor\nTO\tTOO\nTO DAY\tTODAY\n")
    spellings = read_spellings([table])
    assert " ".join(utterances(["To day the colour, to my eye, is grey"], spellings)).split() == (
        "TODAY THE COLOR TOO MY EYE IS GREY".split()
    )


def test_table_of_three_columns_is_refused_by_line(tmp_path: Path) -> None:
    table = tmp_path / "odd.tsv"
    table.write_text("A\tB\nC\tD\tE\n")
    with pytest.raises(LmError, match="line 2"):
        read_spellings([table])


def test_table_of_another_encoding_is_named(tmp_path: Path) -> None:
    table = tmp_path / "latin.tsv"
    table.write_bytes(b"CAF\xc9\tCAFE\n")
    with pytest.raises(LmError, match=r"latin\.tsv is not UTF-8 text"):
        read_spellings([table])


def test_command_writes_one_utterance_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "prose.txt", tmp_path / "lines.txt"
    source.write_text("\n".join(PROSE))
    assert main(["lm", "utterances", str(source), "-o", str(output)]) == 0
    assert output.read_text().splitlines() == list(utterances(PROSE, {}))
    assert "utterances" in capsys.readouterr().out
