"""Mixes n-gram language models: one model with the n-grams of all, pruned to a size.

Every n-gram of any model is in the mixture. Its probability is the mean over the models, each weighted by its weight
times its probability of the n-gram's history: a model with more data on a history has more influence (Hsu 2007,
"Generalized linear interpolation of language models"; for counted text this is merging counts, Bacchiani et al. 2006).
For a small text, `by_history=False` keeps the weights the same after each history (linear interpolation): a history of
this text is so much likelier in its own model that the other models would have no influence there.
Back-off weights are recomputed. Pruning weights an n-gram by the probability of its history in the mixture. A packed
file has no counts, so both use the marginals of the models; Kneser-Ney's lower orders are not marginals (Chelba et al.
2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from asr.lm.ngram import BOS, EOS, UNK, Model, Order, prune, select, tables
from asr.lm.packed import SPECIAL_WORDS, Ngrams

NUM_SWEEPS = 4  # over the orders, toward the stationary marginals; the first has the largest effect
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def mix(
    models: Sequence[tuple[list[str], list[Ngrams]]], weights: Sequence[float], by_history: bool = True
) -> tuple[list[str], Model]:
    """The words of all models, and the mixture in the form of `asr.lm.ngram.estimate`.

    models: words and n-grams of each, as `asr.lm.packed.unpack` returns them; of any order. A word has probability 0 in
    a model that lacks it. weights: of each model, above 0; they are normalized.
    """
    words = [*SPECIAL_WORDS, *sorted({word for names, _ in models for word in names}.difference(SPECIAL_WORDS))]
    index = {word: i for i, word in enumerate(words)}
    order = max(len(levels) for _, levels in models)
    tables = [[np.array([index[word] for word in names])[level.words] for level in levels] for names, levels in models]
    rows = _all_rows(tables, order, len(words))
    orders = [_row_order(rows, n, len(words)) for n in range(order)]
    keep = [np.ones(len(level), dtype=bool) for level in rows]
    ones = [np.ones(len(level)) for level in rows]
    total: list[Floats] = [np.zeros(len(level)) for level in rows]  # sum of the weights of the models, per row
    prob: list[Floats] = [np.zeros(len(level)) for level in rows]
    for (_, levels), table, weight in zip(models, tables, weights, strict=True):
        own: list[Floats] = []
        backoff: list[Floats] = []
        for n, level in enumerate(rows):
            own.append(backoff[-1][orders[n].context] * own[-1][orders[n].suffix] if n else np.zeros(len(level)))
            backoff.append(np.ones(len(level)))
            if n < len(levels):
                found = _find(rows, table[n], len(words))
                own[n][found] = 10.0 ** levels[n].log_probs.astype(np.float64)
                backoff[n][found] = 10.0 ** levels[n].backoffs.astype(np.float64)
        own[0] /= own[0].sum() - own[0][BOS]  # the sum is not exactly 1, because of quantization
        own[0][BOS] = 0.0
        counts = [o.count for o in marginal(Model(orders, keep, own, backoff)).orders] if by_history else ones
        for n in range(order):
            history = weight * (counts[n - 1][orders[n].context] if n else ones[0])  # how often it occurs
            total[n] += history
            prob[n] += history * own[n]
    prob = [p / np.maximum(t, 1e-300) for p, t in zip(prob, total, strict=True)]
    prob[0][UNK] = max(prob[0][UNK], 1e-12)
    prob[0][BOS] = 1e-99  # never predicted
    return words, marginal(prune(Model(orders, keep, prob, ones), keep))


def pruned(words: list[str], levels: list[Ngrams], num_bytes: float) -> tuple[list[str], list[Ngrams]]:
    """Words and n-grams of one model, as for `mix`, pruned to a size like `asr lm mix --megabytes`."""
    words, model = mix([(words, levels)], [1.0])
    return tables(prune(model, select(model, num_bytes)), words)


def marginal(model: Model) -> Model:
    """The model with counts: how often each row occurs per word and sentence end in text that the model generates."""
    prob, backoff, orders = model.prob, model.backoff, model.orders
    count = [prob[0].copy()]
    for rows, p in zip(orders[1:], prob[1:], strict=True):
        count.append(count[-1][rows.context] * p)
    for _ in range(NUM_SWEEPS):
        for n in reversed(range(len(orders))):
            history = count[n].copy()
            if n == 0:
                history[BOS], history[EOS] = history[EOS], 0.0
                once = prob[0] * (history @ backoff[0])
            else:  # in longer contexts, by backing off, whether the model has them or not
                backed = np.bincount(orders[n].suffix, count[n] * (1 - backoff[n]), len(prob[n - 1]))
                once = prob[n] * np.maximum(count[n - 1] - backed, 0)[orders[n].context]
            if n + 1 < len(orders):
                above = orders[n + 1]
                backed_off = history[above.context] * backoff[n][above.context] * prob[n][above.suffix]
                once += np.bincount(above.suffix, count[n + 1] - backed_off, len(prob[n]))
            count[n] = np.maximum(once, 0)
        count[0][BOS] = 0
        count[0] /= count[0].sum()
        count[0][BOS] = count[0][EOS]
    counted = [Order(o.context, o.word, o.suffix, c, o.starts) for o, c in zip(orders, count, strict=True)]
    return Model(counted, model.keep, prob, backoff)


def _all_rows(tables: Sequence[Sequence[Ints]], order: int, num_words: int) -> list[Ints]:
    """Per order: the n-grams of all models, and the prefixes and suffixes of longer ones, (num_rows, n), ascending."""
    rows: list[Ints] = []
    for n in range(order, 1, -1):
        parts = [table[n - 1] for table in tables if len(table) >= n]
        if rows:
            parts += [rows[-1][:, :-1], rows[-1][:, 1:]]
        rows.append(_unique(np.concatenate(parts), num_words))
    return [np.arange(num_words)[:, None], *rows[::-1]]


def _unique(table: Ints, base: int) -> Ints:
    num_columns = table.shape[1]
    if base**num_columns >= 1 << 63:
        return np.unique(table, axis=0)
    places = base ** np.arange(num_columns)[::-1]
    return np.unique(table @ places)[:, None] // places % base


def _row_order(rows: list[Ints], n: int, num_words: int) -> Order:
    table = rows[n]
    none = np.zeros(len(table), np.int64)
    context = _find(rows, table[:, :-1], num_words) if n else none
    suffix = _find(rows, table[:, 1:], num_words) if n else none
    return Order(context, table[:, -1], suffix, none.astype(float), table[:, 0] == BOS)


def _find(rows: list[Ints], table: Ints, num_words: int) -> Ints:
    """The positions of n-grams, all of which exist, among the rows of their order."""
    found: Ints = table[:, 0]
    for shorter, longer in pairwise(rows[: table.shape[1]]):
        n = shorter.shape[1]
        context = _find(rows, longer[:, :-1], num_words) if n > 1 else longer[:, 0]
        found = np.searchsorted(context * num_words + longer[:, -1], found * num_words + table[:, n])
    return found
