"""Helpers for tests of live recognition: audio in, events out."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from asr import Recognizer
from asr._core import END_SILENCE
from asr.evaluation.wer import count_errors
from asr.runtime.onnx_model import OnnxModel
from asr.streaming import Event, Final


def recognize(
    recognizer: Recognizer, samples: np.ndarray, cuts: list[int] | None = None, rate: int = 16000
) -> list[Event]:
    """Events of `samples`, pushed in pieces that end at `cuts`."""
    stream = recognizer.stream()
    events = []
    for piece in np.split(samples, cuts or []):
        stream.accept_waveform(piece, rate)
        events += stream.events()
    stream.finish()
    return events + stream.events()


def ended(samples: np.ndarray) -> np.ndarray:
    """The samples of a stream as its network gets them: with the silence that follows the end."""
    return np.append(samples, np.zeros(END_SILENCE, samples.dtype))


def finals(events: list[Event]) -> str:
    return " ".join(event.raw for event in events if isinstance(event, Final))


def plain_text(raw: str) -> str:
    """Words of an English model as plain text shows them."""
    return re.sub(r"(?<!\S)i(?=['\s]|$)", "I", raw.lower())


SAMPLE_TEXT = "THE OLD MAN WALKED SLOWLY DOWN THE ROAD AND THE CHILDREN RAN AFTER HIM"
"""The transcript of the bundled recording."""


def num_errors(text: str, reference: str = SAMPLE_TEXT) -> int:
    """The number of substitutions, deletions and insertions in `text`."""
    errors = count_errors([reference], [text.upper()])
    return errors.insertions + errors.deletions + errors.substitutions


def resembles(text: str, reference: str = SAMPLE_TEXT) -> bool:
    """Whether the letters of `text` are nearly the first ones of `reference`; its words need not exist."""
    begun = reference.lower()[: len(text)]
    return len(text) > 20 and SequenceMatcher(None, text.lower(), begun, autojunk=False).ratio() > 0.65


def random_cuts(rng: np.random.Generator, length: int) -> list[int]:
    return sorted(rng.integers(0, length, rng.integers(1, 60)).tolist())


def shifted(events: list[Event], seconds: float) -> list[dict[str, object]]:
    """The events as dictionaries, shifted by `seconds`."""
    moved = []
    for event in events:
        words, raw_words = (
            tuple(w._replace(start=w.start + seconds, end=w.end + seconds) for w in of)
            for of in (event.words, event.raw_words)
        )
        later = replace(event, start=event.start + seconds, end=event.end + seconds, words=words, raw_words=raw_words)
        moved.append(later.to_dict())
    return moved


def with_metadata(onnx: OnnxModel, **changes: object) -> OnnxModel:
    other = copy.copy(onnx)
    other.metadata = replace(onnx.metadata, **changes)
    return other
