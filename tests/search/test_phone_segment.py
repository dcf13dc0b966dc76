"""A stream that searches phones, with a network that derives them from the loudness of the audio."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.arpa import packed
from support.toy_model import toy_metadata
from support.work import answer_step, encoder_step
from test_phone_search import BIGRAMS, LETTERS, PHONES, UNIGRAMS, model, sure

from asr import _core
from asr.runtime.search import LmWeights, output_symbols

FRAME = 640
"""Samples per encoder frame."""
SYMBOLS = [("", ""), ("\u2581AA", "A"), ("\u2581K", "C"), ("B", "A"), ("\u2581B", "B"), ("AA", "A"), ("", "\u2581")]
"""The phone and the letter for each loudness."""
STEP = 3.0
"""Distance between adjacent symbols in nats of energy."""
WEIGHTS = LmWeights(weight=0.1, word_bonus=0.0, oov_penalty=0.5, prior_weight=0.0)


def sound(symbols: list[int]) -> np.ndarray:
    """Audio of these symbols, one frame each."""
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
    return sure(*letters, spelling=LETTERS, doubt=1e-4), sure(*phones, doubt=1e-4)


def options(
    second_pass: bool = True, phones: list[str] = PHONES, lm: _core.NgramLm | None = None
) -> _core.SegmentOptions:
    fixed = {"silence_after_speech_s": 0.8, "min_silence_after_speech_s": 0.8}
    return _core.SegmentOptions(
        _core.Options(chunk_ms=320, second_pass=second_pass, beam_size=32, **fixed),
        toy_metadata(LETTERS, phones),
        fusion=WEIGHTS.fusion(lm or model(), LETTERS, phones=PHONES),
    )


def work(core: _core.Stream, steps: list[int]) -> None:
    while (pending := core.work()) is not None:
        step = encoder_step(pending)  # the result of a search over phones is not rescored
        letters, phones = network(step.features)
        steps.append(step.slot)
        answer_step(core, letters, np.zeros((len(letters), 2), np.float32), phones)


def events(
    samples: np.ndarray, second_pass: bool = True, split: int | None = None, lm: _core.NgramLm | None = None
) -> tuple[list, list[int]]:
    core, steps = _core.Stream(options(second_pass, lm=lm)), []
    rng = np.random.default_rng(split)
    while len(samples):
        count = len(samples) if split is None else int(rng.integers(1, 3000))
        core.accept(samples[:count])
        samples = samples[count:]
        work(core, steps)
    core.finish()
    work(core, steps)
    return core.take_events(), steps


SPEECH = [0, 1, 0, 0, 6, 0, 2, 0, 3, 0, 6, 0, 4, 0, *[0] * 30, 2, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 1, 3, *[0] * 5]
"""A KB B; a pause; BAA A or AB. KB is not in the lexicon, and the letter head writes CA for it."""


@pytest.mark.parametrize("second_pass", [False, True])
def test_words_are_shown_when_they_are_complete(second_pass: bool) -> None:
    found, steps = events(sound(SPEECH), second_pass)
    assert [slot for slot in steps if slot] == ([1, 2, 3] * 2 if second_pass else [])
    told = [(type, text) for type, text, *_ in found]
    assert [text for type, text in told if type == "final"] == ["A CA B", "BAA AB"]
    partials = [text for type, text in told if type == "partial"]
    assert partials[0] == "A" and "A CA B" in partials  # "A K" is not a word yet
    assert partials[-1] == ("BAA AB" if second_pass else "BAA A")
    final = next(event for event in found if event[0] == "final")
    times = [time for _, start, end, _ in final[4] for time in (start, end)]
    assert times == sorted(times) and times[0] == 0 and times[-1] == pytest.approx(12 * 0.04)


def test_last_words_precede_the_second_pass() -> None:
    core = _core.Stream(options(second_pass=True))
    core.accept(sound(SPEECH[:10]))
    core.finish()
    while not (step := encoder_step(core.work())).slot:
        letters, phones = network(step.features)
        answer_step(core, letters, np.zeros((len(letters), 2), np.float32), phones)
    assert [event[:2] for event in core.take_events()] == [("partial", "A"), ("partial", "A CA")]


def test_how_the_audio_is_cut_changes_nothing() -> None:
    expected = events(sound(SPEECH))
    for split in range(5):
        assert events(sound(SPEECH), split=split) == expected


@pytest.mark.parametrize("second_pass", [False, True])
def test_a_pause_may_be_inside_a_sentence(second_pass: bool) -> None:
    """ABB sounds the same as AB. It is rarer at the beginning of a sentence and likely after A."""
    lm = model(packed=packed([line.replace("-1.0 ABB", "-1.4 ABB") for line in UNIGRAMS], BIGRAMS[1:]))
    first, pause, second = [0, 1, 0], [0] * 25, [1, 3, 0, 0]

    def finals(symbols: list[int]) -> list[str]:
        return [text for type, text, *_ in events(sound(symbols), second_pass, lm=lm)[0] if type == "final"]

    assert finals(second) == ["AB"]
    assert finals(first + pause + second) == ["A", "ABB"]
    assert finals([*first, *pause, 4, *pause, *second]) == ["A", "B", "AB"]
    assert finals([*first, *[0] * 200, *second]) == ["A", "AB"]  # after a long silence it is another sentence


def test_a_network_without_the_phones_is_refused() -> None:
    for phones, message in (
        (lambda letters, phones: None, "the encoder gave 2 outputs; expected 3"),
        (
            lambda letters, phones: letters,
            r"gave phone_log_probs of shape \(1, 8, 8\); expected \(1, 8, 7\)",
        ),
        (lambda letters, phones: phones + 5, "are not log-probabilities"),
    ):
        core = _core.Stream(options())
        core.accept(sound(SPEECH))
        letters, right = network(encoder_step(core.work()).features)
        odd = phones(letters, right)
        with pytest.raises(_core.StreamFailed, match=message):
            answer_step(core, letters, np.zeros((8, 2), np.float32), *([] if odd is None else [odd]))
    with pytest.raises(ValueError, match="language model or hotwords were given 7 tokens, the segment 1"):
        options(phones=[])


def test_rare_word_is_shown_once_it_is_over() -> None:
    """As the last word of a partial, it is usually the beginning of another word."""
    symbols = [0, 2, 5, 0, 0, 0, 0, 0, 0, 0, 1, *[0] * 35]

    def partials(log10: str) -> list[str]:
        lm = model(packed=packed([line.replace("-2.5 BAA", f"{log10} BAA") for line in UNIGRAMS], BIGRAMS))
        found = [event[:2] for event in events(sound(symbols), second_pass=False, lm=lm)[0]]
        assert found[-1] == ("final", "BAA A")
        return [text for type, text in found if type == "partial"]

    assert partials("-4.5") == ["BAA", "BAA A"]
    assert partials("-5.5") == ["BAA A"]


def test_phrases_over_phones_have_a_calibration_of_phones() -> None:
    core = _core.Stream(
        _core.SegmentOptions(
            _core.Options(chunk_ms=320, second_pass=False, search="beam"),
            toy_metadata(LETTERS, PHONES),
            phrases=_core.Phrases("AB\nB", output_symbols(LETTERS), 1.5, PHONES, model()),
        )
    )
    core.accept(sound([0, 1, 3, *[0] * 60]))
    work(core, [])
    ((text, ((_, _, _, confidence),)),) = [event[1:5:3] for event in core.take_events() if event[0] == "final"]
    assert text == "AB"
    assert confidence == pytest.approx(1 / (1 + math.exp(0.51 - 1.51 - 2.07)), abs=1e-3)
