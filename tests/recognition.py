"""What the tests of live recognition share: audio in, events out."""

from __future__ import annotations

import numpy as np

from asr import Recognizer
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


def finals(events: list[Event]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Final))


def random_cuts(rng: np.random.Generator, length: int) -> list[int]:
    return sorted(rng.integers(0, length, rng.integers(1, 60)).tolist())
