"""Events of a stream: partial and final text, gaps in the audio, and errors.

Times are in seconds from the start of the stream; lost audio counts as time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from asr.runtime.search import Word

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Event:
    """Base of all events.

    text: the words as shown, separated by spaces or line breaks; for Gap and Error a human-readable message.
    start, end: seconds from the start of the stream.
    words: the words of `text`. A word that stands for several spoken words, such as "9:30", has their times and their
        lowest confidence. Empty for Gap and Error.
    raw, raw_words: the words as recognized; default: `text` and `words`.
    """

    type: ClassVar[str]

    text: str
    start: float
    end: float
    words: tuple[Word, ...] = ()
    raw: str = field(default="", kw_only=True)
    raw_words: tuple[Word, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not self.raw:
            object.__setattr__(self, "raw", self.text)
            object.__setattr__(self, "raw_words", self.words)

    def shifted(self, by_s: float) -> Self:
        """This event with all its times later by `by_s` seconds, as when the stream had begun within a recording."""
        return replace(
            self,
            start=self.start + by_s,
            end=self.end + by_s,
            words=_shifted(self.words, by_s),
            raw_words=_shifted(self.raw_words, by_s),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: times to the millisecond, confidences to three digits; `raw` if it differs."""
        values = {
            "type": self.type,
            "text": self.text,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "words": _plain_values(self.words),
        }
        if self.raw != self.text:
            values |= {"raw": self.raw, "raw_words": _plain_values(self.raw_words)}
        return values


def to_words(rows: Iterable[tuple[str, float, float, float]]) -> tuple[Word, ...]:
    """Words from the core's rows of text, start, end and confidence."""
    return tuple(Word(*row) for row in rows)


def spaced(words: Iterable[str], before: str = "") -> list[str]:
    """The words, each after its space unless it is empty or a line break separates them. before: the preceding text."""
    spelled = []
    for word in words:
        spelled.append(f" {word}" if word and before and "\n" not in (before[-1], word[0]) else word)
        before = word or before
    return spelled


def joined(words: Iterable[str]) -> str:
    """Words joined by spaces, or by their line breaks."""
    return "".join(spaced(words))


def timed_word(word: Word) -> dict[str, Any]:
    """Plain values for JSON: times to the millisecond."""
    return {"word": word.word, "start": round(word.start, 3), "end": round(word.end, 3)}


def _shifted(words: tuple[Word, ...], by_s: float) -> tuple[Word, ...]:
    return tuple(word._replace(start=word.start + by_s, end=word.end + by_s) for word in words)


def _plain_values(words: tuple[Word, ...]) -> list[dict[str, Any]]:
    return [timed_word(word) | {"confidence": round(word.confidence, 3)} for word in words]


@dataclass(frozen=True)
class Partial(Event):
    """The current utterance as recognized so far; may be empty. The next Partial or Final replaces it.

    num_stable: leading words of `text` of which fewer than 1 in 100 differ in a later Partial. The Final, which comes
        from the whole utterance, changes about 5 in 100 on clear read speech and 9 in 100 on harder speech.
    """

    type: ClassVar[str] = "partial"

    num_stable: int = 0

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"num_stable": self.num_stable}


@dataclass(frozen=True)
class Alternative:
    """An alternative hypothesis of an utterance.

    text: the words as shown, without punctuation, separated by spaces.
    words: they may begin before those of the final or end after them, but never reach into another utterance.
    confidence: the probability that this is what was said.
    """

    text: str
    words: tuple[Word, ...]
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, like `Event.to_dict`."""
        return {"text": self.text, "confidence": round(self.confidence, 3), "words": _plain_values(self.words)}


@dataclass(frozen=True)
class Final(Event):
    """An utterance that has ended. It does not change.

    It is empty only if it consisted of spoken commands.

    endpoint: what ended the utterance: the rule "silence_after_speech" or "max_utterance", or "end_of_audio", also for
        the final that precedes a gap. An utterance without words ("silence_without_speech") ends without a final.
    alternatives: up to `max_alternatives` other hypotheses, most likely first.
    num_taken_back: for "scratch that": the number of preceding finals with words to remove, not counting those already
        removed.
    """

    type: ClassVar[str] = "final"

    endpoint: str = "end_of_audio"
    alternatives: tuple[Alternative, ...] = ()
    num_taken_back: int = 0

    def shifted(self, by_s: float) -> Self:
        others = tuple(replace(other, words=_shifted(other.words, by_s)) for other in self.alternatives)
        return replace(super().shifted(by_s), alternatives=others)

    def to_dict(self) -> dict[str, Any]:
        """Includes `alternatives` and `num_taken_back` only if there are any."""
        values = super().to_dict() | {"endpoint": self.endpoint}
        if self.alternatives:
            values["alternatives"] = [other.to_dict() for other in self.alternatives]
        return values | ({"num_taken_back": self.num_taken_back} if self.num_taken_back else {})


class Gap(Event):
    """Audio between `start` and `end` never arrived. A Final ended the utterance before it."""

    type = "gap"


class Error(Event):
    """A problem with the audio or its source; the stream continues."""

    type = "error"
