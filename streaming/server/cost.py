"""Recent cost of live audio, from which the server computes its load."""

from __future__ import annotations

import time
from collections.abc import Callable

USUAL_COST = 0.03
"""Initial estimate of the thread seconds per second of audio."""
HALF_LIFE_S = 1.5
"""Seconds after which a turn counts half, so that a machine that slows down is noticed within 5 s."""
LEAST_AUDIO_S = 5.0
"""Seconds of audio that count at least: the turns of one stream alone differ too much."""
MAX_TURN_S = 2.0
"""Maximum seconds of a turn. A longer one means that the process or machine was suspended, so it does not count."""


class Cost:
    """A moving average of thread seconds per second of audio. Not safe for threads: the owner locks it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._busy_s = USUAL_COST * LEAST_AUDIO_S
        self._audio_s = LEAST_AUDIO_S

    @property
    def value(self) -> float:
        """Thread seconds per second of audio; higher while other programs slow them down."""
        return self._busy_s / self._audio_s

    def set(self, value: float) -> None:
        """Replaces what was measured so far."""
        self._busy_s, self._audio_s = value * LEAST_AUDIO_S, LEAST_AUDIO_S

    def add(self, busy_s: float, audio_s: float) -> None:
        """Counts a turn that took `busy_s` of a thread and completed `audio_s` of audio."""
        now = self._clock()
        kept = max(0.5 ** ((now - self._at) / HALF_LIFE_S), min(1.0, LEAST_AUDIO_S / self._audio_s))
        self._busy_s = kept * self._busy_s + min(busy_s, MAX_TURN_S)
        self._audio_s = kept * self._audio_s + audio_s
        self._at = now
