"""Invalid or extreme audio with the bundled model: the results for it and for the speech after it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.recognition import num_errors, shifted

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Error, Final
from asr.streaming.stream import Stream

MOST = 2
"""Errors allowed in the 14 words of the sample, because the exact number depends on the weights."""
ANY = 100
PAUSE = np.zeros(32000, np.float32)


@pytest.fixture(scope="module")
def bundled() -> Recognizer:
    # In float32: in int8, the result for unclear words depends on the processor.
    return Recognizer(bundled_model("float32"), lm="bundled")


@pytest.fixture(scope="module")
def speech(sample: np.ndarray) -> np.ndarray:
    return sample.astype(np.float32) / 32768


def texts(stream: Stream) -> tuple[list[str], list[str]]:
    """The texts of the finals and of the errors."""
    events = stream.events()
    return tuple([event.text for event in events if isinstance(event, kind)] for kind in (Final, Error))


def noise(speech: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).uniform(-9e8, 9e8, len(speech)).astype(np.float32)


@pytest.fixture(scope="module")
def heard_after_silence(bundled: Recognizer, speech: np.ndarray) -> list[str]:
    """Finals of the speech without audio before it."""
    stream = bundled.stream()
    stream.accept_waveform(np.concatenate([np.zeros_like(speech), PAUSE, speech]))
    stream.finish()
    return texts(stream)[0]


@pytest.mark.parametrize(
    ("change", "most_errors", "complaint"),  # most_errors None: no words; ANY: words or none
    [
        (lambda x: x + 0.5, MOST, ""),
        (lambda x: x + 100, MOST, "far beyond 1"),
        (lambda x: 0.03 * x, 4, ""),
        (lambda x: 1e4 * x, 4, "far beyond 1"),
        (lambda x: -1e4 * x, 4, "far beyond 1"),
        (lambda x: np.clip(100 * x, -1, 1), 11, ""),
        (lambda x: 1e-4 * x, None, ""),
        (lambda x: np.float32(1e-40) * np.sign(x), None, ""),  # denormal
        (lambda x: np.full_like(x, np.nan), None, "were not finite"),
        (lambda x: np.where(np.arange(len(x)) % 1000 < 5, np.inf, x), 9, "were not finite"),
        (lambda x: 3e38 * np.sign(x), None, "were not finite"),
        (noise, ANY, "far beyond 1"),
    ],
    ids=[
        *("offset", "big-offset", "gain-0.03", "gain-1e4", "gain--1e4", "clipped", "gain-1e-4", "denormal"),
        *("nan", "inf", "overflow", "noise-1e9"),
    ],
)
def test_cache_stays_finite_and_later_speech_is_understood(
    bundled: Recognizer,
    speech: np.ndarray,
    change: Callable[[np.ndarray], np.ndarray],
    most_errors: int | None,
    complaint: str,
    heard_after_silence: list[str],
) -> None:
    stream = bundled.stream()
    stream.accept_waveform(change(speech).astype(np.float32))
    cache = stream.states[0]
    assert any(state.any() for state in cache) and all(np.isfinite(state).all() for state in cache)
    stream.accept_waveform(PAUSE)
    finals, errors = texts(stream)
    if most_errors is None:
        assert finals == []
    elif most_errors != ANY:
        assert num_errors(" ".join(finals)) <= most_errors
    assert complaint in "".join(errors) if complaint else errors == []
    stream.accept_waveform(speech)
    stream.finish()
    finals, errors = texts(stream)
    assert errors == [] and num_errors(" ".join(finals)) <= MOST
    if most_errors != ANY:  # noise is left context that may change an unclear word
        assert finals == heard_after_silence


def after_silence(recognizer: Recognizer, seconds: int, speech: np.ndarray) -> list[dict[str, object]]:
    """The events of `speech` after digital silence, with times relative to the start of the speech."""
    stream = recognizer.stream()
    stream.accept_waveform(np.zeros(16000 * seconds, np.float32))
    assert stream.events() == []
    stream.accept_waveform(speech)
    stream.finish()
    return shifted(stream.events(), -seconds)


@pytest.mark.slow
def test_long_digital_silence_does_not_harm_later_speech(bundled: Recognizer, speech: np.ndarray) -> None:
    """16 s are 25 chunks, so the chunk boundaries in the speech are the same."""
    first, second = (after_silence(bundled, seconds, speech)[-1] for seconds in (1, 1 + 4 * 16))
    assert first["type"] == "final" and num_errors(str(first["text"])) <= MOST
    assert [first[key] for key in ("text", "start", "end")] == [second[key] for key in ("text", "start", "end")]


def test_the_length_of_a_long_silence_changes_nothing(speech: np.ndarray) -> None:
    """After ten minutes, nothing of the earlier audio must be left, not even in the running mean. 80 s are whole chunks
    and whole empty utterances. The angles of the positions are rounded differently, which confidences show."""
    recognizer = Recognizer(search="greedy", second_pass=False, chunk_ms=2000)
    first, second = (
        [
            [event[key] for key in ("type", "text", "start", "end")]
            for event in after_silence(recognizer, seconds, speech)
        ]
        for seconds in (601, 601 + 80)
    )
    assert len(first) > 2 and first == second
