"""G of a decoding graph: the n-grams of a back-off language model (Katz 1987) as a transducer of words.

A state is the longest known context of the words so far. It has an arc for each n-gram that extends it, and an arc that
backs off to a shorter context. Every state is final, because a speaker may pause after any word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from asr._core import LmFusion
from asr.export.fst import EPSILON, Costs, Fst, Ints
from asr.lm.packed import SENTENCE_BEGIN, SENTENCE_END, Ngrams
from asr.runtime.search import LmWeights


class Contexts:
    """N-grams in ascending order, and their states. State 0 is the empty context."""

    def __init__(self, levels: Sequence[Ngrams]) -> None:
        """levels: as asr.lm.packed.unpack returns them."""
        self.base = len(levels[0].words)
        self.keys: list[Ints] = []
        self.levels: list[Ngrams] = []
        self.beginnings: list[Ints] = []
        """For each order: the position of each n-gram's prefix among the n-grams of the order below."""
        self.states: list[Ints] = []
        """For each order but the last: the state of each n-gram; -1 if no n-gram extends it."""
        self.num_states = 1
        for level in levels:
            beginning = self.find(level.words[:, :-1])
            keys = beginning * self.base + level.words[:, -1]
            sort = np.argsort(keys)
            log_probs, backoffs = (np.float32(math.log(10)) * x[sort] for x in (level.log_probs, level.backoffs))
            if self.levels:
                continued = np.bincount(beginning, minlength=len(self.keys[-1])) > 0
                self.states.append(np.where(continued, self.num_states + np.cumsum(continued) - 1, -1))
                self.num_states += int(continued.sum())
            self.keys.append(keys[sort])
            self.levels.append(Ngrams(level.words[sort], log_probs, backoffs))
            self.beginnings.append(beginning[sort])

    def find(self, words: Ints) -> Ints:
        """Positions (count,) of the n-grams `words` (count, n); -1 for unknown ones."""
        found = np.zeros(len(words), np.int64)
        for column, keys in zip(words.T, self.keys, strict=False):
            wanted = found * self.base + column
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            found = np.where((found >= 0) & (keys[place] == wanted), place, -1)
        return found

    def after(self, words: Ints) -> tuple[Ints, Costs]:
        """The state after the words (count, n), and the cost of backing off to it."""
        state, log_backoff = np.full(len(words), -1), np.zeros(len(words), np.float32)
        for n in range(min(words.shape[1], len(self.states)), 0, -1):
            place = self.find(words[:, words.shape[1] - n :])
            longest = np.where(place >= 0, self.states[n - 1][place], -1)
            passed = (state < 0) & (place >= 0) & (longest < 0)
            log_backoff += np.where(passed, self.levels[n - 1].backoffs[place], 0)
            state = np.where(state < 0, longest, state)
        return np.maximum(state, 0), -log_backoff


def grammar(
    words: Sequence[str], levels: Sequence[Ngrams], labels: Ints, backoff_label: int, weights: LmWeights
) -> Fst:
    """The transducer G. labels: (num_words,) label of each word; words with label 0 are left out."""
    contexts = Contexts(levels)
    places = {word: place for place, word in enumerate(words)}
    final = np.zeros(contexts.num_states, np.float32)
    parts: list[tuple[Ints, Ints, Costs, Ints]] = []
    for n, level in enumerate(contexts.levels, 1):
        state = np.zeros(len(level.words), np.int64)
        if n > 1:
            states, shorter = contexts.states[n - 2], contexts.levels[n - 2]
            state = states[contexts.beginnings[n - 1]]
            backing = np.flatnonzero(states >= 0)
            target, cost = contexts.after(shorter.words[backing, 1:])
            cost -= shorter.backoffs[backing]
            parts.append((states[backing], np.full(len(backing), backoff_label), cost, target))
            final[states[backing]] = final[target] + cost
        ends = level.words[:, -1] == places[SENTENCE_END]
        final[state[ends]] = -level.log_probs[ends]
        kept = np.flatnonzero(labels[level.words[:, -1]])
        target, cost = contexts.after(level.words[kept])
        parts.append((state[kept], labels[level.words[kept, -1]], cost - level.log_probs[kept], target))
    source, reads, cost, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    writes = np.where(reads == backoff_label, EPSILON, reads)
    final = np.minimum(final, -LmFusion.PAUSE_LOG_PROB)
    start, _ = contexts.after(np.array([[places[SENTENCE_BEGIN]]]))
    weight = np.float32(weights.weight)
    return Fst(source, reads, writes, weight * cost, target, weight * final, int(start[0]))
