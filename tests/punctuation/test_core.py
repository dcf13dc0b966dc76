"""csrc/text/punctuation: hashed units of words, and the effect of punctuation and case on words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from asr._core import (
    NUM_PAUSE_CLASSES,
    NUM_WORD_FEATURE_ROWS,
    NUM_WORD_FEATURES,
    pause_class,
    punctuate,
    punctuation_units,
    special_features,
    word_features,
)

NONE, COMMA, PERIOD, QUESTION = np.eye(4, dtype=np.float32)
LOWER, CAPITALIZED, UPPER = np.eye(3, dtype=np.float32)


def test_features_are_rows_of_one_table() -> None:
    words = ["the", "kowalski", "naïve", "", "ß", "x" * 1000, "\U0001f600", "i'm"]
    rows = word_features(words)
    assert rows.shape == (len(words), NUM_WORD_FEATURES) and rows.dtype == np.int32
    assert rows.min() >= 0 and rows.max() < NUM_WORD_FEATURE_ROWS
    assert len({tuple(row) for row in rows}) == len(words)


def test_features_do_not_change_between_versions() -> None:
    # Trained weights depend on these values: a different hash would invalidate all model files.
    assert word_features(["hello", "don't"]).tolist() == EXPECTED


EXPECTED = [[13934, 5055, 18948, 18740, 19025], [4391, 12632, 19146, 18873, 19075]]


def test_case_and_digits_do_not_matter() -> None:
    a, b = word_features(["école", "9:30"]), word_features(["ÉCOLE", "7:45"])
    assert np.array_equal(a, b)


def test_units_that_are_no_word() -> None:
    rows = [tuple(special_features(unit)) for unit in ("sentence", "continues", "end")]
    assert len(set(rows)) == 3 and max(map(max, rows)) < NUM_WORD_FEATURE_ROWS
    with pytest.raises(ValueError, match="got middle"):
        special_features("middle")  # type: ignore[arg-type]


def test_the_pause_before_an_utterance_does_not_count() -> None:
    words, pauses = ["he", "left"], [2.0, 2.0]
    assert punctuation_units(words, pauses, continues=False, complete=True).work.inputs["pauses"].tolist() == [
        [0, 0, 7, 0]
    ]
    assert punctuation_units(words, pauses, continues=None, complete=False).work.inputs["pauses"].tolist() == [[7, 7]]


def test_classes_of_pauses() -> None:
    classes = [pause_class(pause) for pause in (math.nan, 0.0, 0.039, 0.05, 0.1, 0.2, 0.4, 0.8, 0.82, 1e9)]
    assert classes == [0, 1, 1, 2, 3, 4, 5, 6, 7, 7] and max(classes) == NUM_PAUSE_CLASSES - 1
    with pytest.raises(ValueError, match="negative"):
        pause_class(-0.1)


@pytest.mark.parametrize("start_s", [0.0, 0.28, 1.28, 1e3 + 0.1, 2**31 / 16000 - 1, 2**32 / 16000 - 1])
def test_pause_class_does_not_depend_on_stream_time(start_s: float) -> None:
    """Pauses of whole frames (40 ms) are differences of two times, which are rounded."""
    for frame in range(50):
        ends_s = start_s + 0.04 * frame
        found = [pause_class(max(0.0, start_s + 0.04 * (frame + pause) - ends_s)) for pause in range(30)]
        assert found == [1, 2, 3, 3, *[4] * 4, *[5] * 5, *[6] * 8, *[7] * 9]


def show(text: str, marks: dict[int, np.ndarray], cases: dict[int, np.ndarray], **options: bool | str) -> str:
    words = text.split()
    options.setdefault("complete", False)
    return " ".join(
        punctuate(
            words,
            np.stack([marks.get(i, NONE) for i in range(len(words))]),
            np.stack([cases.get(i, LOWER) for i in range(len(words))]),
            {"github": "GitHub", "iphone": "iPhone"},
            **options,
        )
    )


def test_sentences_begin_with_a_capital() -> None:
    marks = {0: COMMA, 2: PERIOD, 4: QUESTION}
    assert show("well he left so what", marks, {}, complete=True) == "Well, he left. So what?"
    assert show("well he left so what", marks, {}, complete=True, continues=True) == "well, he left. So what?"


def test_behind_a_question_mark_the_network_decides() -> None:
    assert show("why he asked", {0: QUESTION}, {}) == "Why? he asked"
    assert show("why he asked", {0: QUESTION}, {1: CAPITALIZED}) == "Why? He asked"


def test_a_cut_takes_the_last_mark_only() -> None:
    assert show("he left so", {1: PERIOD, 2: COMMA}, {}, complete=False) == "He left. So"


def test_capitals_of_words() -> None:
    text = "so john's bbc bbc's github iphone élan i'm"
    cases = {1: CAPITALIZED, 2: UPPER, 3: UPPER, 4: CAPITALIZED, 5: UPPER, 6: CAPITALIZED, 7: CAPITALIZED}
    assert show(text, {}, cases) == "So John's BBC BBC's GitHub iPhone Élan I'm"
    assert show("github so", {}, {}) == "Github so"  # in lower case, at the beginning: for example the verb


def test_what_an_earlier_step_wrote_stays() -> None:
    text = "$25 9:30 p.m. JFK McDonald Élan"
    cases = dict.fromkeys(range(6), UPPER)
    assert show(text, {2: PERIOD}, cases) == "$25 9:30 p.m. JFK McDonald Élan"
    assert show("p.m. he left", {0: PERIOD}, {}) == "p.m. He left"
    assert show("p.m.", {0: QUESTION}, {}, complete=True) == "p.m.?"


def test_name_after_a_title_begins_with_a_capital() -> None:
    assert (
        show("so Mr. kidder met Mrs. o'hara and Mr. github", {}, {}) == "So Mr. Kidder met Mrs. O'hara and Mr. GitHub"
    )
    text = "so doctor kidder met lady jane"
    assert show(text, {}, {1: CAPITALIZED, 4: CAPITALIZED}) == "So Doctor Kidder met Lady Jane"
    assert show(text, {1: COMMA}, {1: CAPITALIZED}) == "So Doctor, kidder met lady jane"  # he is spoken to
    assert show("the doctor examined him", {}, {}) == "The doctor examined him"
    assert show("so Mr. and Mrs. winter said", {}, {}) == "So Mr. and Mrs. Winter said"
    assert show("so Mr. de la mare left", {}, {}) == "So Mr. de la Mare left"
    assert show("so Mr. de la mare left", {}, {2: CAPITALIZED}) == "So Mr. De la Mare left"
    assert show("so de la mare left", {}, {}) == "So de la mare left"


def test_last_words_of_a_speaker_get_a_mark() -> None:
    likely = np.float32([0.5, 0.4, 0.06, 0.04])
    asked = np.float32([0.5, 0.4, 0.04, 0.06])
    assert show("he left me", {2: likely}, {}, complete=True) == "He left me."
    assert show("he left me", {2: asked}, {}, complete=True) == "He left me?"
    assert show("he left me", {2: COMMA}, {}, complete=True) == "He left me."
    assert show("he left", {1: likely}, {}, complete=True) == "He left"
    assert show("he left me", {2: likely}, {}) == "He left me"


def test_comma_far_into_a_sentence_becomes_full_stop() -> None:
    doubtful = np.float32([0.1, 0.55, 0.35, 0.0])
    text = "one two three four five six seven eight nine"
    assert show(text, {7: doubtful}, {}) == "One two three four five six seven eight. Nine"
    assert show(text, {6: doubtful}, {}) == "One two three four five six seven, eight nine"
    assert show(text, {0: PERIOD, 7: doubtful}, {}) == "One. Two three four five six seven eight, nine"
    assert show(text, {7: COMMA}, {}) == "One two three four five six seven eight, nine"
    assert show(text, {7: doubtful}, {}, has_pauses=True) == "One two three four five six seven eight, nine"


def test_a_comma_before_that_has_to_be_probable() -> None:
    for probability, shown in ((0.7, "I know that he left"), (0.8, "I know, that he left")):
        comma = np.float32([1 - probability, probability, 0, 0])
        assert show("i know that he left", {1: comma}, {}) == shown
        assert show("i know that he left", {1: comma}, {}, language="") == "I know, that he left"
    assert show("so he left", {0: np.float32([0.4, 0.6, 0, 0])}, {}) == "So, he left"


def test_names_are_not_shouted() -> None:
    def shout(probability: float) -> np.ndarray:
        return np.float32([0, 1 - probability, probability])

    for word, shown in (("jayme", "Jayme"), ("nasa", "NASA"), ("fbi", "FBI"), ("bmw", "BMW")):
        assert show(f"so {word} left", {}, {1: shout(0.7)}) == f"So {shown} left"
    assert show("so unesco left", {}, {1: shout(0.9)}) == "So UNESCO left"


def test_title_is_the_word_that_training_has() -> None:
    # In training text, "Mr." is the word mr without punctuation. If it were a different word here, it would be unknown.
    a, b = word_features(["Mr.", "9."]), word_features(["mr", "9"])
    assert np.array_equal(a, b)


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (0, 4)])
def test_probabilities_of_other_words(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="for 3 words"):
        punctuate(["a", "b", "c"], np.zeros(shape, np.float32), np.zeros((3, 3), np.float32), {})
