"""Subtitles: finals become cues that can be read, and cues become SRT or WebVTT.

A cue has one or two lines of at most 42 characters and stands for 1 to 7 seconds, as broadcasters have it (BBC
Subtitle Guidelines; Netflix Timed Text Style Guide). It stays up to half a second after the last word, and gaps that
would flicker are closed, except for 83 ms that show the change of text. Utterances are never mixed in a cue. Where
one must be cut, the cuts are chosen together: at punctuation and pauses, not after "the" or "of", into parts of like
length, as few as possible. With several sources each cue names its source, and cues of different sources may overlap;
they are in the order in which they begin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from asr.runtime.search import Word
from asr.streaming.events import Event, Final, Partial

LINE_LENGTH = 42
MIN_CUE_S = 1.0
"""A shorter one is left standing for so long."""
MAX_CUE_S = 7.0
LINGER_S = 0.5
"""A cue stands for so long after its last word."""
GAP_S = 1 / 12
"""Between two cues, two frames of a film, that the eye sees the change."""
MIN_GAP_S = 0.5
"""A shorter gap would flicker: the cue stands until GAP_S before the next one."""
PAUSE_S = 0.5
"""At a pause of so long a cut costs nothing: there is one, unless what it leaves would stand too short."""


_SENTENCE_END, _COMMA = 1.0, 0.4
"""Value of a mark for a cut after it, in pauses of PAUSE_S."""
_WEAK = 0.3
"""Cost of a cut or line break after one of `_BINDING`."""
_TITLES = ("Mr.", "Mrs.", "Dr.", "St.")
_WORDS = """
a an the this that these those my your his her its our their no some any every each
of in on at to from for with by into onto over under about between through during without against
and or but nor if as than because while when where which who whom whose
i we they he she is are was were be been has have had do does did can could will would shall should may might must not
mr mrs dr st
"""
_BINDING = frozenset(_WORDS.split())
"""Words that belong to what follows."""
_SETTLED_S = 3.0
"""So long after its end no utterance can begin that a cue would have to make room for."""


class Cue(NamedTuple):
    """Text on the screen. Times in seconds since the start of the stream; `lines`: one or two."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


class Cues:
    """Cues as finals come. They are in order and do not overlap: a cue begins when the one before it has ended.

    The last cue is held back until the next one is known, or until nothing can follow soon: how long it stands depends
    on that.
    """

    def __init__(self, before: str = "") -> None:
        """before: text at the beginning of each cue."""
        self._before = before
        self._width = LINE_LENGTH - len(before)
        self._end_s = 0.0
        self.held: Cue | None = None

    def add(self, final: Final) -> list[Cue]:
        """The cues that are known with the next final."""
        found = []
        for words in _cut(_spelled(final.words, self._width), self._width):
            cue = self._place(words)
            found += self.settle(cue.start_s)
            self.held = cue
        return found

    def settle(self, next_s: float = math.inf) -> list[Cue]:
        """The cue that was held back, when the next one begins at `next_s`."""
        if self.held is None:
            return []
        cue, self.held = self.held, None
        self._end_s = _stands_until(cue, max(next_s, cue.end_s))
        return [cue._replace(end_s=self._end_s)]

    def _place(self, words: Sequence[Word]) -> Cue:
        start = max(words[0].start_s, self.held.end_s if self.held else self._end_s)
        end = start + min(max(words[-1].end_s - start, MIN_CUE_S), MAX_CUE_S)
        first, *rest = _lines(words, self._width)
        return Cue(start, end, (self._before + first, *rest))


def _stands_until(cue: Cue, next_s: float) -> float:
    """End of a cue whose words end at `cue.end_s`, before the next cue begins."""
    end = min(cue.end_s + LINGER_S, next_s - GAP_S)
    if next_s - end < MIN_GAP_S:
        end = next_s - GAP_S
    return min(max(end, cue.start_s + MIN_CUE_S), cue.start_s + MAX_CUE_S, next_s)


