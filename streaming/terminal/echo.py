"""What the microphone hears from the loudspeaker is left out of its captions.

The computer's own audio is recognized, too, so its words and their times are known. A word of the microphone is an echo
if a similar one was played at about that time. If most of the words that the microphone heard while others spoke are
echoes, the rest of them are taken as echoes that were not understood. This is no echo cancellation: who speaks at the
same time as the others, louder than the loudspeaker, may be misunderstood.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from difflib import SequenceMatcher

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial, joined

MIN_DELAY_S, MAX_DELAY_S = -0.4, 0.9
"""Between a word that is played and its echo, with the errors of both times."""
ECHO_S = 0.25
"""An echo may still be heard for this long after its word."""
MIN_SIMILARITY = 0.6
"""Of the letters of two words."""
MOST = 0.5
KEPT_S = 120.0
"""Played words are remembered for this long: longer than the longest utterance."""


class Echoes:
    """Knows what was played, and removes it from what the microphone heard. Times of both count from one moment."""

    def __init__(self) -> None:
        self.num_removed = 0
        self._played: list[Word] = []
        self._partial: tuple[Word, ...] = ()

    def played(self, event: Event) -> None:
        """Takes an event of the computer's audio."""
        if isinstance(event, Final):
            self._played = [word for word in self._played if word.end > event.end - KEPT_S]
            self._played += event.raw_words
            self._partial = ()
        elif isinstance(event, Partial):
            self._partial = event.raw_words

    def without_echo(self, event: Event) -> Event | None:
        """An event of the microphone without echoes; None for a final that has nothing else."""
        if not isinstance(event, (Partial, Final)) or not event.raw_words:
            return event
        is_echo = self._echoes(event.raw_words)
        if not any(is_echo):
            return event
        raw_words = tuple(word for word, is_one in zip(event.raw_words, is_echo, strict=True) if not is_one)
        kept = [any(word.start < raw.end and raw.start < word.end for raw in raw_words) for word in event.words]
        if isinstance(event, Final):
            self.num_removed += sum(is_echo)
            if not any(kept):
                return None
        words = tuple(word for word, is_kept in zip(event.words, kept, strict=True) if is_kept)
        changes = {
            "text": joined(word.word for word in words),
            "words": words,
            "raw": joined(word.word for word in raw_words),
            "raw_words": raw_words,
        }
        if words:
            changes |= {"start": words[0].start, "end": words[-1].end}
        if isinstance(event, Partial):
            changes["num_stable"] = sum(kept[: event.num_stable])
        return dataclasses.replace(event, **changes)

    def _echoes(self, words: Sequence[Word]) -> list[bool]:
        played = [*self._played, *self._partial]
        begin, end = words[0].start - MAX_DELAY_S, words[-1].end - MIN_DELAY_S
        played = [word for word in played if word.end > begin and word.start < end]
        echoes = [any(_is_echo(word, other) for other in played) for word in words]
        during = [any(_overlaps(word, other) for other in played) for word in words]
        if sum(echoes) >= MOST * sum(during):
            return [a or b for a, b in zip(echoes, during, strict=True)] if any(echoes) else echoes
        return echoes


def _is_echo(word: Word, played: Word) -> bool:
    if not MIN_DELAY_S <= word.start - played.start <= MAX_DELAY_S:
        return False
    return SequenceMatcher(None, word.word, played.word, autojunk=False).ratio() >= MIN_SIMILARITY


def _overlaps(word: Word, played: Word) -> bool:
    """Whether `word` may be heard while `played` is."""
    middle = (word.start + word.end) / 2
    return played.start <= middle <= played.end + ECHO_S
