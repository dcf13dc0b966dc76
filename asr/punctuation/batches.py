"""Training batches: utterances cut from running text, with random pauses that depend on the punctuation.

An utterance has a few words to a few sentences. It begins with a sentence or within one, and ends with one, within one,
or at a cut with more words after it, as in live recognition. Several utterances share a row and do not attend to each
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import special_features, word_features
from asr.punctuation.corpus import COMMA, NONE, PERIOD, QUESTION, UNKNOWN_CASE, Corpus

IGNORED = -100
"""Label of a unit that is not trained on; PyTorch's default."""

PAUSES = {
    NONE: (0.970, 0.0, 0.011, 0.011, 0.005, 0.002, 0.001),
    COMMA: (0.326, 0.0, 0.049, 0.219, 0.265, 0.112, 0.029),
    PERIOD: (0.008, 0.0, 0.003, 0.046, 0.139, 0.437, 0.367),
    QUESTION: (0.045, 0.0, 0.011, 0.045, 0.102, 0.307, 0.490),
}
"""Shares of the pause classes (from class 1; class 0 is an unknown pause) after each mark in read speech, at 12,960
places between recognized words of LibriSpeech's train-clean-100 with the marks of LibriTTS, also between utterances,
where most sentences end. Semicolons, colons and dashes count as commas.
`python benchmarks/punctuation.py data/train --cased libritts-cased.txt` prints them."""

PACE = 0.45
"""Standard deviation of a speaker's mean in a normal deviate of variance 1 that stands for the length of a pause: some
pause for 0.3 s after a fifth of the commas, others after two thirds. Of 13 speakers, the variance of the mean is 0.1 of
that within a speaker after commas and 0.4 after periods."""

NO_PAUSES = 0.35
"""Share of utterances with unknown pauses."""
HESITANT = 0.25
"""Share of the other utterances that are spontaneous speech: a pause may be anywhere."""
HESITATION = 0.25
"""Share of pauses in these utterances that do not depend on the mark."""
AT_SENTENCE = 0.85
"""Share of utterances that begin with a sentence."""
ENDS = (0.65, 0.10, 0.25)
"""Shares of utterances that end with a sentence, end within one, or continue beyond the cut."""


class Batch(NamedTuple):
    features: npt.NDArray[np.int32]
    """(N, T, NUM_WORD_FEATURES)"""
    pauses: npt.NDArray[np.uint8]
    """(N, T) classes"""
    segments: npt.NDArray[np.int16]
    """(N, T) index of the utterance in its row; -1 for padding"""
    marks: npt.NDArray[np.int64]
    """(N, T) NONE to QUESTION, or IGNORED"""
    cases: npt.NDArray[np.int64]
    """(N, T) LOWER to UPPER, or IGNORED"""


class BatchMaker:
    """Draws batches from a corpus; deterministic in seed and step."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self._corpus = corpus
        self._seed = seed
        specials = [special_features(unit) for unit in ("sentence", "continues", "end")]
        self._features = np.concatenate((word_features(corpus.vocabulary), np.stack(specials)))
        self._sentence, self._continues, self._end = range(len(corpus.vocabulary), len(self._features))
        self._breaks = np.append(corpus.breaks, len(corpus))
        self._pause_ends = np.stack([_class_ends(PAUSES[mark]) for mark in (NONE, COMMA, PERIOD, QUESTION)])
        self._any_pause = _class_ends((0.3, 0.1, 0.15, 0.15, 0.15, 0.1, 0.05))

    def __call__(self, step: int, num_rows: int, num_units: int) -> Batch:
        """num_rows rows of num_units units, which are words and the units before and after utterances."""
        random = np.random.default_rng((self._seed, step))
        units = np.full((num_rows, num_units), self._end, np.int32)
        pauses = np.zeros((num_rows, num_units), np.uint8)
        segments = np.full((num_rows, num_units), -1, np.int16)
        marks = np.full((num_rows, num_units), IGNORED, np.int64)
        cases = np.full((num_rows, num_units), IGNORED, np.int64)
        for row in range(num_rows):
            at = segment = 0
            while num_units - at >= 4:
                start, stop, first, ended = self._draw(random, num_units - at - 2)
                size = stop - start
                segments[row, at : at + 1 + size + ended] = segment
                units[row, at] = first
                words = slice(at + 1, at + 1 + size)
                units[row, words] = self._corpus.words[start:stop]
                marks[row, words] = self._corpus.marks[start:stop]
                cases[row, words] = self._corpus.cases[start:stop]
                if random.random() >= NO_PAUSES and size > 1:
                    pauses[row, at + 2 : at + 1 + size] = self._pauses(random, self._corpus.marks[start : stop - 1])
                at += 1 + size + ended
                segment += 1
        cases[cases == UNKNOWN_CASE] = IGNORED
        return Batch(self._features[units], pauses, segments, marks, cases)

    def _draw(self, random: np.random.Generator, max_words: int) -> tuple[int, int, int, int]:
        """Returns an utterance of at most `max_words` words: the range [start, stop), its first unit, and 1 if it has
        an end unit."""
        corpus = self._corpus
        at_sentence = random.random() < AT_SENTENCE
        if at_sentence:
            start = int(corpus.starts[random.integers(len(corpus.starts))])
        else:
            start = int(random.integers(len(corpus)))
        limit = int(self._breaks[np.searchsorted(self._breaks, start, "right")])
        wanted = min(2 + int(random.exponential(18.0)), max_words)
        stop = min(start + wanted, limit)
        how = random.choice(3, p=ENDS)
        if how == 0:  # the sentence at that position, or the one before
            index = int(np.searchsorted(corpus.starts, stop))
            later = int(corpus.starts[index]) if index < len(corpus.starts) else len(corpus)
            if later - start <= max_words:
                stop = later
            elif index and corpus.starts[index - 1] > start:
                stop = int(corpus.starts[index - 1])
            else:
                how = 2
        return start, stop, self._sentence if at_sentence else self._continues, int(how != 2)

    def _pauses(self, random: np.random.Generator, marks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Classes of the pauses after the marks, by one speaker."""
        lengths = PACE * random.standard_normal() + (1 - PACE**2) ** 0.5 * random.standard_normal((len(marks), 1))
        classes = (lengths > self._pause_ends[marks]).sum(1)
        if random.random() < HESITANT:
            anywhere = random.random(len(marks)) < HESITATION
            classes = np.where(anywhere, (lengths > self._any_pause).sum(1), classes)
        return (1 + classes).astype(np.uint8)


def _class_ends(shares: Sequence[float]) -> npt.NDArray[np.float64]:
    """(NUM_PAUSE_CLASSES - 2,) upper bounds of all classes but the last, as normal deviates."""
    cumulative = np.cumsum(shares)[:-1] / sum(shares)
    return np.array([NormalDist().inv_cdf(min(share, 1 - 1e-9)) for share in cumulative])
