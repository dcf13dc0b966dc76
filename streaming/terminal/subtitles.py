"""Subtitles: finals become readable cues, and cues become SRT or WebVTT.

A cue has one or two lines of at most 42 characters and is shown for 1 to 7 seconds, following broadcasters (BBC
Subtitle Guidelines; Netflix Timed Text Style Guide). It stays up to half a second after the last word. Gaps that would
flicker are closed, except for 83 ms that show the change of text. A cue never contains words of two utterances. An
utterance is cut at all places jointly: at punctuation and pauses, not after "the" or "of", into as few parts as
possible of similar length. With several sources each cue names its source, and cues of different sources may overlap;
they are ordered by their start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial

LINE_LENGTH = 42
MIN_CUE_S = 1.0
"""Shorter cues are extended to this duration."""
MAX_CUE_S = 7.0
LINGER_S = 0.5
"""A cue stays this long after its last word, if possible."""
GAP_S = 1 / 12
"""Gap between two cues, two frames of a film, so that the change is visible."""
MIN_GAP_S = 0.5
"""Shorter gaps would flicker: the cue is extended to GAP_S before the next one."""
PAUSE_S = 0.5
"""A cut at a pause this long is free, so there is a cut unless it would make a cue too short."""


_SENTENCE_END, _COMMA = 1.0, 0.4
"""Value of a cut after a punctuation mark, in units of PAUSE_S."""
_WEAK = 0.3
"""Cost of a cut or line break after a word of `_BINDING`."""
_TITLES = ("Mr.", "Mrs.", "Dr.", "St.")
_WORDS = """
a an the this that these those my your his her its our their no some any every each
of in on at to from for with by into onto over under about between through during without against
and or but nor if as than because while when where which who whom whose
i we they he she is are was were be been has have had do does did can could will would shall should may might must not
mr mrs dr st
"""
_BINDING = frozenset(_WORDS.split())
"""Words that belong to the following word."""
_SETTLED_S = 3.0
"""After this time, no utterance that overlaps a cue can still begin."""


class Cue(NamedTuple):
    """Text on the screen. Times in seconds since the start of the stream; `lines`: one or two."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


class Cues:
    """Cues from finals, in order and without overlap: a cue begins when the previous one has ended.

    The last cue is held back until the next one is known, or until none can follow soon, because that determines how
    long it is shown.
    """

    def __init__(self, before: str = "") -> None:
        """before: text at the beginning of each cue."""
        self._before = before
        self._width = LINE_LENGTH - len(before)
        self._end_s = 0.0
        self.held: Cue | None = None

    def add(self, final: Final) -> list[Cue]:
        """The cues that the next final completes."""
        found = []
        for words in _cut(_spelled(final.words, self._width), self._width):
            cue = self._place(words)
            found += self.settle(cue.start_s)
            self.held = cue
        return found

    def settle(self, next_s: float = math.inf) -> list[Cue]:
        """The cue that was held back, if the next one begins at `next_s`."""
        if self.held is None:
            return []
        cue, self.held = self.held, None
        self._end_s = _stands_until(cue, max(next_s, cue.end_s))
        return [cue._replace(end_s=self._end_s)]

    def _place(self, words: Sequence[Word]) -> Cue:
        start = max(words[0].start, self.held.end_s if self.held else self._end_s)
        end = start + min(max(words[-1].end - start, MIN_CUE_S), MAX_CUE_S)
        first, *rest = _lines(words, self._width)
        return Cue(start, end, (self._before + first, *rest))


def _stands_until(cue: Cue, next_s: float) -> float:
    """End of a cue whose words end at `cue.end_s`, before the next cue begins."""
    end = min(cue.end_s + LINGER_S, next_s - GAP_S)
    if next_s - end < MIN_GAP_S:
        end = next_s - GAP_S
    return min(max(end, cue.start_s + MIN_CUE_S), cue.start_s + MAX_CUE_S, next_s)