class Subtitles:
    """An SRT or WebVTT file as finals come: `header`, what `add` gives and then `finish` are a whole file.

    `format`: "srt" | "vtt"; ValueError for another.
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
        """For the utterance of each source that is not final yet."""

    def add(self, event: Event, label: str = "") -> str:
        """The next text of the file. label: of the event's source, where there are several.

        A cue waits for utterances of other sources that began before it, so partials count too.
        """
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
        return self._ready()

    def finish(self) -> str:
        """The text of the cues that were held back, at the end of the file."""
        self._began_s.clear()
        for label in self._cues:
            self._settle(label)
        return self._ready()

    def _ready(self) -> str:
        """The text of the cues that nothing can come before."""
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


def srt(finals: Iterable[Final]) -> str:
    """The text of an SRT (SubRip) file."""
    return _file("srt", finals)


def vtt(finals: Iterable[Final]) -> str:
    """The text of a WebVTT file (https://www.w3.org/TR/webvtt1/)."""
    return _file("vtt", finals)


def _file(format: str, finals: Iterable[Final]) -> str:
    subtitles = Subtitles(format)
    return subtitles.header + "".join(subtitles.add(final) for final in finals) + subtitles.finish()


def _time(seconds: float, point: str) -> str:
    """Hours have two digits, or as many as they need."""
    seconds, ms = divmod(round(seconds * 1000), 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"


def _spelled(words: Iterable[Word], width: int) -> list[Word]:
    """`words`, those that are longer than a line, of `width` characters, in pieces that share the time."""
    pieces = []
    for word in words:
        whole = " ".join(word.word.split())  # a cue ends where a line is empty
        count = -(-len(whole) // width)
        if not count:
            continue
        step = (word.end_s - word.start_s) / count
        for i in range(count):
            text = whole[i * width : (i + 1) * width]
            pieces.append(Word(text, word.start_s + i * step, word.start_s + (i + 1) * step, word.confidence))
    return pieces


def _lines(words: Sequence[Word], width: int) -> tuple[str, ...]:
    """One line, or else two of like length; none if it takes more."""
    text = " ".join(word.word for word in words)
    if len(text) <= width:
        return (text,)
    breaks = [i for i, char in enumerate(text) if char == " " and i <= width and len(text) - i - 1 <= width]
    middle = min(breaks, key=lambda i: abs(len(text) - 1 - 2 * i) - width * _worth(text[:i]), default=0)
    return (text[:middle], text[middle + 1 :]) if middle else ()


def _cut(words: Sequence[Word], width: int) -> Iterator[Sequence[Word]]:
    """The cues' words: the cuts of least cost, found from the end to the start."""
    best: list[tuple[float, int]] = [(0.0, len(words))]  # of the words from i on: cost, end of the first cue
    for i in reversed(range(len(words))):
        choices = []
        for end in range(i + 1, len(words) + 1):
            if (cost := _cost(words[i:end], width)) is None and end > i + 1:
                break  # and more words would not fit either
            pause_s = words[end].start_s - words[end - 1].end_s if end < len(words) else PAUSE_S
            worth = pause_s / PAUSE_S + (_worth(words[end - 1].word) if end < len(words) else 0.0)
            choices.append(((cost or 0.0) + 1 - worth + best[len(words) - end][0], end))
        best.append(min(choices))
    i = 0
    while i < len(words):
        end = best[len(words) - i][1]
        yield words[i:end]
        i = end


def _worth(text: str) -> float:
    """Value of a cut after `text`, by its last word: of its mark, 0 for the periods of "Mr." and "p.m."; or less."""
    word = text.rpartition(" ")[2]
    if word.lower().rstrip(".") in _BINDING and (word in _TITLES or word[-1] != "."):
        return -_WEAK
    if word.endswith((".", "?", "!")) and "." not in word[:-1] and word not in _TITLES:
        return _SENTENCE_END
    return _COMMA if word.endswith((",", ";", ":")) else 0.0


def _cost(words: Sequence[Word], width: int) -> float | None:
    """Cost of one cue: fullness, so that parts become alike, and too short a time. None: too long for a cue."""
    lines = _lines(words, width)
    span_s = words[-1].end_s - words[0].start_s
    if not lines or span_s > MAX_CUE_S:
        return None
    fullness = sum(map(len, lines)) / (2 * width)
    return fullness**2 + 2 * max(0.0, MIN_CUE_S - span_s)
