"""Alternatives of finals: other sentences of the lattice, and their relation to the chosen one."""

from __future__ import annotations

import numpy as np
import pytest
from support.recognition import recognize

from asr import Recognizer
from asr.streaming import Final


@pytest.fixture(scope="module")
def doubtful(sample: np.ndarray) -> np.ndarray:
    """(num_samples,) float32: the sample in noise as loud as it is."""
    speech = sample.astype(np.float32) / 32768
    return speech + speech.std() * np.random.default_rng(5).standard_normal(len(speech)).astype(np.float32)


def finals(recognizer: Recognizer, audio: np.ndarray) -> list[Final]:
    return [event for event in recognize(recognizer, audio) if isinstance(event, Final)]


def texts(found: list[Final]) -> list[str]:
    return [each.text for each in found]


@pytest.mark.parametrize("options", [{}, {"neural_lm": None}, {"lm": None}, {"lm": None, "search": "beam"}])
def test_alternatives_leave_the_final_as_it_is(doubtful: np.ndarray, options: dict[str, str | None]) -> None:
    recognizer = Recognizer(**options)
    alone, several = finals(recognizer, doubtful), finals(recognizer.with_options(max_alternatives=3), doubtful)
    assert texts(several) == texts(alone) and any(each.alternatives for each in several)
    for each in several:
        others = [other.text for other in each.alternatives]
        assert len(others) <= 3 and len(set(others)) == len(others)
        confidences = [other.confidence for other in each.alternatives]
        assert confidences == sorted(confidences, reverse=True) and 0 < sum(confidences) < 1
        for other in each.alternatives:
            assert other.text == " ".join(word.word for word in other.words)
            assert all(each.start - 1 < word.start < word.end < each.end + 1 for word in other.words)
    assert not any(each.alternatives for each in alone)
    assert "alternatives" not in alone[0].to_dict()
    assert len(several[0].to_dict()["alternatives"]) == len(several[0].alternatives)


def test_alternatives_differ_from_the_final_and_each_other(doubtful: np.ndarray) -> None:
    for options in ({"lm": None, "search": "beam"}, {"phrases": ["the birch canoe", "slid", "on the smooth planks"]}):
        for each in finals(Recognizer(max_alternatives=5, text="plain", **options), doubtful):
            shown = [each.text, *(other.text for other in each.alternatives)]
            assert "" not in shown and len(set(shown)) == len(shown)
            assert all(0 < word.confidence < 1 for other in each.alternatives for word in other.words)


def test_alternatives_differ_in_more_than_the_spelling(conversation: np.ndarray) -> None:
    options = {"phrases": ["color", "colour", "labor"], "unknown_cost": 100.0, "max_alternatives": 5}
    num_different = 0
    for spelling in ("mixed", "american"):
        for each in finals(Recognizer(spelling=spelling, **options), conversation):
            shown = [each.text, *(other.text for other in each.alternatives)]
            assert len(set(shown)) == len(shown)
            num_different += "colour" in " ".join(shown)
    assert num_different


def test_alternatives_are_masked_and_written_like_the_text(doubtful: np.ndarray) -> None:
    recognizer = Recognizer(max_alternatives=20)
    words = {word.word for each in finals(recognizer, doubtful) for other in each.alternatives for word in other.words}
    frequent = max(words, key=len)
    assert frequent == frequent.lower()
    masked = finals(recognizer.with_options(mask=[frequent]), doubtful)
    shown = {word.word for each in masked for other in each.alternatives for word in other.words}
    assert frequent not in shown and any("*" in word for word in shown)


def test_words_that_likely_alternatives_lack_are_less_certain(doubtful: np.ndarray) -> None:
    certain, doubted = [], []
    for each in finals(Recognizer(max_alternatives=20), doubtful):
        for word in each.raw_words:
            without = [other.confidence for other in each.alternatives if word.word.lower() not in other.text.lower()]
            (doubted if sum(without) > 0.2 else certain).append(word.confidence)
    assert doubted and max(doubted) < np.mean(certain) - 0.2


def test_a_clear_recording_has_alternatives_too(sample: np.ndarray) -> None:
    """Most are too unlikely for the neural language model to score; the words of the final do not change."""
    recognizer = Recognizer()
    (alone,), (several,) = (finals(recognizer.with_options(max_alternatives=n), sample) for n in (0, 20))
    assert len(several.alternatives) == 20
    assert several.words == alone.words
    confidences = [other.confidence for other in several.alternatives]
    assert confidences == sorted(confidences, reverse=True)
    assert confidences[-1] > 0 and sum(confidences) < 1
    assert all(0 < word.confidence < 1 for other in several.alternatives for word in other.words)
