"""Cues: the words of finals as texts for the screen, cut and timed so that they can be read.

By default, a cue has one or two lines of at most 42 characters and is shown for 1 to 7 seconds, following broadcasters
(BBC Subtitle Guidelines; Netflix Timed Text Style Guide); layout.py has the limits. It stays up to half a second after
the last word. Gaps that would flicker are closed, except for 83 ms that show the change of text. A cue never contains
words of two utterances. An utterance is cut at all places jointly: at punctuation and pauses, not after "the" or "of",
into as few parts as possible of similar length. So is a cue into its lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from asr.runtime.search import Word
from asr.streaming.events import Final
from asr.streaming.terminal.layout import DEFAULTS, Layout

MIN_CUE_S = 1.0
"""Shorter cues are extended to this duration, if possible."""
FAST_LETTERS, FAST_WORDS = 25.0, 6.0
"""Letters and words that a fast speaker says in a second."""
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


class Cue(NamedTuple):
    """Text on the screen. Times in seconds since the start of the stream; `words`: those of each line."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]
    words: tuple[tuple[Word, ...], ...]


class Cues:
    """Cues from finals, in order and without overlap: a cue begins when the previous one has ended.

    The last cue is held back until the next one is known, or until none can follow soon, because that determines how
    long it is shown.
    """

    def __init__(self, layout: Layout = DEFAULTS, before: str = "") -> None:
        """before: text at the beginning of each cue. It counts in the length of a line, but leaves half of it."""
        self._before = before
        self._cutter = _Cutter(layout, max(layout.line_length - len(before), layout.line_length // 2))
        self._max_cue_s = layout.max_cue_s
        self._end_s = 0.0
        self.held: Cue | None = None

    def add(self, final: Final) -> list[Cue]:
        """The cues that the next final completes."""
        found = []
        for words in self._cutter.cut(final.words):
            cue = self._place(words)
            found += self.settle(cue.start_s)
            self.held = cue
        return found

    def settle(self, next_s: float = math.inf) -> list[Cue]:
        """The cue that was held back, if the next one begins at `next_s`."""
        if self.held is None:
            return []
        cue, self.held = self.held, None
        self._end_s = _stands_until(cue, max(next_s, cue.end_s), self._max_cue_s)
        return [cue._replace(end_s=self._end_s)]

    def _place(self, words: Sequence[Word]) -> Cue:
        start = max(words[0].start, self.held.end_s if self.held else self._end_s)
        end = start + min(max(words[-1].end - start, self._cutter.min_cue_s), self._max_cue_s)
        lines = self._cutter.lines(words)
        first, *rest = (" ".join(piece.word for piece in line) for line in lines)
        return Cue(start, end, (self._before + first, *rest), lines)


def _stands_until(cue: Cue, next_s: float, max_cue_s: float) -> float:
    """End of a cue whose words end at `cue.end_s`, before the next cue begins."""
    end = min(cue.end_s + LINGER_S, next_s - GAP_S)
    if next_s - end < MIN_GAP_S:
        end = next_s - GAP_S
    return min(max(end, cue.start_s + MIN_CUE_S), cue.start_s + max_cue_s, next_s)


class _Cutter:
    """Cuts words into cues, and cues into lines of `width` letters."""

    def __init__(self, layout: Layout, width: int) -> None:
        self._layout, self._width = layout, width
        self._num_letters = layout.max_lines * width
        self._max_words = math.inf if layout.max_words is None else layout.max_words
        said_s = min(self._num_letters / FAST_LETTERS, self._max_words / FAST_WORDS, layout.max_cue_s / 2)
        self.min_cue_s = min(MIN_CUE_S, said_s)
        """A cue delays the next one until it has been shown this long. With little text in a cue, a longer time would
        let cues fall behind the speech."""

    def cut(self, words: Iterable[Word]) -> Iterator[Sequence[Word]]:
        """The words of the cues: the cuts with the lowest total cost (dynamic programming from the end)."""
        words = self._spelled(words)
        best: list[tuple[float, int]] = [(0.0, len(words))]  # for the words from i on: cost, end of the first cue
        for i in reversed(range(len(words))):
            choices = []
            for end, cost in enumerate(self._costs(words[i:]), i + 1):
                pause_s = words[end].start - words[end - 1].end if end < len(words) else PAUSE_S
                worth = pause_s / PAUSE_S + (_worth(words[end - 1].word) if end < len(words) else 0.0)
                choices.append((cost + 1 - worth + best[len(words) - end][0], end))
            best.append(min(choices))
        i = 0
        while i < len(words):
            end = best[len(words) - i][1]
            yield words[i:end]
            i = end

    def lines(self, words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
        """The words of a cue in as few lines as possible, of similar length (dynamic programming from the end)."""
        pieces = _pieces(words)
        num_lines, used = 0, self._width
        for piece in pieces:
            used += 1 + len(piece.word)
            if used > self._width:
                num_lines, used = num_lines + 1, len(piece.word)
        mean = (_length(pieces) - (num_lines - 1)) / num_lines
        count = len(pieces)
        # For the pieces from i on in the last lines: cost, and the end of the first of these lines.
        best = [[(math.inf, count)] * count + [(0.0, count)]]
        for _ in range(num_lines):
            row = [(math.inf, count)] * (count + 1)
            for i in range(count):
                choices = []
                for end in range(i + 1, count + 1):
                    if (length := _length(pieces[i:end])) > self._width:
                        break
                    worth = _worth(pieces[end - 1].word) if end < count else 0.0
                    choices.append((abs(length - mean) + best[-1][end][0] - self._width * worth, end))
                row[i] = min(choices)
            best.append(row)
        found, i = [], 0
        for row in reversed(best[1:]):
            end = row[i][1]
            found.append(tuple(pieces[i:end]))
            i = end
        return tuple(found)

    def _spelled(self, words: Iterable[Word]) -> list[Word]:
        """Splits words longer than a line into pieces that share the word's time."""
        pieces = []
        for word in words:
            whole = " ".join(word.word.split())  # an empty line would end the cue
            count = -(-len(whole) // self._width)
            if not count:
                continue
            step = (word.end - word.start) / count
            for i in range(count):
                text = whole[i * self._width : (i + 1) * self._width]
                pieces.append(Word(text, word.start + i * step, word.start + (i + 1) * step, word.confidence))
        return pieces

    def _costs(self, words: Sequence[Word]) -> Iterator[float]:
        """The costs of cues of the first word, of the first two and so on, as long as they fit: their fullness, so that
        parts have similar length, plus a penalty for a short duration."""
        limits = self._layout
        num_lines, used, num_letters = 0, self._width, 0
        for num_words, word in enumerate(words, 1):
            for part in word.word.split(" "):
                used += 1 + len(part)
                num_letters += 1 + len(part)
                if used > self._width:
                    num_lines, used = num_lines + 1, len(part)
            span_s = word.end - words[0].start
            if num_lines > limits.max_lines or num_words > self._max_words or span_s > limits.max_cue_s:
                if num_words == 1:
                    yield 0.0
                return
            fullness = max((num_letters - num_lines) / self._num_letters, num_words / self._max_words)
            yield fullness**2 + 2 * max(0.0, self.min_cue_s - span_s)


def _pieces(words: Iterable[Word]) -> list[Word]:
    """The words, those with spaces in parts of the same time, because a line may end at any space."""
    return [word._replace(word=part) for word in words for part in word.word.split(" ")]


def _length(pieces: Sequence[Word]) -> int:
    """The number of letters, with a space between two pieces."""
    return sum(len(piece.word) + 1 for piece in pieces) - 1


def _worth(text: str) -> float:
    """Value of a cut after `text`, by the punctuation of its last word: 0 for "Mr." and "p.m.", or negative after a
    binding word."""
    word = text.rpartition(" ")[2]
    if word.lower().rstrip(".") in _BINDING and (word in _TITLES or word[-1] != "."):
        return -_WEAK
    if word.endswith((".", "?", "!")) and "." not in word[:-1] and word not in _TITLES:
        return _SENTENCE_END
    return _COMMA if word.endswith((",", ";", ":")) else 0.0
