"""Smoothing and pruning of n-gram models, by their definitions on texts small enough for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asr.lm.ngram import BOS, Model, count_ngrams, discount, encode, estimate, losses, prune, vocabulary


def trained(folder: Path, text: str, order: int) -> tuple[list[str], Model]:
    path = folder / "text.txt"
    path.write_text(text)
    words = vocabulary([path], 100)
    return words, estimate(count_ngrams(encode([path], words), len(words), order))


def test_discounts_are_those_of_chen_and_goodman() -> None:
    counts = np.array([1] * 10 + [2] * 5 + [3] * 3 + [4] * 2 + [0, 9])
    y = 10 / (10 + 2 * 5)
    ones, twos, more = 1 - 2 * y * 5 / 10, 2 - 3 * y * 3 / 5, 3 - 4 * y * 2 / 3
    expected = [ones] * 10 + [twos] * 5 + [more] * 3 + [more] * 2 + [0, more]
    assert discount(counts) == pytest.approx(np.array(expected))
    assert discount(np.array([1, 2, 4, 0])).tolist() == [0.5, 1.0, 1.5, 0]  # too few to estimate them


def test_probabilities_of_kneser_and_ney_by_hand(tmp_path: Path) -> None:
    """Below the highest order an n-gram counts once for each word before it, but for one that begins a sentence."""
    words, model = trained(tmp_path, "A B\nA B\nA B\nB A\n", 3)
    unigram = dict(zip(words, model.prob[0], strict=True))
    # A, B and </s> follow two words each; five words, of which <s> is never predicted, share what is discounted.
    assert unigram["A"] == unigram["B"] == unigram["</s>"] == pytest.approx((2 - 1) / 6 + 3 / 6 / 4)
    assert unigram["<unk>"] == pytest.approx(3 / 6 / 4)
    bigrams = model.orders[1]
    found = {(words[c], words[w]): p for c, w, p in zip(bigrams.context, bigrams.word, model.prob[1], strict=True)}
    left = (1.5 + 0.5) / 4  # of the four sentences, three of which begin with A
    assert found["<s>", "A"] == pytest.approx((3 - 1.5) / 4 + left * unigram["A"])
    assert found["<s>", "B"] == pytest.approx((1 - 0.5) / 4 + left * unigram["B"])
    assert found["A", "B"] == pytest.approx((1 - 0.5) / 2 + 1.0 / 2 * unigram["B"])  # "<s> A B" alone; also "B A </s>"


def test_the_loss_of_an_ngram_is_the_rise_of_cross_entropy_without_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(" ".join(rng.choice(list("AABCD"), 5)) + "\n" for _ in range(30))
    words, model = trained(tmp_path, text, 2)
    rows, num_words = model.orders[1], len(words)

    def following(model: Model, context: int) -> np.ndarray:
        """The probability of each word after `context`."""
        kept = model.keep[1] & (rows.context == context)
        probs = model.backoff[0][context] * model.prob[0]
        probs[rows.word[kept]] = model.prob[1][kept]
        return probs[np.arange(num_words) != BOS]

    found = losses(model)[0]
    num_tokens = model.orders[0].count.sum() - model.orders[0].count[BOS]
    for row in range(0, len(found), 3):
        context = rows.context[row]
        keep = [model.keep[0], np.arange(len(found)) != row]
        before, after = following(model, context), following(prune(model, keep), context)
        rise = np.sum(before * (np.log(before) - np.log(after)))
        assert found[row] == pytest.approx(model.orders[0].count[context] / num_tokens * rise / 3, rel=1e-6)