class Subtitles:
    """An SRT or WebVTT file: the concatenation of `header`, the results of `add`, and `finish`.

    `format`: "srt" | "vtt"; otherwise raises ValueError.
    """

    def __init__(self, format: str) -> None:
        if format not in ("srt", "vtt"):
            raise ValueError(f"subtitle format {format!r} is not known: choose srt or vtt")
        self.header = "WEBVTT\n\n" if format == "vtt" else ""
        self._srt = format == "srt"
        self._cues: dict[str, Cues] = {}
        self._num_cues = 0
        self._waiting: list[tuple[Cue, str]] = []
        self._began_s: dict[str, float] = {}
        """The start of each source's utterance that is not final yet."""

    def add(self, event: Event, label: str = "") -> str:
        """The next text of the file. label: of the event's source, if there are several.

        A cue waits for utterances of other sources that began before it, so partials count, too.
        """
        self._take(event, label)
        return self._ready()

    def _take(self, event: Event, label: str) -> None:
        if isinstance(event, Partial) and event.text:
            self._began_s[label] = event.start
            self._settle(label, event.start)
        elif isinstance(event, (Partial, Final)):
            self._began_s.pop(label, None)
        if isinstance(event, Final):
            cues = self._cues.setdefault(label, Cues(f"{label}: " if label and self._srt else ""))
            self._waiting += [(cue, label) for cue in cues.add(event)]
        if isinstance(event, (Partial, Final)):
            for other, cues in self._cues.items():
                if cues.held and other != label and cues.held.end_s + _SETTLED_S < event.end:
                    self._settle(other)

    def add_all(self, finals: Iterable[tuple[Final, str]]) -> str:
        """The rest of the file: all finals, each with its label; those of one label in order."""
        for final, label in finals:
            self._take(final, label)
        return self.finish()

    def finish(self) -> str:
        """The text of the held-back cues, at the end of the file."""
        self._began_s.clear()
        for label in self._cues:
            self._settle(label)
        return self._ready()

    def _ready(self) -> str:
        """The text of the cues that no later cue can precede."""
        self._waiting.sort(key=lambda waiting: waiting[0].start_s)
        text = ""
        while self._waiting and not self._must_wait(*self._waiting[0]):
            text += self._block(*self._waiting.pop(0))
        return text

    def _settle(self, label: str, next_s: float = math.inf) -> None:
        if label in self._cues:
            self._waiting += [(cue, label) for cue in self._cues[label].settle(next_s)]

    def _must_wait(self, cue: Cue, label: str) -> bool:
        held = {other: cues.held.start_s for other, cues in self._cues.items() if cues.held}
        return any(
            start_s < cue.start_s
            for starts_s in (self._began_s, held)
            for other, start_s in starts_s.items()
            if other != label
        )

    def _block(self, cue: Cue, label: str) -> str:
        self._num_cues += 1
        text = "\n".join(cue.lines)
        if self._srt:
            return f"{self._num_cues}\n{_time(cue.start_s, ',')} --> {_time(cue.end_s, ',')}\n{text}\n\n"
        voice = f"<v {_escaped(label)}>" if label else ""
        return f"{_time(cue.start_s, '.')} --> {_time(cue.end_s, '.')}\n{voice}{_escaped(text)}\n\n"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def document(format: str, finals: Iterable[Final]) -> str:
    """The text of an SRT (SubRip) or WebVTT file (https://www.w3.org/TR/webvtt1/). `format`: see `Subtitles`."""
    return labeled_document(format, ((final, "") for final in finals))


def labeled_document(format: str, finals: Iterable[tuple[Final, str]]) -> str:
    """Like `document`, of several sources: each final with the label of its source."""
    subtitles = Subtitles(format)
    return subtitles.header + subtitles.add_all(finals)


def _time(seconds: float, point: str) -> str:
    """Hours have at least two digits."""
    seconds, ms = divmod(round(seconds * 1000), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"


def _spelled(words: Iterable[Word], width: int) -> list[Word]:
    """Splits words longer than a line of `width` characters into pieces that share the word's time."""
    pieces = []
    for word in words:
        whole = " ".join(word.word.split())  # an empty line would end the cue
        count = -(-len(whole) // width)
        if not count:
            continue
        step = (word.end - word.start) / count
        for i in range(count):
            text = whole[i * width : (i + 1) * width]
            pieces.append(Word(text, word.start + i * step, word.start + (i + 1) * step, word.confidence))
    return pieces


def _lines(words: Sequence[Word], width: int) -> tuple[str, ...]:
    """One line, or two of similar length; none if more are needed."""
    text = " ".join(word.word for word in words)
    if len(text) <= width:
        return (text,)
    breaks = [i for i, char in enumerate(text) if char == " " and i <= width and len(text) - i - 1 <= width]
    middle = min(breaks, key=lambda i: abs(len(text) - 1 - 2 * i) - width * _worth(text[:i]), default=0)
    return (text[:middle], text[middle + 1 :]) if middle else ()


def _cut(words: Sequence[Word], width: int) -> Iterator[Sequence[Word]]:
    """The words of the cues: the cuts with the lowest total cost (dynamic programming from the end)."""
    best: list[tuple[float, int]] = [(0.0, len(words))]  # for the words from i on: cost, end of the first cue
    for i in reversed(range(len(words))):
        choices = []
        for end in range(i + 1, len(words) + 1):
            if (cost := _cost(words[i:end], width)) is None and end > i + 1:
                break  # more words do not fit either
            pause_s = words[end].start - words[end - 1].end if end < len(words) else PAUSE_S
            worth = pause_s / PAUSE_S + (_worth(words[end - 1].word) if end < len(words) else 0.0)
            choices.append(((cost or 0.0) + 1 - worth + best[len(words) - end][0], end))
        best.append(min(choices))
    i = 0
    while i < len(words):
        end = best[len(words) - i][1]
        yield words[i:end]
        i = end


def _worth(text: str) -> float:
    """Value of a cut after `text`, by the punctuation of its last word: 0 for "Mr." and "p.m.", or negative after a
    binding word."""
    word = text.rpartition(" ")[2]
    if word.lower().rstrip(".") in _BINDING and (word in _TITLES or word[-1] != "."):
        return -_WEAK
    if word.endswith((".", "?", "!")) and "." not in word[:-1] and word not in _TITLES:
        return _SENTENCE_END
    return _COMMA if word.endswith((",", ";", ":")) else 0.0


def _cost(words: Sequence[Word], width: int) -> float | None:
    """Cost of a cue: its fullness, so that parts have similar length, plus a penalty for a short duration. None if it
    does not fit."""
    lines = _lines(words, width)
    span_s = words[-1].end - words[0].start
    if not lines or span_s > MAX_CUE_S:
        return None
    fullness = sum(map(len, lines)) / (2 * width)
    return fullness**2 + 2 * max(0.0, MIN_CUE_S - span_s)
