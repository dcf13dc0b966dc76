"""Numbers among spoken words: examples, unchanged words, and every word is shown exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from asr._core import TextFormatter, format_numbers, text_options

HERE = Path(__file__).parent


def cases(name: str) -> list[tuple[str, str]]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(row[0], row[-1]) for row in rows]


OWN = cases("english_numbers.tsv")
PUBLISHED = cases("english_numbers_published.tsv")
SENTENCES = cases("english_sentences.tsv")
GERMAN = cases("german_numbers.tsv")
WRONG = {
    "the airbus a three twenty landed safely",
    "he ran a mile in three fifty nine",
}
"""Sentences with numbers that no rule covers yet."""
UNCHANGED = cases("english_unchanged.tsv")


def shown(spoken: str, language: str = "en") -> str:
    return " ".join(text for text, _, _ in format_numbers(spoken.split(), language))


def spoken_words(language: str = "en") -> list[str]:
    lists = GERMAN if language == "de" else OWN + PUBLISHED + SENTENCES
    return sorted({word for spoken, _ in lists for word in spoken.split()})


@pytest.mark.parametrize(("spoken", "expected"), OWN)
def test_a_number_is_shown_as_people_write_it(spoken: str, expected: str) -> None:
    assert shown(spoken) == expected


def test_published_cases() -> None:
    assert len(PUBLISHED) > 300
    assert {spoken: shown(spoken) for spoken, _ in PUBLISHED} == dict(PUBLISHED)


@pytest.mark.parametrize(("spoken", "expected"), GERMAN)
def test_german_numbers(spoken: str, expected: str) -> None:
    assert shown(spoken, "de") == expected


def test_numbers_in_sentences() -> None:
    assert {spoken for spoken, expected in SENTENCES if shown(spoken) != expected} == WRONG
    assert len(WRONG) < 0.05 * len(SENTENCES)


def test_sentences_that_digits_would_not_help_stay() -> None:
    assert {spoken: shown(spoken) for spoken, _ in UNCHANGED} == dict(UNCHANGED)


def test_plain_prose_stays() -> None:
    prose = (
        "nor is mister quilter's manner less interesting than his matter he tells us that at this festive season of "
        "the year with christmas and roast beef looming before us similes drawn from eating and its results occur most "
        "readily to the mind one by one and two by two they may come in a second or a minute or two but no one knew"
    )
    assert shown(prose) == prose.replace("mister", "Mr.")


def test_upper_case_and_foreign_words_stay() -> None:
    words = ["TWENTY", "FIVE", "zwanzig", "été", "", "\u2581", "漢字", "42", "a\x00b", "x" * 5000]
    assert format_numbers(words) == [(word, index, index) for index, word in enumerate(words)]
    assert format_numbers([]) == []


def test_token_names_the_words_it_represents() -> None:
    tokens = format_numbers(["at", "nine", "thirty", "she", "paid", "two", "point", "five", "million", "dollars"])
    assert tokens == [
        ("at", 0, 0),
        ("9:30", 1, 2),
        ("she", 3, 3),
        ("paid", 4, 4),
        ("$2.5", 5, 7),
        ("million", 8, 9),
    ]


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_word_is_shown_once_in_order(language: str) -> None:
    chance = random.Random(1)
    words = [*spoken_words(language), "cat", "dog", "THE", "é", ""]
    for _ in range(4000):
        text = chance.choices(words, k=chance.randrange(14))
        tokens = format_numbers(text, language)
        covered = [index for _, first, last in tokens for index in range(first, last + 1)]
        assert covered == list(range(len(text))), text
        assert all(text[first : last + 1] == [""] or shown for shown, first, last in tokens), text


def settled(words: list[str], language: str = "en") -> list[tuple[str, int, int]]:
    """The leading tokens of `words` that do not change, whatever words follow."""
    options = text_options(language=language)
    assert options is not None
    formatter = TextFormatter(options)
    formatter.partial([(word, 0.0, 0.0, 1.0) for word in words], len(words))
    return format_numbers(words, language)[: formatter.shown()[1]]


@pytest.mark.parametrize("language", ["en", "de"])
def test_settled_words_are_shown_the_same_whatever_follows(language: str) -> None:
    chance = random.Random(2)
    words = spoken_words(language)
    num_found = 0
    for _ in range(800):
        text = [
            chance.choice(words) if chance.random() < 0.6 else chance.choice(["cat", "dog", "house"]) for _ in range(16)
        ]
        everything = format_numbers(text, language)
        for length in range(len(text)):
            found = settled(text[:length], language)
            assert found == everything[: len(found)], text
            num_found += (found[-1][2] + 1 if found else 0) >= length - 2
    assert num_found > 3000


def test_a_number_under_way_is_not_settled() -> None:
    words = ["we", "had", "the", "cat", "pay", "twenty", "five"]
    assert settled(words)[-1] == ("cat", 3, 3)  # "pay25" may be a name before "at gmail dot com"
    assert settled([*words, "dollars"])[-1] == ("pay", 4, 4)
    assert settled([*words, "dollars", "red"])[-1] == ("$25", 5, 7)
