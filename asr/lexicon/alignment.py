"""Aligns letters with phones: many-to-many alignment by expectation maximization.

Jiampojamarn, Kondrak and Sherif 2007, "Applying many-to-many alignments and hidden Markov models to letter-to-phoneme
conversion". A pronunciation is a sequence of pairs of letters and phones with the shapes in `SHAPES`; the probabilities
of the pairs maximize the likelihood of the dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SHAPES = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
"""Numbers of letters and phones of a pair."""

Pair = tuple[str, tuple[str, ...]]
"""Letters and the phones that they stand for."""

CHUNK = 4096  # entries that share arrays
RARE_COST = 30.0  # nats


@dataclass(frozen=True)
class _Chunk:
    """Entries with the same number L of letters, and at most P phones.

    ids[k]: (num_entries, L, P + 1) int32: the pair of shape k that starts at a letter and a phone, 0 for none.
    """

    entries: list[int]
    num_phones: npt.NDArray[np.int64]
    ids: list[npt.NDArray[np.int32]]


class Aligner:
    """Aligns the words and phones of `entries`; entries without an alignment are skipped."""

    def __init__(self, entries: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        letters = sorted({letter for word, _ in entries for letter in word})
        phones = sorted({phone for _, names in entries for phone in names})
        self._letters, self._phones = letters, phones
        letter_id = {letter: i for i, letter in enumerate(letters, 1)}
        phone_id = {phone: i for i, phone in enumerate(phones, 1)}
        self._radix = max(len(letters), len(phones)) + 1  # 0 is none
        by_length: dict[int, list[int]] = {}
        for i, (word, names) in enumerate(entries):
            if can_align(len(word), len(names)):
                by_length.setdefault(len(word), []).append(i)
        keys: list[tuple[list[int], npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]] = []
        known = np.array([0])
        for _, members in sorted(by_length.items()):
            for start in range(0, len(members), CHUNK):
                part = members[start : start + CHUNK]
                num_phones = np.array([len(entries[i][1]) for i in part])
                word_ids = np.array([[letter_id[letter] for letter in entries[i][0]] for i in part])
                phone_ids = np.zeros((len(part), int(num_phones.max())), np.int64)
                for row, i in enumerate(part):
                    phone_ids[row, : num_phones[row]] = [phone_id[phone] for phone in entries[i][1]]
                chunk = [self._keys(word_ids, phone_ids, num_phones, *shape) for shape in SHAPES]
                keys.append((part, num_phones, chunk))
                known = np.union1d(known, np.unique(np.concatenate([k.ravel() for k in chunk])))
        self._known = known  # keys of all pairs; pair i is known[i], and index 0 means no pair
        self._chunks = [
            _Chunk(part, num_phones, [np.searchsorted(known, k).astype(np.int32) for k in chunk])
            for part, num_phones, chunk in keys
        ]
        self.num_aligned = sum(len(chunk.entries) for chunk in self._chunks)
        self.probs = np.full(len(known), 1.0 / max(len(known) - 1, 1))
        """Probability of each pair, (num_pairs,) float64."""
        self.probs[0] = 0.0
        self.counts = np.zeros(len(known))
        """Expected count of each pair in the entries, from the last EM iteration."""

    def _keys(
        self,
        letters: npt.NDArray[np.int64],
        phones: npt.NDArray[np.int64],
        num_phones: npt.NDArray[np.int64],
        num_letters_of_pair: int,
        num_phones_of_pair: int,
    ) -> npt.NDArray[np.int64]:
        of_letters = self._joined(letters, num_letters_of_pair, letters.shape[1])
        of_phones = self._joined(phones, num_phones_of_pair, phones.shape[1] + 1)
        fits = np.arange(of_phones.shape[1])[None] + num_phones_of_pair <= num_phones[:, None]
        keys = of_letters[:, :, None] * self._radix**2 + of_phones[:, None]
        keys *= fits[:, None] & (of_letters > 0)[:, :, None]
        return keys

    def _joined(self, ids: npt.NDArray[np.int64], count: int, width: int) -> npt.NDArray[np.int64]:
        """(num_entries, width): for each position, `count` consecutive ids as one number in base `_radix`."""
        joined = np.zeros((len(ids), width), np.int64)
        last = ids.shape[1] - count + 1
        for k in range(count):
            joined[:, :last] = joined[:, :last] * self._radix + ids[:, k : k + last]
        return joined * self._radix if count == 1 else joined

    def pair(self, i: int) -> Pair:
        """Pair i in [1, len(probs))."""
        first, second, third, fourth = (int(self._known[i]) // self._radix**k % self._radix for k in (3, 2, 1, 0))
        letters = "".join(self._letters[k - 1] for k in (first, second) if k)
        return letters, tuple(self._phones[k - 1] for k in (third, fourth) if k)

    def step(self) -> float:
        """One EM iteration: expected counts, then probabilities.

        Returns the mean natural log-probability of an entry before the iteration.
        """
        counts = np.zeros(len(self.probs))
        total = 0.0
        for chunk in self._chunks:
            length, width = chunk.ids[0].shape[1], chunk.ids[0].shape[2]
            size = len(chunk.entries)
            rows = np.arange(size)
            forward = np.zeros((length + 1, size, width))
            forward[0, :, 0] = 1.0
            probs = [self.probs[ids] for ids in chunk.ids]
            for i in range(length):
                for (a, b), prob in zip(SHAPES, probs, strict=True):
                    if i + a <= length:
                        forward[i + a, :, b:] += (forward[i] * prob[:, i])[:, : width - b]
            whole = forward[length, rows, chunk.num_phones]
            total += float(np.log(whole).sum())
            backward = np.zeros((length + 1, size, width))
            backward[length, rows, chunk.num_phones] = 1.0 / whole
            for i in range(length - 1, -1, -1):
                for (a, b), prob, ids in zip(SHAPES, probs, chunk.ids, strict=True):
                    if i + a <= length:
                        after = np.zeros((size, width))
                        after[:, : width - b] = backward[i + a, :, b:]
                        after *= prob[:, i]
                        backward[i] += after
                        after *= forward[i]
                        counts += np.bincount(ids[:, i].ravel(), after.ravel(), len(counts))
        counts[0] = 0.0
        self.counts = counts
        self.probs = counts / counts.sum()
        return total / max(self.num_aligned, 1)

    def best(self, rare: float = 0.0) -> list[list[int]]:
        """The most likely alignment of each entry that has one: ids of pairs.

        A pair counts as often as it has letters or phones, whichever is more, so that long pairs are not preferred for
        being few. Pairs with an expected count below `rare` are used only if there is no other alignment.
        """
        with np.errstate(divide="ignore"):
            scores = np.log(self.probs) - np.where(self.counts < rare, RARE_COST, 0.0)
        result: list[list[int]] = []
        for chunk in self._chunks:
            length, width = chunk.ids[0].shape[1], chunk.ids[0].shape[2]
            size = len(chunk.entries)
            best = np.full((length + 1, size, width), -np.inf)
            best[0, :, 0] = 0.0
            shape_of = np.zeros((length + 1, size, width), np.int8)
            for i in range(length):
                for k, (a, b) in enumerate(SHAPES):
                    if i + a > length:
                        continue
                    score = (best[i] + max(a, b) * scores[chunk.ids[k][:, i]])[:, : width - b]
                    better = score > best[i + a, :, b:]
                    best[i + a, :, b:] = np.where(better, score, best[i + a, :, b:])
                    shape_of[i + a, :, b:] = np.where(better, k, shape_of[i + a, :, b:])
            for row in range(size):
                i, j, pairs = length, int(chunk.num_phones[row]), []
                while i:
                    k = int(shape_of[i, row, j])
                    i, j = i - SHAPES[k][0], j - SHAPES[k][1]
                    pairs.append(int(chunk.ids[k][row, i, j]))
                result.append(pairs[::-1])
        return result


def can_align(num_letters: int, num_phones: int) -> bool:
    return 0 < num_phones <= 2 * num_letters
