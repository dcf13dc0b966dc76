"""Trains a word n-gram language model: counts, smoothing, pruning to a size.

Interpolated modified Kneser-Ney (Chen and Goodman 1998), then pruning by relative entropy (Stolcke 1998). An n-gram's
loss is weighted by the plain count of its history, because Kneser-Ney's own lower orders are not marginals (Chelba et
al. 2010), and divided by its size in the packed file. Sorted integer arrays hold the counts. In row i of order n, the
first n-1 words are row `context[i]` of order n-1, the last word is `word[i]`, and the last n-1 words are row
`suffix[i]` of order n-1. 15 million words take half a minute and 2 GB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.lm.packed import LOWEST_LOG10, SPECIAL_WORDS, LmError, Ngrams
from asr.text import noise_tags, without_noise_tags

BOS, EOS, UNK = 0, 1, 2
FEWEST_DISCOUNTS = (0.5, 1.0, 1.5)  # fallback if a text is too short to estimate them


@dataclass(frozen=True)
class Order:
    """The n-grams of one order: arrays (num_rows,) int64, counts float64, `starts` bool (begins with <s>)."""

    context: np.ndarray
    word: np.ndarray
    suffix: np.ndarray
    count: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True)
class Model:
    """For each order: the rows, whether each is kept (bool), p(word | context), and the back-off weight after each
    row."""

    orders: list[Order]
    keep: list[np.ndarray]
    prob: list[np.ndarray]
    backoff: list[np.ndarray]


def lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise LmError(f"{path} is not UTF-8 text: {error}") from error


def sentences(
    paths: Iterable[Path], noise: str = "keep", on_tags: Callable[[Sequence[str]], object] | None = None
) -> Iterator[list[str]]:
    """The words of each line that has any. noise: one of NOISE_TAG_POLICIES. on_tags: called with the noise tags of a
    line that is left out or changed because of them. SPECIAL_WORDS are not noise tags."""
    for path in paths:
        for line in lines(path):
            tags = noise_tags(line, SPECIAL_WORDS) if noise != "keep" else []
            if tags and on_tags is not None:
                on_tags(tags)
            if tags and noise != "strip":
                continue
            if words := (without_noise_tags(line, SPECIAL_WORDS) if tags else line).split():
                yield words


def vocabulary(paths: Iterable[Path], num_words: int, noise: str = "keep") -> list[str]:
    """<s>, </s>, <unk> and the num_words most frequent words, most frequent first (ties in alphabetical order)."""
    counts = Counter(word for sentence in sentences(paths, noise) for word in sentence)
    for special in SPECIAL_WORDS:  # such a word in the text counts as unknown
        counts.pop(special, None)
    return [*SPECIAL_WORDS, *sorted(counts, key=lambda word: (-counts[word], word))[:num_words]]


def encode(sentences: Iterable[Sequence[str]], words: list[str]) -> np.ndarray:
    """The words of each sentence between <s> and </s>: (num_tokens,) int64. `words` begin with SPECIAL_WORDS."""
    index = {word: i for i, word in enumerate(words) if i > UNK}
    ids: list[int] = []
    for sentence in sentences:
        ids.append(BOS)
        ids.extend(index.get(word, UNK) for word in sentence)
        ids.append(EOS)
    return np.array(ids, dtype=np.int64)


def count_ngrams(ids: np.ndarray, num_words: int, order: int) -> list[Order]:
    row, none = ids, np.zeros(num_words, dtype=np.int64)
    starts = np.arange(num_words) == BOS
    orders = [Order(none, np.arange(num_words), none, np.bincount(ids, minlength=num_words).astype(float), starts)]
    for _ in range(1, order):
        before = np.concatenate([[-1], row[:-1]])
        ends = np.flatnonzero((before >= 0) & (ids != BOS))
        key, first, inverse = np.unique(before[ends] * num_words + ids[ends], return_index=True, return_inverse=True)
        context = key // num_words
        count = np.bincount(inverse).astype(float)
        orders.append(Order(context, key % num_words, row[ends[first]], count, orders[-1].starts[context]))
        row = np.full(len(ids), -1, dtype=np.int64)
        row[ends] = inverse
    return orders


def discount(counts: np.ndarray) -> np.ndarray:
    """Discounts of the counts (Chen and Goodman's D1, D2, D3+)."""
    n1, n2, n3, n4 = (float(np.sum(counts == i)) for i in (1, 2, 3, 4))
    by_count = FEWEST_DISCOUNTS
    if n1 and n2 and n3:
        y = n1 / (n1 + 2 * n2)
        estimated = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 < d <= i for i, d in enumerate(estimated, 1)):
            by_count = estimated
    given: np.ndarray = np.array([0.0, *by_count])[np.minimum(counts, 3).astype(np.int64)]
    return given


def estimate(orders: list[Order]) -> Model:
    """Estimates interpolated modified Kneser-Ney over all rows."""
    prob: list[np.ndarray] = []
    backoff: list[np.ndarray] = []
    for n, rows in enumerate(orders):
        size = len(rows.word)
        count = rows.count.copy()
        if n + 1 < len(orders):  # below the highest order, the number of contexts replaces the count
            count = np.where(rows.starts, count, np.bincount(orders[n + 1].suffix, minlength=size))
        if n == 0:
            count[BOS] = 0  # never predicted
            given = discount(count)
            p = (count - given) / count.sum() + given.sum() / count.sum() / (size - 1)
            p[BOS] = 1e-99
        else:
            given = discount(count)
            num_contexts = len(prob[-1])
            total = np.maximum(np.bincount(rows.context, count, num_contexts), 1e-9)
            left = np.bincount(rows.context, given, num_contexts) / total
            backoff.append(np.where(left > 0, left, 1.0))
            p = (count - given) / total[rows.context] + backoff[-1][rows.context] * prob[-1][rows.suffix]
        prob.append(p)
    backoff.append(np.ones(len(prob[-1])))
    return Model(orders, [np.ones(len(p), dtype=bool) for p in prob], prob, backoff)


