"""Training batches: utterances cut from running text, with random pauses that depend on the punctuation.

An utterance has a few words to a few sentences. It begins with a sentence or within one, and ends with one, within one,
or at a cut with more words after it, as in live recognition. Several utterances share a row and do not attend to each
other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr._core import NUM_PAUSE_CLASSES, special_features, word_features
from asr.punctuation.corpus import COMMA, NONE, PERIOD, QUESTION, UNKNOWN_CASE, Corpus

IGNORED = -100
"""Label of a unit that is not trained on; PyTorch's default."""

PAUSES = {
    NONE: (0.935, 0.01, 0.033, 0.016, 0.004, 0.001, 0.001),
    COMMA: (0.36, 0.01, 0.09, 0.26, 0.235, 0.04, 0.005),
    PERIOD: (0.012, 0.005, 0.035, 0.068, 0.27, 0.35, 0.26),
    QUESTION: (0.012, 0.005, 0.035, 0.068, 0.27, 0.35, 0.26),
}
"""Shares of the pause classes (from class 1; class 0 is an unknown pause) after each mark in read speech. Measured at
1862 places between words that the bundled model recognized in 100 utterances of LibriSpeech's train-clean-100, with the
marks of LibriTTS. There were only 7 question marks, which therefore use the shares of periods."""

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
        cumulative = np.cumsum([PAUSES[mark] for mark in (NONE, COMMA, PERIOD, QUESTION)], axis=1)
        self._pause_ends = (cumulative / cumulative[:, -1:]).astype(np.float32)
        self._any_pause = np.array([0.3, 0.1, 0.15, 0.15, 0.15, 0.1, 0.05]).cumsum().astype(np.float32)

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
        """Classes of the pauses after the marks."""
        draws = random.random((len(marks), 1), np.float32)
        classes = (draws > self._pause_ends[marks]).sum(1)
        if random.random() < HESITANT:
            anywhere = random.random(len(marks)) < HESITATION
            classes = np.where(anywhere, (draws > self._any_pause).sum(1), classes)
        return (1 + np.minimum(classes, NUM_PAUSE_CLASSES - 2)).astype(np.uint8)
