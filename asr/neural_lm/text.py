"""Converts text to word pieces, and cuts it into rows for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from asr.lm.ngram import lines
from asr.lm.packed import LmError
from asr.tokenizer import SOS_EOS_ID, Tokenizer

PIECES_FROM = 2_000_000
"""Lines of each file for learning the pieces."""
HELD_OUT_EVERY, HELD_OUT_LINES = 50_000, 50
"""The first HELD_OUT_LINES lines of every HELD_OUT_EVERY lines are held out."""


@dataclass(frozen=True)
class Text:
    """pieces: (num_pieces,) uint16, concatenated utterances with SOS_EOS before each."""

    name: str
    weight: float
    pieces: np.ndarray
    starts: np.ndarray
    """(num_utterances,) int64: the start of each."""
    held_out: np.ndarray
    """(num_pieces,) uint16, the same for held-out text."""


def learn_pieces(paths: Iterable[Path], num_pieces: int) -> Tokenizer:
    """Learns WordPiece tokens, matched longest first. They can spell every word that occurs more than once."""
    counts: Counter[str] = Counter()
    for path in paths:
        for line in islice(lines(path), PIECES_FROM):
            counts.update(line.split())
    # The trainer takes texts, and a hundredth of each word's count is enough.
    texts = (" ".join([word] * -(-count // 100)) for word, count in sorted(counts.items()) if count > 1)
    return Tokenizer.train("wordpiece", texts, num_pieces)


def read(path: Path, name: str, weight: float, tokenizer: Tokenizer) -> Text:
    """Reads a file of utterances, one per line. Lines without words separate texts. name: in scores."""
    sos_eos = np.array([SOS_EOS_ID], np.uint16).tobytes()

    @cache
    def encoded(word: str) -> bytes:
        return np.array(tokenizer.encode(word), np.uint16).tobytes()

    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for number, line in enumerate(lines(path)):
        if words := line.split():
            parts[number % HELD_OUT_EVERY < HELD_OUT_LINES].append(b"".join((sos_eos, *map(encoded, words))))
    if not parts[0]:
        raise LmError(f"{path} has no word after its first {HELD_OUT_LINES} lines, which are held out")
    stream, held_out = (np.frombuffer(b"".join(each), np.uint16) for each in parts)
    return Text(name, weight, stream, np.flatnonzero(stream == SOS_EOS_ID), held_out)


def rows(texts: Sequence[Text], num_rows: int, length: int, seed: tuple[int, int]) -> np.ndarray:
    """(num_rows, length + 1) int64 excerpts that begin with randomly chosen utterances; texts are chosen by weight."""
    draw = np.random.default_rng(seed)
    weights = np.array([text.weight for text in texts])
    result = np.full((num_rows, length + 1), SOS_EOS_ID, np.int64)
    for row, index in zip(result, draw.choice(len(texts), num_rows, p=weights / weights.sum()), strict=True):
        text = texts[index]
        start = text.starts[draw.integers(len(text.starts))]
        stretch = text.pieces[start : start + length + 1]
        row[: len(stretch)] = stretch
    return result
