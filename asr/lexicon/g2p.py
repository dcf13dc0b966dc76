"""Trains a grapheme-to-phoneme model: a joint n-gram model over pairs of letters and phones.

Bisani and Ney 2008, "Joint-sequence models for grapheme-to-phoneme conversion"; Novak, Minematsu and Hirose 2016,
"Phonetisaurus". The dictionary is aligned (`asr.lexicon.alignment`); `asr.lm` trains, prunes and packs the n-gram model
of the aligned pairs. csrc/search/g2p.h describes the spelling of pairs, and decodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr._core import G2p
from asr.lexicon.alignment import Aligner, Pair
from asr.lexicon.lexicon import Lexicon, LexiconError, Pronunciation
from asr.lm import ngram
from asr.lm.packed import SPECIAL_WORDS, pack


@dataclass(frozen=True)
class G2pOptions:
    order: int = 5
    megabytes: float = 2.0
    num_iterations: int = 10
    fewest: int = 2
    """Entries that need a rarer pair are skipped."""


def load_g2p(path: str | Path) -> G2p:
    """Raises LexiconError, with the name of the file, if it is missing or damaged."""
    try:
        return G2p(np.fromfile(path, np.uint8))
    except OSError as error:
        raise LexiconError(f"pronunciation model {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LexiconError(f"{path}: {error}") from error


def pronounce(g2p: G2p, word: str, num_best: int = 1) -> list[tuple[Pronunciation, float]]:
    """The most likely pronunciations by phone names, with natural log-probabilities; see `G2p.pronounce`."""
    phones = g2p.phones
    return [(tuple(phones[i] for i in ids), log_prob) for ids, log_prob in g2p.pronounce(word, num_best)]


def train(lexicon: Lexicon, options: G2pOptions, report: Callable[[str], None] = lambda text: None) -> bytes:
    """The packed model. Raises LexiconError if no word can be aligned with its phones."""
    entries = [(word, phones) for word, all_phones in lexicon.pronunciations.items() for phones in all_phones]
    aligner = Aligner(entries)
    if not aligner.num_aligned:
        raise LexiconError("no word has a pronunciation of at most two phones per letter")
    for i in range(options.num_iterations):
        log_prob = aligner.step()
        report(f"aligning, {i + 1} of {options.num_iterations}: log-probability of a pronunciation {log_prob:.2f}")
    aligned = aligner.best(options.fewest)
    counts = Counter(pair for pairs in aligned for pair in pairs)
    used = [pairs for pairs in aligned if all(counts[pair] >= options.fewest for pair in pairs)]
    used = used or aligned
    kept = sorted({pair for pairs in used for pair in pairs})
    ids = {pair: i for i, pair in enumerate(kept, ngram.UNK + 1)}
    words = [*SPECIAL_WORDS, *(written(aligner.pair(pair)) for pair in kept)]
    report(f"{len(used)} of {len(entries)} pronunciations aligned, {len(kept)} pairs of letters and phones")
    tokens = np.array(
        [token for pairs in used for token in (ngram.BOS, *(ids[pair] for pair in pairs), ngram.EOS)], np.int64
    )
    model = ngram.estimate(ngram.count_ngrams(tokens, len(words), options.order))
    pruned = ngram.prune(model, ngram.select(model, 1e6 * options.megabytes))
    report(f"{sum(int(keep.sum()) for keep in pruned.keep)} of {sum(len(p) for p in model.prob)} n-grams kept")
    return pack(*ngram.tables(pruned, words))


def written(pair: Pair) -> str:
    """The spelling of a pair for csrc/search/g2p.h."""
    letters, phones = pair
    return f"{letters}}}{'|'.join(phones)}"


@dataclass(frozen=True)
class ErrorRates:
    """Error rates of the most likely pronunciation against the nearest reference."""

    words: float
    """Share of words whose pronunciation matches no reference."""
    phones: float
    """Insertions, deletions and substitutions over the phones of the references."""
    num_words: int


def error_rates(g2p: G2p, lexicon: Lexicon) -> ErrorRates:
    num_wrong = num_errors = num_phones = 0
    for word, references in lexicon.pronunciations.items():
        found = pronounce(g2p, word)
        hypothesis = found[0][0] if found else ()
        errors, nearest = min(
            ((num_edits(hypothesis, phones), phones) for phones in references), key=lambda e: e[0] / len(e[1])
        )
        num_wrong += errors > 0
        num_errors += errors
        num_phones += len(nearest)
    return ErrorRates(num_wrong / len(lexicon), num_errors / num_phones, len(lexicon))


def num_edits(a: Pronunciation, b: Pronunciation) -> int:
    """Minimum insertions, deletions and substitutions from one to the other."""
    row = list(range(len(b) + 1))
    for i, phone in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (phone != other))
    return row[-1]
