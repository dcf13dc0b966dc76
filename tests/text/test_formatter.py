"""Words as they are shown: what stands in a partial stays, utterances are apart, masked words are hidden."""

from __future__ import annotations

import random

import pytest

from asr._core import TextFormatter, TextOptions, text_options

ENGLISH = ["", "", "", "▁", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'"]
LOOK_AHEAD, LEFT_CONTEXT = 2, 3
_WORDS = "cat dog house twenty five dollars nine thirty at on may third point oh p m i one hundred damn it"
VOCABULARY = _WORDS.split(" ")


def words_of(text: str) -> list[tuple[str, float, float, float]]:
    """A word a second, half a second long; the less certain, the later."""
    return [(word, float(i), i + 0.5, 1 - i / 1000) for i, word in enumerate(text.upper().split())]


def options(mask: str | None = None, punctuate: object = None) -> TextOptions:
    found = text_options(
        formatted=True,
        tokens=ENGLISH,
        mask=mask,
        punctuate=punctuate,  # type: ignore[arg-type]
        look_ahead=LOOK_AHEAD if punctuate else 0,
        left_context=LEFT_CONTEXT if punctuate else 0,
    )
    assert found is not None
    return found


def marked(words: list[str], pauses: list[float], beginning: str, complete: bool) -> list[str]:
    """Stands in for the network: a capital at the beginning, and a comma two words before one with C."""
    shown = []
    for i, word in enumerate(words):
        text = word.capitalize() if i == 0 and beginning == "sentence" else word
        if i + LOOK_AHEAD < len(words) and words[i + LOOK_AHEAD][0] == "c":
            text += ","
        shown.append(text)
    if complete:
        shown[-1] += "."
    return shown


def text(words: list[tuple[str, float, float, float]]) -> str:
    return " ".join(word[0] for word in words)


def test_a_word_that_stands_for_several_has_their_times_and_least_confidence() -> None:
    shown, num_stable = TextFormatter(options()).final(words_of("I'M HERE AT NINE THIRTY"))
    assert shown[-1] == pytest.approx(("9:30", 3.0, 4.5, 1 - 4 / 1000))
    assert (text(shown), num_stable) == ("I'm here at 9:30", 0)


def test_without_numbers_to_come_a_partial_is_as_stable_as_its_words() -> None:
    formatter = TextFormatter(options())
    shown, num_stable = formatter.partial(words_of("THE CAT SAT TWENTY FIVE"), 5)
    assert (text(shown), num_stable) == ("the cat sat 25", 2)
    shown, num_stable = formatter.partial(words_of("THE CAT SAT TWENTY FIVE DOLLARS FROM HERE HE"), 9)
    assert (text(shown), num_stable) == ("the cat sat $25 from here he", 6)


@pytest.mark.parametrize("punctuate", [None, marked])
def test_what_was_shown_as_stable_stays(punctuate: object) -> None:
    chance = random.Random(3)
    formatter = TextFormatter(options("damn it\ncat dog house", punctuate))
    num_stood = 0
    for _ in range(300):
        words = words_of(" ".join(chance.choices(VOCABULARY, k=14)))
        stood: list[str] = []
        stable = 0
        for length in range(1, len(words) + 1):
            stable = max(stable, length - chance.randrange(1, 4))
            shown, num_stable = formatter.partial(words[:length], stable)
            found = [word[0] for word in shown]
            assert num_stable >= len(stood)
            assert found[: len(stood)] == stood
            stood = found[:num_stable]
        num_stood += len(stood)
        final = [word[0] for word in formatter.final(words)[0]]
        assert final[: len(stood)] == stood
    assert num_stood > 300


def test_words_that_were_taken_back_are_shown_anew() -> None:
    formatter = TextFormatter(options())
    formatter.partial(words_of("THE BIG CAT SAT"), 4)
    shown, num_stable = formatter.partial(words_of("A FAT DOG SAT ON"), 2)
    assert (text(shown), num_stable) == ("a fat dog sat on", 0)
    assert formatter.partial([], 0) == ([], 0)


def test_punctuation_of_a_partial_is_computed_for_what_is_new() -> None:
    sizes = []

    def punctuate(words: list[str], pauses: list[float], beginning: str, complete: bool) -> list[str]:
        assert len(words) == len(pauses)
        assert beginning == ("sentence" if not sizes or len(words) == len(all_words) else "within")
        sizes.append(len(words))
        return marked(words, pauses, beginning, complete)

    formatter = TextFormatter(options(punctuate=punctuate))
    all_words = words_of("cat dog house " * 20)
    for length in range(10, 61, 5):
        formatter.partial(all_words[:length], length)
    assert max(sizes[1:]) <= LEFT_CONTEXT + 2 + 5 + LOOK_AHEAD + 2


def test_the_pauses_before_words_are_given() -> None:
    given = []

    def punctuate(words: list[str], pauses: list[float], beginning: str, complete: bool) -> list[str]:
        given.append((words, pauses))
        return words

    TextFormatter(options(punctuate=punctuate)).final(
        [("HE", 1, 2, 1), ("TWENTY", 3, 4, 1), ("ONE", 4, 5, 1), ("ME", 9, 10, 1)]
    )
    (words, pauses), *_ = given
    assert words == ["he", "21", "me"]
    assert pauses[0] != pauses[0] and pauses[1:] == [1.0, 4.0]


def test_after_a_forced_cut_the_sentence_goes_on_and_nothing_else_is_carried() -> None:
    formatter = TextFormatter(options(punctuate=marked))
    assert text(formatter.final(words_of("HE WENT"), is_cut=True)[0]) == "He went"
    assert text(formatter.final(words_of("TO TOWN"))[0]) == "to town."
    assert text(formatter.final(words_of("HE WENT"), is_cut=True)[0]) == "He went"
    formatter.reset()
    assert text(formatter.final(words_of("SO IT IS"))[0]) == "So it is."
    assert text(formatter.final(words_of("TWENTY"))[0]) == "20."
    assert text(formatter.final(words_of("FIVE DOLLARS"))[0]) == "$5."


def test_a_comma_of_a_date_is_not_doubled() -> None:
    def punctuate(words: list[str], pauses: list[float], beginning: str, complete: bool) -> list[str]:
        return [word + "," for word in words]

    shown, _ = TextFormatter(options(punctuate=punctuate)).final(words_of("MAY THIRD TWENTY TWELVE"))
    assert text(shown) == "May, 3, 2012,"


def test_masked_words_and_phrases_are_stars_in_formatted_and_plain_text() -> None:
    mask = "Damn\nholy  cow \n\nnine\n"
    assert (
        text(TextFormatter(options(mask)).final(words_of("DAMN HOLY COW HOLY NINE THIRTY"))[0])
        == "**** **** *** holy **** 30"
    )
    plain = text_options(formatted=False, tokens=ENGLISH, mask=mask)
    assert plain is not None
    assert text(TextFormatter(plain).final(words_of("DAMN THE COW"))[0]) == "**** the cow"


def test_a_phrase_that_may_be_masked_is_not_stable() -> None:
    formatter = TextFormatter(options("cat dog house"))
    assert formatter.partial(words_of("dog dog cat dog"), 4)[1] == 1
    shown, _ = formatter.partial(words_of("dog dog cat dog house"), 5)
    assert text(shown) == "dog dog *** *** *****"


def test_plain_text_is_in_small_letters_with_i() -> None:
    plain = text_options(formatted=False, tokens=ENGLISH)
    assert plain is not None
    words = words_of("I SAY I'M TWENTY FIVE ITALIANS")
    assert text(TextFormatter(plain).final(words)[0]) == "I say I'm twenty five italians"
    shown, num_stable = TextFormatter(plain).partial(words, 4)
    assert (text(shown), num_stable) == ("I say I'm twenty five italians", 4)


def test_other_languages_keep_what_their_alphabet_writes() -> None:
    assert text_options(formatted=True, tokens=[*ENGLISH, "Ä"]) is None
    masked = text_options(formatted=True, tokens=[*ENGLISH, "Ä"], mask="ärger")
    assert masked is not None
    assert text(TextFormatter(masked).final(words_of("ÄRGER TWENTY FIVE"))[0]) == "***** TWENTY FIVE"
