"""Word errors, counted by jiwer; they can be summed over utterances, processes and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WordErrors:
    insertions: int = 0
    deletions: int = 0
    substitutions: int = 0
    num_words: int = 0
    """Words of the reference."""

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(*(getattr(self, n) + getattr(other, n) for n in self.__dataclass_fields__))

    @property
    def num_errors(self) -> int:
        return self.insertions + self.deletions + self.substitutions

    @property
    def rate(self) -> float:
        """Word error rate: 0.1 is 10 %. Zero if reference and hypothesis are empty."""
        return self.num_errors / self.num_words if self.num_words else float(self.num_errors > 0)


def count_errors(references: Sequence[str], hypotheses: Sequence[str]) -> WordErrors:
    """Minimal edits between each reference and its hypothesis, summed."""
    import jiwer

    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references for {len(hypotheses)} hypotheses")
    total = WordErrors()
    empty = [h for r, h in zip(references, hypotheses, strict=True) if not r.split()]
    total += WordErrors(insertions=sum(len(h.split()) for h in empty))  # jiwer rejects an empty reference
    pairs = [(r, h) for r, h in zip(references, hypotheses, strict=True) if r.split()]
    if pairs:
        out = jiwer.process_words([r for r, _ in pairs], [h for _, h in pairs])
        num_words = out.hits + out.substitutions + out.deletions
        total += WordErrors(out.insertions, out.deletions, out.substitutions, num_words)
    return total


def chance_of(fewer: Sequence[int]) -> float:
    """Probability of at least this many fewer errors in total if two systems were equal.

    fewer: by how many errors one system has fewer than the other, for each utterance. An exact paired permutation test:
    each difference is as likely in one direction as in the other.
    """
    counts = np.ones(1)  # probability of each sum of the differences in favor of the system
    for difference in map(abs, fewer):
        counts = (np.pad(counts, (0, difference)) + np.pad(counts, (difference, 0))) / 2
    return float(counts[sum(each for each in fewer if each > 0) :].sum())


def matched_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """Index pairs (reference, hypothesis) of the words that match in a minimal alignment."""
    import jiwer

    if not reference or not hypothesis:
        return []
    pieces = jiwer.process_words(" ".join(reference), " ".join(hypothesis)).alignments[0]
    return [
        (piece.ref_start_idx + i, piece.hyp_start_idx + i)
        for piece in pieces
        if piece.type == "equal"
        for i in range(piece.ref_end_idx - piece.ref_start_idx)
    ]
