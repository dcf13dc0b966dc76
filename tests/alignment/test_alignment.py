"""Times of a known text: exact and inexact texts, long recordings, models with and without phones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asr
from asr import Recognizer
from asr.runtime.search import Word
from asr.streaming.alignment import AlignedWord, Alignment, align, aligner
from asr.streaming.events import Final

TEXT = "The old man walked slowly down the road,\n\nand the children ran after him."


@pytest.fixture(scope="module")
def bundled() -> Recognizer:
    return Recognizer()


@pytest.fixture(scope="module")
def exact(bundled: Recognizer, sample: np.ndarray) -> Alignment:
    return align(sample, TEXT, bundled)


def recognized(recognizer: Recognizer, samples: np.ndarray) -> list[Word]:
    stream = recognizer.stream()
    stream.accept_waveform(samples)
    stream.finish()
    return [word for event in stream.events() if isinstance(event, Final) for word in event.raw_words]


def test_the_times_are_those_of_recognition(bundled: Recognizer, exact: Alignment, sample: np.ndarray) -> None:
    found = recognized(bundled, sample)
    assert [word.text for word in exact.words] == TEXT.split()
    assert [word.paragraph for word in exact.words] == [0] * 8 + [1] * 6
    assert exact.duration == pytest.approx(len(sample) / 16000)
    assert exact.extra == () and exact.missing() == []
    for word, other in zip(exact.words, found, strict=True):
        assert word.start == pytest.approx(other.start, abs=0.13)
        assert word.end == pytest.approx(other.end, abs=0.13)
        assert 0.2 < word.confidence <= 1


def test_phones_fill_their_word(exact: Alignment) -> None:
    walked = exact.words[3]
    assert [each.phone for each in walked.phones] == ["W", "AO", "K", "T"]
    assert walked.phones[0].start == walked.start and walked.phones[-1].end == walked.end
    assert all(phone.start <= phone.end for phone in walked.phones)
    assert all(phone.end == after.start for phone, after in zip(walked.phones, walked.phones[1:], strict=False))


def test_words_that_are_not_said_and_words_that_are_not_written(bundled: Recognizer, sample: np.ndarray) -> None:
    changed = "The old gentleman walked slowly down the and the little children ran after him"
    found = align(sample, changed, bundled)
    assert [word.text for word in found.missing()] == ["gentleman", "little"]
    assert [word.word for word in found.extra] == ["MAN", "ROAD"]
    assert found.missing()[0] == AlignedWord("gentleman", 0)


def test_numbers_take_what_is_said(bundled: Recognizer, exact: Alignment, sample: np.ndarray) -> None:
    found = align(sample, TEXT.replace("children", "1,000"), bundled)
    assert found.missing() == []
    assert found.words[10].text == "1,000" and found.words[10].phones == ()
    assert found.words[10].start == pytest.approx(exact.words[10].start, abs=0.13)
    assert found.words[10].end == pytest.approx(exact.words[10].end, abs=0.13)


def test_repeated_text_around_music_does_not_drift(bundled: Recognizer, exact: Alignment, sample: np.ndarray) -> None:
    music = (3000 * np.sin(np.arange(30 * 16000) * 0.2)).astype(np.int16)
    recording = np.concatenate([*[sample] * 6, music, *[sample] * 6])
    found = align(recording, "\n\n".join([TEXT] * 12), bundled)
    assert found.missing() == []
    for place, word in enumerate(found.words):
        number, which = divmod(place, 14)
        begin = number * len(sample) / 16000 + 30 * (number >= 6)
        assert word.start is not None
        assert word.start - begin == pytest.approx(exact.words[which].start, abs=0.2), word


def test_a_recording_is_cut_at_anchors(
    monkeypatch: pytest.MonkeyPatch, bundled: Recognizer, exact: Alignment, sample: np.ndarray
) -> None:
    parts: list[tuple[int, int]] = []
    align_text = aligner.align_text

    def spy(log_probs: np.ndarray, words: list[list[list[int]]], **costs: float) -> object:
        parts.append((len(log_probs), len(words)))
        return align_text(log_probs, words, **costs)

    monkeypatch.setattr(aligner, "align_text", spy)
    monkeypatch.setattr(aligner, "MIN_PART_S", 1.0)
    monkeypatch.setattr(aligner, "MAX_PART_S", 2.0)
    found = align(sample, TEXT, bundled)
    assert len(parts) in (3, 4, 5)
    assert sum(frames for frames, _ in parts) == (len(sample) + 80) // 160 // 4
    assert sum(words for _, words in parts) == 14
    for word, other in zip(found.words, exact.words, strict=True):
        assert word.start == pytest.approx(other.start, abs=0.09)
        assert word.end == pytest.approx(other.end, abs=0.09)


def test_a_part_that_is_too_large_has_no_times(
    monkeypatch: pytest.MonkeyPatch, bundled: Recognizer, sample: np.ndarray
) -> None:
    monkeypatch.setattr(aligner, "MAX_CELLS", 10)
    found = align(sample, TEXT, bundled)
    assert len(found.missing()) == len(found.words) == 14
    assert [word.word for word in found.extra] == [word.word for word in recognized(bundled, sample)]


def test_without_a_language_model_the_letters_are_aligned(
    bundled: Recognizer, exact: Alignment, sample: np.ndarray
) -> None:
    found = align(sample, TEXT, bundled.with_options(lm=None, neural_lm=None, search="joint"))
    assert all(word.phones == () for word in found.words)
    said = [(word, other) for word, other in zip(found.words, exact.words, strict=True) if word.start is not None]
    assert len(said) >= 12
    for word, other in said:
        assert word.start == pytest.approx(other.start, abs=0.25)


def test_the_rate_and_the_split_do_not_matter(bundled: Recognizer, exact: Alignment, sample: np.ndarray) -> None:
    path = Path(asr.__file__).parent / "samples" / "sample.wav"
    read: list[float] = []
    assert asr.align(path, TEXT, bundled, progress=read.append) == exact
    assert read[-1] == pytest.approx(exact.duration) and read == sorted(read)
    stereo = np.stack([sample, sample], axis=1)
    again = align(stereo, TEXT, bundled, sample_rate=16000)
    assert [word.start for word in again.words] == [word.start for word in exact.words]


def test_wrong_input_is_named(bundled: Recognizer, sample: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the text has no words"):
        align(sample, "\u2026\n", bundled)
    with pytest.raises(ValueError, match="sample_rate is 12"):
        align(sample, "words", bundled, sample_rate=12)
    with pytest.raises(ValueError, match=r"there is no audio file .*missing\.wav"):
        align(tmp_path / "missing.wav", "words", bundled)
    silence = align(np.zeros(16000, np.int16), "no one speaks", bundled)
    assert len(silence.missing()) == 3 and silence.extra == ()
    nothing = align(np.zeros(0, np.int16), "no one speaks", bundled)
    assert len(nothing.missing()) == 3 and nothing.duration == 0
