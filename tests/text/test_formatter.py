"""Shown words: partials do not change stable words, utterances are independent, masked words are hidden."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from asr._core import (
    NUM_CASES,
    NUM_MARKS,
    PUNCTUATION_TYPE,
    PUNCTUATION_VERSION,
    PunctuationMetadata,
    PunctuationRun,
    TextFormatter,
    format_numbers,
    text_options,
)

ENGLISH = ["", "", "", "▁", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'"]
LOOK_AHEAD, LEFT_CONTEXT = 2, 3
PROPERTIES = {
    "model_type": PUNCTUATION_TYPE,
    "format_version": str(PUNCTUATION_VERSION),
    "mixed_case": "{}",
    "look_ahead": str(LOOK_AHEAD),
    "left_context": str(LEFT_CONTEXT),
}
METADATA = PunctuationMetadata(PROPERTIES)
_WORDS = "cat dog house twenty five dollars nine thirty at on may third point oh p m i one hundred damn it"
VOCABULARY = _WORDS.split(" ")


Words = list[tuple[str, float, float, float]]


def words_of(text: str) -> list[tuple[str, float, float, float]]:
    """One word per second, half a second long; later words are less certain."""
    return [(word, float(i), i + 0.5, 1 - i / 1000) for i, word in enumerate(text.upper().split())]


Labels = tuple[list[int], list[int]]
"""Punctuation of each word (none, comma, period, question mark) and its case (lower, capitalized, all capitals)."""
Network = Callable[[PunctuationRun], Labels]


class Shown:
    """A formatter whose network is a function, with certain or uncertain outputs."""

    def __init__(
        self, mask: str | None = None, network: Network | None = None, formatted: bool = True, sure: bool = False
    ) -> None:
        metadata = METADATA if network else None
        options = text_options("en", metadata, mask=mask, text="formatted" if formatted else "plain")
        assert options is not None
        self.formatter, self.network, self.sure = TextFormatter(options), network, sure
        self.doubt_of: dict[int, tuple[float, ...]] = {}
        """Probabilities instead of certain outputs."""

    def partial(self, words: Words, num_stable: int) -> tuple[Words, int]:
        return self._shown(self.formatter.partial(words, num_stable))

    def final(self, words: Words, is_cut: bool = False) -> tuple[Words, int]:
        return self._shown(self.formatter.final(words, is_cut))

    def _shown(self, run: PunctuationRun | None) -> tuple[Words, int]:
        if run is None:
            return self.formatter.shown()[:2]
        assert self.network is not None and len(run.words) == len(run.pauses_s)
        marks, cases = self.network(run)
        doubt = 0.0 if self.sure else 0.05
        probs = [np.eye(size)[labels] + doubt for size, labels in ((NUM_MARKS, marks), (NUM_CASES, cases))]
        for mark, doubtful in self.doubt_of.items():
            probs[0][np.array(marks) == mark] = doubtful
        return self.formatter.shown(*((each / each.sum(1, keepdims=True)).ravel() for each in probs))[:2]


def marked(run: PunctuationRun) -> Labels:
    """A network that follows rules: a comma two words before a word with C, a period two words before "on" and at
    the end, and a capital after a comma."""
    words, marks, cases = run.words, [0] * len(run.words), [0] * len(run.words)
    for i in range(len(words) - LOOK_AHEAD):
        marks[i] = 1 if words[i + LOOK_AHEAD][0] == "c" else 2 if words[i + LOOK_AHEAD] == "on" else 0
        cases[i] = int(words[i + LOOK_AHEAD] == "cat" and i >= LEFT_CONTEXT and words[i - LEFT_CONTEXT] == "dog")
    if run.complete:
        marks[-1] = 2
    return marks, cases


def text(words: Words) -> str:
    return " ".join(word[0] for word in words)


def test_merged_words_have_joint_times_and_least_confidence() -> None:
    shown, num_stable = Shown().final(words_of("I'M HERE AT NINE THIRTY"))
    assert shown[-1] == pytest.approx(("9:30", 3.0, 4.5, 1 - 4 / 1000))
    assert (text(shown), num_stable) == ("I'm here at 9:30", 0)


def test_partial_without_numbers_is_stable_as_its_words() -> None:
    formatter = Shown()
    shown, num_stable = formatter.partial(words_of("THE CAT SAT TWENTY FIVE"), 5)
    assert (text(shown), num_stable) == ("the cat sat 25", 2)
    shown, num_stable = formatter.partial(words_of("THE CAT SAT TWENTY FIVE DOLLARS FROM HERE HE"), 8)
    assert (text(shown), num_stable) == ("the cat sat $25 from here he", 6)
    shown, num_stable = formatter.partial(words_of("THE CAT SAT TWENTY FIVE DOLLARS FROM HERE HE"), 8)
    assert num_stable == 6


@pytest.mark.parametrize("network", [None, marked])
def test_what_was_shown_as_stable_stays(network: Network | None) -> None:
    chance = random.Random(3)
    formatter = Shown("damn it\ncat dog house", network)
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
    assert num_stood > 1200


def test_stable_text_stays_when_the_network_changes() -> None:
    chance = random.Random(5)

    def moody(run: PunctuationRun) -> Labels:
        return [chance.randrange(4) for _ in run.words], [chance.randrange(3) for _ in run.words]

    for _ in range(100):
        formatter, stood = Shown(network=moody), []
        words = words_of("cat dog house " * 12)
        for length in range(1, len(words) + 1):
            formatter.sure = chance.random() < 0.3
            shown, num_stable = formatter.partial(words[:length], length - 1)
            found = [word[0] for word in shown]
            assert num_stable >= len(stood) and found[: len(stood)] == stood
            stood = found[:num_stable]
            # A capital follows a period, whichever runs of the network they come from.
            assert all(b[0].isupper() for a, b in itertools.pairwise(found) if a.endswith("."))


def test_marks_do_not_flicker() -> None:
    """They change once at most: when the network has seen all of its look-ahead."""
    marks = {"cat": 1, "dog": 2, "house": 0}

    def moody(run: PunctuationRun) -> Labels:
        return [marks[word] for word in run.words], [int(run.words[-1] == "house")] * len(run.words)

    formatter = Shown(network=moody)
    words = words_of("cat dog house cat dog house house house")
    assert text(formatter.partial(words[:3], 0)[0]) == "Cat, Dog. House"
    marks.update({"cat": 0, "dog": 1})
    assert text(formatter.partial(words[:3], 0)[0]) == "Cat, Dog. House"
    assert text(formatter.partial(words[:4], 1)[0]) == "Cat, Dog. House cat"  # a new word, but none has two behind it
    assert text(formatter.partial(words[:4], 4)[0]) == "Cat, Dog. House cat"  # no new word
    assert text(formatter.partial(words[:5], 3)[0]) == "Cat Dog. House cat dog"  # only the first has two behind it
    assert text(formatter.partial(words[:6], 6)[0]) == "Cat Dog, House cat Dog, House"
    assert text(formatter.final(words[:6])[0]) == "Cat Dog, House Cat Dog, House."


def test_marks_of_other_words_are_not_held() -> None:
    marks = {"cat": 1, "dog": 2, "house": 1, "five": 0}

    def moody(run: PunctuationRun) -> Labels:
        return [marks[word] for word in run.words], [0] * len(run.words)

    formatter = Shown(network=moody)
    assert text(formatter.partial(words_of("cat dog house five"), 0)[0]) == "Cat, dog. House, five"
    marks.update(dict.fromkeys(marks, 0))
    assert text(formatter.partial(words_of("cat house dog five"), 0)[0]) == "Cat, house dog five"
    formatter.formatter.partial(words_of("cat house dog five"), 0)
    formatter.formatter.shown()  # the network failed
    assert text(formatter.partial(words_of("cat house dog five"), 0)[0]) == "Cat house dog five"
    assert text(formatter.final(words_of("cat house dog five"))[0]) == "Cat house dog five."


def test_word_is_stable_once_the_network_is_sure() -> None:
    words = words_of("cat house cat house cat")
    for sure, num_stable in ((False, 2), (True, 4)):
        assert Shown(network=marked, sure=sure).partial(words, 4)[1] == num_stable
    # A number or an address may continue after the last word, whatever the network outputs.
    assert Shown(network=marked, sure=True).partial(words, 5)[1] == 4


def test_a_doubt_that_makes_no_difference_is_none() -> None:
    small, doubt = [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]
    formatter = Shown(network=marked).formatter
    for spoken, cases, num_stable in (
        ("cat dog house", [doubt, small, small], 2),  # a capital because of its position, whatever the network outputs
        ("cat dog house", [small, doubt, small], 1),
        ("cat twelve house dogs cats", [small, doubt, small, small, small], 4),
    ):
        formatter.reset()
        words = words_of(spoken)
        assert formatter.partial(words, len(words) - 1) is not None
        marks = [1.0, 0.0, 0.0, 0.0] * len(words)
        assert formatter.shown(marks, np.ravel(cases))[1] == num_stable, spoken


def test_the_final_is_formatted_anew() -> None:
    def network(run: PunctuationRun) -> Labels:
        return [0 if run.complete else 1] * len(run.words), [0] * len(run.words)

    formatter = Shown(network=network, sure=True)
    assert formatter.partial(words_of("cat dog house"), 2)[1] == 2
    assert text(formatter.final(words_of("cat dog house"))[0]) == "Cat dog house."


def test_words_that_were_taken_back_are_shown_anew() -> None:
    formatter = Shown()
    formatter.partial(words_of("THE BIG CAT SAT"), 4)
    shown, num_stable = formatter.partial(words_of("A FAT DOG SAT ON"), 2)
    assert (text(shown), num_stable) == ("a fat dog sat on", 0)
    assert formatter.partial(words_of("A FAT DOG SAT ON"), 4)[1] == 4
    assert formatter.partial(words_of("A FAT DOG SAT ON"), 3)[1] == 3
    assert formatter.partial(words_of("A FAT DOG"), 2)[1] == 0
    assert formatter.partial([], 0) == ([], 0)


def test_punctuation_is_computed_only_for_new_words() -> None:
    sizes = []

    def network(run: PunctuationRun) -> Labels:
        assert run.continues is (None if sizes and len(run.words) < len(all_words) else False)
        assert run.pauses_s[0] == 0.5 or run.continues is not None  # the pause after a word that is left out
        sizes.append(len(run.words))
        return marked(run)

    formatter = Shown(network=network)
    all_words = words_of("cat dog house " * 20)
    for length in range(10, 61, 5):
        formatter.partial(all_words[:length], length)
    assert max(sizes[1:]) == LEFT_CONTEXT + 5 + LOOK_AHEAD + 1  # from which a number could continue


def test_the_pauses_before_words_are_given() -> None:
    given = []

    def network(run: PunctuationRun) -> Labels:
        given.append((run.words, run.pauses_s))
        return marked(run)

    words = [("HE", 1, 2, 1), ("TWENTY", 3, 4, 1), ("ONE", 4, 5, 1), ("ME", 9, 10, 1), ("TOO", 9.9, 11, 1)]
    Shown(network=network).final(words)
    (words, pauses), *_ = given
    assert words == ["he", "21", "me", "too"]
    assert pauses[0] != pauses[0] and pauses[1:] == [1.0, 4.0, 0.0]


def test_forced_cut_carries_on_only_the_sentence() -> None:
    continues = []

    def network(run: PunctuationRun) -> Labels:
        continues.append(run.continues)
        return [2] * len(run.words) if run.complete else [0] * (len(run.words) - 1) + [2], [0] * len(run.words)

    formatter = Shown(network=network)
    assert text(formatter.final(words_of("HE WENT"), is_cut=True)[0]) == "He went"
    assert text(formatter.partial(words_of("TO TOWN"), 1)[0]) == "to town"
    assert text(formatter.final([])[0]) == ""  # the utterance turned out to be empty: the sentence continues
    assert text(formatter.final(words_of("TO TOWN"))[0]) == "to. Town."
    assert text(formatter.partial(words_of("HE WENT TO TOWN"), 3)[0]) == "He went to town"
    assert text(formatter.final(words_of("HE WENT"), is_cut=True)[0]) == "He went"
    formatter.formatter.reset()
    assert text(formatter.final(words_of("SO IT"))[0]) == "So. It."
    assert continues == [False, True, True, False, False, False]
    assert text(formatter.final(words_of("TWENTY"))[0]) == "20."
    assert text(formatter.final(words_of("FIVE DOLLARS"))[0]) == "$5."


def test_silence_ends_a_sentence() -> None:
    formatter = Shown(network=lambda run: ([0] * len(run.words), [0] * len(run.words)))
    words = words_of("HE WENT TO TOWN")
    for silence_s, shown in ((0.4, "to town"), (0.6, "To town")):
        assert text(formatter.final(words[:2], is_cut=True)[0]) == "He went"
        later = [(word, start_s + silence_s - 0.5, end_s + silence_s, 1.0) for word, start_s, end_s, _ in words[2:]]
        assert text(formatter.partial(later, 1)[0]) == shown
        assert text(formatter.final(later)[0]) == shown


def test_a_comma_far_into_a_long_sentence_stays() -> None:
    spoken = "one cat two cat one cat two cat house cat dog cat dog cat dog"

    def network(run: PunctuationRun) -> Labels:
        return [1 if word == "house" else 0 for word in run.words], [0] * len(run.words)

    formatter = Shown(network=network)
    formatter.doubt_of = {1: (0.0, 0.55, 0.45, 0.0)}
    words = words_of(spoken)
    for length in range(1, len(words) + 1):
        shown, _ = formatter.partial(words[:length], length)
    assert "house, cat" in text(shown)
    assert "house, cat" in text(formatter.final(words)[0])


def test_name_has_its_capital_after_a_shown_title() -> None:
    def network(run: PunctuationRun) -> Labels:
        return [0] * len(run.words), [int(word == "doctor") for word in run.words]

    for spoken in ("SO MISTER KIDDER AND I MET MISTER HOUSE TOO", "SO DOCTOR KIDDER LEFT"):
        formatter, words = Shown(network=network, sure=True), words_of(spoken)
        expected = "So Mr. Kidder and I met Mr. House too" if "MISTER" in spoken else "So Doctor Kidder left"
        for length in range(1, len(words) + 1):
            shown, num_stable = formatter.partial(words[:length], length)
            assert text(shown[:num_stable]) == " ".join(expected.split()[:num_stable])
        assert num_stable >= len(words) - 2
        assert text(formatter.final(words)[0]) == expected + "."
        assert text(formatter.final(words_of("CAT DOG"))[0]) == "Cat dog"


@pytest.mark.parametrize(
    ("spoken", "capitals", "expected"),
    [
        ("then king henry left", "king henry", "Then King Henry left."),
        ("so the king of france left", "king france", "So the King of France left."),
        ("so prince bishop henry left", "prince bishop henry", "So Prince Bishop Henry left."),
        ("so the king left henry", "king henry", "So the king left Henry."),
        ("so a king's men came", "king's", "So a king's men came."),
        ("so the devil is here", "devil", "So the devil is here."),
        ("so the doctor and i left", "doctor i", "So the doctor and I left."),
        ("king of all he was", "king", "King of all he was."),
        ("he saw the queen", "queen", "He saw the queen."),
    ],
)
def test_title_has_a_capital_only_before_a_name(spoken: str, capitals: str, expected: str) -> None:
    def network(run: PunctuationRun) -> Labels:
        return [0] * len(run.words), [int(word in capitals.split()) for word in run.words]

    assert text(Shown(network=network).final(words_of(spoken))[0]) == expected


@pytest.mark.parametrize(
    ("of_first", "of_second", "expected"),
    [
        ([0.05, 0.95, 0.0], [0.6, 0.4, 0.0], "So Rose and then Rose's cat"),
        ([0.9, 0.1, 0.0], [0.4, 0.6, 0.0], "So rose and then rose's cat"),
        ([0.02, 0.98, 0.0], [0.95, 0.05, 0.0], "So Rose and then rose's cat"),  # certain: another word
    ],
)
def test_an_uncertain_word_has_the_case_of_its_other_places(
    of_first: list[float], of_second: list[float], expected: str
) -> None:
    formatter = Shown(network=marked).formatter
    words = words_of("so rose and then rose's cat")
    assert formatter.final(words, True) is not None
    cases = [[1.0, 0.0, 0.0]] * len(words)
    cases[1], cases[4] = of_first, of_second
    assert text(formatter.shown([1.0, 0.0, 0.0, 0.0] * len(words), np.ravel(cases))[0]) == expected


def test_a_comma_of_a_date_is_not_doubled() -> None:
    def network(run: PunctuationRun) -> Labels:
        return [1] * len(run.words), [0] * len(run.words)

    shown, _ = Shown(network=network).final(words_of("MAY THIRD TWENTY TWELVE"))
    assert text(shown) == "May, 3, 2012."


def test_probabilities_of_other_words_are_refused() -> None:
    formatter = Shown(network=marked).formatter
    assert formatter.final(words_of("HE WENT")) is not None
    for marks, cases in ((1, 1), (1, 2), (2, 1)):
        with pytest.raises(ValueError, match="a number of words other than 2"):
            formatter.shown([1.0] * marks * NUM_MARKS, [1.0] * cases * NUM_CASES)


def test_masked_words_are_stars_in_all_text() -> None:
    mask = "Damn\nholy  cow \n\nnine\n"
    words = words_of("DAMN HOLY COW HOLY NINE THIRTY")
    assert text(Shown(mask).final(words)[0]) == "**** **** *** holy **** 30"
    assert text(Shown(mask, formatted=False).final(words)[0]) == "**** **** *** holy **** thirty"


def test_network_reads_masked_words() -> None:
    """Asterisks would change the case of the neighboring words."""
    read = []

    def network(run: PunctuationRun) -> Labels:
        read.append(" ".join(run.words))
        return [0] * len(run.words), [int(word == "cow") for word in run.words]

    formatter = Shown("holy cow\nnine", network)
    assert text(formatter.final(words_of("DAMN HOLY COW NINE THIRTY"))[0]) == "Damn **** *** **** 30."
    assert read == ["damn holy cow nine 30"]


def test_phrase_that_may_be_masked_is_unstable() -> None:
    formatter = Shown("cat dog house")
    assert formatter.partial(words_of("dog dog cat dog"), 4)[1] == 2
    shown, _ = formatter.partial(words_of("dog dog cat dog house"), 5)
    assert text(shown) == "dog dog *** *** *****"


def test_plain_text_is_in_small_letters_with_i() -> None:
    words = words_of("I SAY I'M TWENTY FIVE ITALIANS")
    assert text(Shown(formatted=False).final(words)[0]) == "I say I'm twenty five italians"
    shown, num_stable = Shown(formatted=False).partial(words, 4)
    assert (text(shown), num_stable) == ("I say I'm twenty five italians", 4)


def test_other_languages_keep_what_their_alphabet_writes() -> None:
    masked = text_options(language="", mask="ärger")
    assert masked is not None
    formatter = TextFormatter(masked)
    assert formatter.final(words_of("ÄRGER TWENTY FIVE")) is None
    assert text(formatter.shown()[0]) == "***** TWENTY FIVE"


@pytest.mark.parametrize("language", ["", "sw", "EN", "english"])
def test_letters_a_to_z_alone_are_not_english(language: str) -> None:
    assert text_options(language=language) is None
    options = text_options(mask="damn", punctuation=METADATA, language=language)
    assert options is not None
    formatter = TextFormatter(options)
    assert formatter.final(words_of("I SAID DAMN TWENTY FIVE")) is None
    assert text(formatter.shown()[0]) == "I SAID **** TWENTY FIVE"


def test_a_language_is_taken_whatever_the_alphabet() -> None:
    options = text_options(language="en")
    assert options is not None
    formatter = TextFormatter(options)
    assert formatter.final(words_of("I AM TWENTY FIVE")) is None
    assert text(formatter.shown()[0]) == "I am 25"


def test_german_is_a_folder_and_a_row() -> None:
    options = text_options(language="de")
    assert options is not None
    formatter = TextFormatter(options)
    words = words_of("I SAW MISTER SCHMIDT")
    words += words_of("um fünf uhr DREISSIG am dritten mai für zwölf euro")
    assert formatter.final(words) is None
    assert text(formatter.shown()[0]) == "i saw mister schmidt um 5:30 Uhr am 3. Mai für 12 €"


def test_numbers_of_a_language_without_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="no rules for the numbers of language xx"):
        format_numbers(["one"], language="xx")