def packed_bytes(model: Model) -> list[float]:
    """Bytes of an n-gram of order 1, 2, ... in the packed file; the highest order has no back-off and continuations.

    The spelling of words does not count.
    """
    order, word, continuations = len(model.orders), (len(model.prob[0]) - 1).bit_length() / 8, 1.25
    return [5 + continuations, *[word + 2 + continuations] * (order - 2), word + 1][:order]


def losses(model: Model) -> list[np.ndarray]:
    """Increase of the cross-entropy (nats per word) if a row of order 2, 3, ... is removed, per packed byte."""
    num_tokens = model.orders[0].count.sum() - model.orders[0].count[BOS]
    sizes = packed_bytes(model)
    result = []
    for n in range(1, len(model.orders)):
        rows, p = model.orders[n], model.prob[n]
        lower, size = model.prob[n - 1][rows.suffix], len(model.prob[n - 1])
        free = np.maximum(1 - np.bincount(rows.context, p, size), 1e-12)[rows.context]
        free_lower = np.maximum(1 - np.bincount(rows.context, lower, size), 1e-12)[rows.context]
        new = np.log(free + p) - np.log(free_lower + lower)  # the context's log back-off weight without this row
        change = p * (np.log(lower) + new - np.log(p)) + free * (new - np.log(model.backoff[n - 1][rows.context]))
        history = model.orders[n - 1].count[rows.context] / num_tokens
        result.append(-history * change / sizes[n])
    return result


def select(model: Model, num_bytes: float) -> list[np.ndarray]:
    """Rows to keep, bool per order: those with the highest losses, and their contexts, up to num_bytes packed."""
    sizes = packed_bytes(model)
    loss = losses(model)

    def above(threshold: float) -> list[np.ndarray]:
        keep = [np.ones(len(model.prob[0]), dtype=bool)]
        keep += [row_loss > threshold for row_loss in loss]
        for n in range(len(keep) - 1, 1, -1):
            keep[n - 1][model.orders[n].context[keep[n]]] = True
        return keep

    low, high = -30.0, 0.0  # log thresholds that keep almost everything and nothing
    for _ in range(30):
        middle = (low + high) / 2
        size = sum(size * int(k.sum()) for size, k in zip(sizes, above(np.exp(middle)), strict=True))
        low, high = (middle, high) if size > num_bytes else (low, middle)
    return above(np.exp(high))


def prune(model: Model, keep: list[np.ndarray]) -> Model:
    """The model with only the kept rows: same probabilities, recomputed back-off weights, so each context sums to 1."""
    prob, backoff = [model.prob[0]], []
    for n in range(1, len(keep)):
        rows, size = model.orders[n], len(prob[-1])
        lower = prob[-1][rows.suffix]
        free = 1 - np.bincount(rows.context, np.where(keep[n], model.prob[n], 0), size)
        free_lower = 1 - np.bincount(rows.context, np.where(keep[n], lower, 0), size)
        backoff.append(np.maximum(free, 1e-9) / np.maximum(free_lower, 1e-9))
        prob.append(np.where(keep[n], model.prob[n], backoff[-1][rows.context] * lower))
    return Model(model.orders, keep, prob, [*backoff, model.backoff[-1]])


def perplexity(model: Model, ids: np.ndarray) -> float:
    """Perplexity of the words and sentence ends of ids (num_tokens,) int64; unknown words count as history only."""
    num_words, row = len(model.prob[0]), ids
    log_prob = np.log(model.prob[0][ids])
    for n in range(1, len(model.prob)):
        rows = model.orders[n]
        before = np.where(ids == BOS, -1, np.concatenate([[-1], row[:-1]]))
        key = before * num_words + ids
        known = rows.context * num_words + rows.word
        found = np.minimum(np.searchsorted(known, key), len(known) - 1)
        seen = (before >= 0) & (known[found] == key)
        weight = np.where(before >= 0, np.log(model.backoff[n - 1][before]), 0.0)
        log_prob = np.where(seen, np.log(model.prob[n][found]), weight + log_prob)
        row = np.where(seen, found, -1)
    return float(np.exp(-log_prob[(ids != BOS) & (ids != UNK)].mean()))


def tables(model: Model, words: list[str]) -> tuple[list[str], list[Ngrams]]:
    """The kept rows in the form that `asr.lm.packed.pack` takes. words: those whose ids the model was trained on."""
    by_spelling = sorted(range(len(words)), key=lambda i: words[i].encode())
    new_id = np.empty(len(words), np.int64)
    new_id[by_spelling] = np.arange(len(words))
    levels: list[Ngrams] = []
    ngrams = np.empty((1, 0), np.int64)
    for rows, keep, prob, backoff in zip(model.orders, model.keep, model.prob, model.backoff, strict=True):
        ngrams = np.concatenate((ngrams[rows.context], new_id[rows.word][:, None]), axis=1)
        log_probs = np.maximum(np.log10(prob[keep]), LOWEST_LOG10).astype(np.float32)
        levels.append(Ngrams(ngrams[keep], log_probs, np.log10(backoff[keep]).astype(np.float32)))
    return [words[i] for i in by_spelling], levels
