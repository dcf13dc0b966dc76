"""Splits cased prose into utterances as people read it aloud: one per line, in the recognizer's spelling.

A recognizer ends an utterance at a pause, which is not always the end of a sentence: readers connect sentences and
pause at commas. So a line ends at most ends of sentences and at some commas, chosen at random. Consecutive lines stay
in order and an empty line separates texts, so that a language model can learn from the preceding utterance.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from asr.lm import ngram
from asr.lm.packed import LmError

SENTENCE_END_PROBABILITY = 0.6
PAUSE_PROBABILITY = 0.08
MAX_WORDS = 60
"""Maximum words of an utterance, about 20 s of speech."""

_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?|[.,;:!?]|--")
_OTHER = re.compile(r"[^\W_A-Za-z]")
ABBREVIATIONS = {"MR": "MISTER", "MRS": "MISSUS", "DR": "DOCTOR", "ST": "SAINT"}
"""Abbreviations as transcripts spell them; others are not changed."""

Spellings = Mapping[tuple[str, ...], tuple[str, ...]]
"""Words in capitals, and their replacement."""


def read_spellings(paths: Iterable[Path]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Reads tables of two tab-separated columns, FROM and TO: "COLOUR" and "COLOR", or "TO DAY" and "TODAY"."""
    spellings: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path in paths:
        for number, line in enumerate(map(str.rstrip, ngram.lines(path)), 1):
            columns = [tuple(column.upper().split()) for column in line.split("\t")]
            if len(columns) != 2 or not all(columns):
                raise LmError(f"{path}, line {number}: {line!r} must be two columns separated by a tab")
            spellings[columns[0]] = columns[1]
    return spellings


def utterances(lines: Iterable[str], spellings: Spellings) -> Iterator[str]:
    """The utterances of `lines`, the cased sentences of a text in order; "" for sentences that are left out.

    Accents are removed. Sentences with digits are left out, because their spoken form is unknown, and those with other
    letters.
    """
    draw = random.Random(0)
    longest = max(map(len, spellings), default=0)
    begun: list[str] = []

    def ended() -> Iterator[str]:
        """The utterance that has begun, if there is one."""
        if begun:
            yield " ".join(_respelled(begun, spellings, longest))
            begun.clear()

    for line in lines:
        letters = (c for c in unicodedata.normalize("NFKD", line) if not unicodedata.combining(c))
        plain = "".join(letters).replace("’", "'")
        tokens = _WORD.findall(plain)
        if not tokens or _OTHER.search(plain):
            yield from ended()
            yield ""
            continue
        for index, token in enumerate(tokens):
            if token[0].isalpha():
                word = token.upper()
                begun.append(ABBREVIATIONS.get(word, word))
                if len(begun) < MAX_WORDS:
                    continue
            else:
                is_end = token in ".!?" and index + 1 >= len(tokens) - 1
                if draw.random() >= (SENTENCE_END_PROBABILITY if is_end else PAUSE_PROBABILITY):
                    continue
            yield from ended()
    yield from ended()


def _respelled(words: list[str], spellings: Spellings, longest: int) -> Iterator[str]:
    index = 0
    while index < len(words):
        for length in range(min(longest, len(words) - index), 0, -1):
            known = spellings.get(tuple(words[index : index + length]))
            if known is not None:
                yield from known
                index += length
                break
        else:
            yield words[index]
            index += 1
