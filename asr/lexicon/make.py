"""Pronounces every word of a text: with a dictionary, otherwise with the rule for possessives, otherwise with a
model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from asr._core import G2p
from asr.lexicon.english import is_english, possessive, possessive_base
from asr.lexicon.g2p import pronounce
from asr.lexicon.lexicon import Lexicon, Pronunciation

LEAST_SHARE = 0.3
"""Minimum probability of an additional pronunciation from the model, relative to the most likely one."""


def first_few(words: Sequence[str], most: int = 10) -> str:
    """Lists the first words on one line."""
    return " ".join(words[:most]) + (" ..." if len(words) > most else "")


class Pronouncer:
    """Pronounces words with `dictionary`, then a rule, then `g2p`; dictionary and model are optional.

    max_variants: maximum pronunciations from the model; those of a dictionary are all kept.
    """

    def __init__(self, dictionary: Lexicon | None, g2p: G2p | None, max_variants: int = 2) -> None:
        self._dictionary = dictionary
        self._g2p = g2p
        self._max_variants = max_variants
        self._possessives = dictionary is not None and is_english(dictionary)

    def __call__(self, word: str) -> tuple[str, tuple[Pronunciation, ...]]:
        """The source ("dictionary", "rule", "model" or "nowhere"), and the pronunciations."""
        if self._dictionary is not None and word in self._dictionary:
            return "dictionary", self._dictionary[word]
        if self._possessives and (base := possessive_base(word)):
            _, known = self(base)
            if known:
                return "rule", tuple(possessive(word, phones) for phones in known)
        if self._g2p is not None and (found := pronounce(self._g2p, word, self._max_variants)):
            least = found[0][1] + math.log(LEAST_SHARE)
            return "model", tuple(phones for phones, log_prob in found if log_prob >= least)
        return "nowhere", ()


def make(words: Iterable[str], pronouncer: Pronouncer) -> tuple[Lexicon, Counter[str], list[str]]:
    """Returns a lexicon of the words in upper case, counts by source, and the words without pronunciation."""
    pronunciations: dict[str, tuple[Pronunciation, ...]] = {}
    sources: Counter[str] = Counter()
    missing: list[str] = []
    for word in dict.fromkeys(word.upper() for word in words):
        source, found = pronouncer(word)
        sources[source] += 1
        if found:
            pronunciations[word] = found
        else:
            missing.append(word)
    return Lexicon(pronunciations), sources, missing
