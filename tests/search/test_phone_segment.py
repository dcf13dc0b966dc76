"""A segment that searches phones, with a network that reads them from the loudness of the audio."""

from __future__ import annotations

import numpy as np
import pytest
from test_phone_search import LETTERS, PHONES, model, sure

from asr import _core
from asr.runtime.search import LmWeights, heard

FRAME = 640
"""Samples of an encoder frame."""
SYMBOLS = [("", ""), ("\u2581AA", "A"), ("\u2581K", "C"), ("B", "A"), ("\u2581B", "B"), ("AA", "A"), ("", "\u2581")]
"""What each loudness is read as: a phone, and a letter."""
STEP = 3.0
"""Between them, in nats of energy."""
WEIGHTS = LmWeights(weight=0.1, word_bonus=0.0, oov_penalty=0.5, prior_weight=0.0)


def sound(symbols: list[int]) -> np.ndarray:
    """Audio of these symbols, a frame each."""
    noise = np.random.default_rng(0).standard_normal(FRAME * len(symbols))
    loudness = np.exp(-STEP / 2 * np.array(symbols))
    return (0.1 * noise * np.where(np.array(symbols) == 0, 0, loudness).repeat(FRAME)).astype(np.float32)


def loudness(symbol: int) -> float:
    core = _core.Fbank()
    core.accept_waveform(sound([symbol] * 10))
    return float(core.get_frames(17, 8).mean())


LOUDNESS = [loudness(symbol) for symbol in range(1, len(SYMBOLS))]


def network(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of letters and of phones for (4c + 3, 80) features."""
    read = []
    for start in range(0, len(features) - 3, 4):
        distance = np.abs(features[start + 1 : start + 3].mean() - LOUDNESS)
        read.append(SYMBOLS[1 + int(distance.argmin()) if distance.min() < STEP / 2 else 0])
    phones, letters = zip(*read, strict=True)
    return sure(*letters, spelling=LETTERS), sure(*phones)


def segment(second_pass: bool = True) -> _core.Segment:
    fusion = WEIGHTS.fusion(model(), LETTERS, phones=PHONES)
    options = _core.SegmentOptions(
        tokens=heard(LETTERS),
        chunk_size=8,
        second_pass=second_pass,
        search="rescore",
        beam_size=32,
        fusion=fusion,
        rescore_ctc_weight=0.5,
        silence_after_speech_s=0.8,
        silence_without_speech_s=5.0,
        max_utterance_s=20.0,
        phones=PHONES,
    )
    return _core.Segment(options)


def work(core: _core.Segment, steps: list[bool]) -> None:
    while (step := core.work()) is not None:
        assert isinstance(step, _core.EncoderStep)  # what is searched over phones is not rescored
        letters, phones = network(step.features)
        steps.append(step.second_pass)
        core.stepped(letters, np.zeros((len(letters), 2), np.float32), phones)


def events(samples: np.ndarray, second_pass: bool = True, split: int | None = None) -> tuple[list, list[bool]]:
    core, steps = segment(second_pass), []
    rng = np.random.default_rng(split)
    while len(samples):
        count = len(samples) if split is None else int(rng.integers(1, 3000))
        while count and len(samples):
            used = core.accept(samples[:count])
            samples, count = samples[used:], count - used
            work(core, steps)
    core.finish()
    work(core, steps)
    return core.take_events(), steps


SPEECH = [0, 1, 0, 0, 6, 0, 2, 0, 3, 0, 6, 0, 4, 0, *[0] * 30, 2, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 1, 3, *[0] * 5]
"""A KB B; a pause; BAA A or AB, of which KB is in no lexicon and CA for the letters."""


@pytest.mark.parametrize("second_pass", [False, True])
def test_words_are_shown_when_they_are_complete(second_pass: bool) -> None:
    found, steps = events(sound(SPEECH), second_pass)
    assert steps.count(True) == (2 if second_pass else 0)
    told = [(type, text) for type, text, *_ in found]
    assert [text for type, text in told if type == "final"] == ["A CA B", "BAA AB"]
    partials = [text for type, text in told if type == "partial"]
    assert partials[0] == "A" and "A CA B" in partials  # "A K" is no word yet
    assert partials[-1] == "BAA A"
    final = next(event for event in found if event[0] == "final")
    times = [time for _, start, end, _ in final[4] for time in (start, end)]
    assert times == sorted(times) and times[0] == pytest.approx(0.04) and times[-1] == pytest.approx(13 * 0.04)


def test_how_the_audio_is_cut_changes_nothing() -> None:
    expected = events(sound(SPEECH))
    for split in range(5):
        assert events(sound(SPEECH), split=split) == expected


def test_a_network_without_phones_is_refused_and_may_try_again() -> None:
    core = segment()
    core.accept(sound(SPEECH))
    letters, phones = network(core.work().features)
    vectors = np.zeros((8, 2), np.float32)
    with pytest.raises(ValueError, match="the step gave no log-probabilities of phones; the search is over 7"):
        core.stepped(letters, vectors)
    with pytest.raises(ValueError, match="the step gave 8 log-probabilities of phones; the search is over 7"):
        core.stepped(letters, vectors, letters)
    with pytest.raises(ValueError, match="are not log-probabilities"):
        core.stepped(letters, vectors, phones + 5)
    core.stepped(letters, vectors, phones)
    fusion = WEIGHTS.fusion(model(), LETTERS, phones=PHONES)
    with pytest.raises(ValueError, match="the fusion is over 3 phones, the segment has 0"):
        _core.SegmentOptions(
            tokens=heard(LETTERS),
            chunk_size=8,
            second_pass=True,
            search="beam",
            beam_size=32,
            fusion=fusion,
            rescore_ctc_weight=0.5,
            silence_after_speech_s=0.8,
            silence_without_speech_s=5.0,
            max_utterance_s=20.0,
        )
