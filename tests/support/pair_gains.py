"""The scores that letters or phones of known words gain in the search, computed from the definition."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence


def pair_gains(
    unigrams: Mapping[str, float], forms: Callable[[str], Sequence[Sequence[str]]], weight: float
) -> dict[tuple[str, str], float]:
    """The gain of each pair of letters or phones, a space around every word among them.

    unigrams: log10 probabilities of words; forms: the spelling of a word, or its pronunciations
    """
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for word, log10 in unigrams.items():
        for form in forms(word):
            for pair in itertools.pairwise([" ", *form, " "]):
                counts[pair] += 10**log10 / len(forms(word))
    units = sorted({unit for pair in counts for unit in pair})
    total = sum(counts.values())
    before = {unit: sum(counts[unit, other] for other in units) for unit in units}
    share = {unit: sum(counts[other, unit] for other in units) / total for unit in units}
    return {
        (a, b): -weight * math.log(max(0.95 * counts[a, b] / before[a] + 0.05 * share[b], 0.005))
        for a in units
        for b in units
    }
