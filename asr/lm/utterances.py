"""Cased prose as people read it aloud: one utterance a line, in the recognizer's spelling.

A recognizer ends an utterance at a pause, and a pause is not the end of a sentence: readers run sentences together and
pause at commas. So a line ends at most ends of sentences and at some commas, drawn at random. Consecutive lines stay in
their order, and an empty line parts texts, so that a language model can learn what the utterance before says about the
next one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from asr.lm.packed import LmError

SENTENCE_END_PROBABILITY = 0.6
PAUSE_PROBABILITY = 0.08
MAX_WORDS = 60
"""Words of an utterance at most, about 20 s of speech."""

_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?|[0-9]|[.,;:!?]|--")
_ABBREVIATIONS = {"MR": "MISTER", "MRS": "MISSUS", "DR": "DOCTOR", "ST": "SAINT"}
"""As transcripts spell them; others are left as they are."""

Spellings = Mapping[tuple[str, ...], tuple[str, ...]]
"""Words in capitals, and what they become."""


def read_spellings(paths: Iterable[Path]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Tables of two columns, FROM and TO, with a tab between: "COLOUR" and "COLOR", or "TO DAY" and "TODAY"."""
    spellings: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            columns = [tuple(column.upper().split()) for column in line.split("\t")]
            if len(columns) != 2 or not all(columns):
                raise LmError(f"{path}, line {number}: {line!r} has to be two columns with a tab between")
            spellings[columns[0]] = columns[1]
    return spellings


def utterances(lines: Iterable[str], spellings: Spellings, seed: int = 0) -> Iterator[str]:
    """The utterances of `lines`, cased sentences in the order of a text; "" where one is left out.

    A sentence with digits is left out: nobody knows how it is spoken.
    """
    draw = random.Random(seed)
    longest = max(map(len, spellings), default=0)
    begun: list[str] = []
    for line in lines:
        tokens = _WORD.findall(line.replace("’", "'"))
        if any(token.isdigit() for token in tokens) or not tokens:
            if begun:
                yield " ".join(_respelled(begun, spellings, longest))
            begun = []
            yield ""
            continue
        for index, token in enumerate(tokens):
            if token[0].isalpha():
                word = token.upper()
                begun.append(_ABBREVIATIONS.get(word, word))
                if len(begun) < MAX_WORDS:
                    continue
            else:
                is_end = token in ".!?" and index + 1 >= len(tokens) - 1
                if draw.random() >= (SENTENCE_END_PROBABILITY if is_end else PAUSE_PROBABILITY):
                    continue
            if begun:
                yield " ".join(_respelled(begun, spellings, longest))
            begun = []
    if begun:
        yield " ".join(_respelled(begun, spellings, longest))


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
