"""Smoothing and pruning of n-gram models, compared with their definitions on small texts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from asr.lm.ngram import (
    Model,
    count_ngrams,
    discount,
    encode,
    estimate,
    losses,
    packed_bytes,
    perplexity,
    prune,
    select,
    sentences,
    vocabulary,
)


def trained(folder: Path, text: str, order: int) -> tuple[list[str], Model]:
    path = folder / "text.txt"
    path.write_text(text)
    words = vocabulary([path], 100)
    return words, estimate(count_ngrams(encode(sentences([path]), words), len(words), order))


def random_text() -> str:
    rng = np.random.default_rng(0)
    return "".join(" ".join(rng.choice(list("AABCD"), 5)) + "\n" for _ in range(30))


def ngrams(words: list[str], model: Model) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]]:
    """Probability and back-off weight of each kept n-gram, by its words."""
    probs: dict[tuple[str, ...], float] = {}
    backoffs: dict[tuple[str, ...], float] = {}
    shorter: list[tuple[str, ...]] = [()]
    for rows, keep, prob, backoff in zip(model.orders, model.keep, model.prob, model.backoff, strict=True):
        shorter = [(*shorter[context], words[word]) for context, word in zip(rows.context, rows.word, strict=True)]
        for ngram, kept, p, weight in zip(shorter, keep, prob, backoff, strict=True):
            if kept:
                probs[ngram], backoffs[ngram] = p, weight
    return probs, backoffs


def probability(
    probs: dict[tuple[str, ...], float], backoffs: dict[tuple[str, ...], float], history: tuple[str, ...], word: str
) -> float:
    """Katz's recursion, as defined for ARPA files."""
    weight = 1.0
    while (*history, word) not in probs:
        weight *= backoffs.get(history, 1.0)
        history = history[1:]
    return weight * probs[(*history, word)]


def test_vocabulary_has_the_most_frequent_words_then_alphabetical(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("D C B E\nD C B E A\nE <s>\n")
    assert vocabulary([tmp_path / "text.txt"], 3) == ["<s>", "</s>", "<unk>", "E", "B", "C"]


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfHELLO WORLD\n")
    assert vocabulary([tmp_path / "t.txt"], 10)[3:] == ["HELLO", "WORLD"]


def test_blank_lines_are_no_sentences(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("A B\n\nC\n \n")
    assert list(sentences([tmp_path / "t.txt"])) == [["A", "B"], ["C"]]
    (tmp_path / "t.txt").write_text("A [noise]\n[noise]\n")
    assert list(sentences([tmp_path / "t.txt"], "strip")) == [["A"]]


def test_perplexity_counts_known_words_and_sentence_ends(tmp_path: Path) -> None:
    """Katz's recursion over each sentence; an unknown word is part of a history but is not predicted."""
    words, whole = trained(tmp_path, random_text() + "A NEW WORD\n" * 3, 3)
    words[words.index("NEW")] = "OTHER"  # so that it is seen in training but unknown here
    (tmp_path / "test.txt").write_text("A B D C\nNEW D D\nWORD B NEW A A\n")
    ids = encode(sentences([tmp_path / "test.txt"]), words)
    for model in (whole, prune(whole, select(whole, 200))):
        known, logs = ngrams(words, model), []
        for line in ("A B D C", "<unk> D D", "WORD B <unk> A A"):
            sentence = ["<s>", *line.split(), "</s>"]
            for i in range(1, len(sentence)):
                if sentence[i] != "<unk>":
                    logs.append(math.log(probability(*known, tuple(sentence[max(i - 2, 0) : i]), sentence[i])))
        assert len(logs) == 13
        assert perplexity(model, ids) == pytest.approx(math.exp(-sum(logs) / len(logs)))


def test_discounts_are_those_of_chen_and_goodman() -> None:
    counts = np.array([1] * 10 + [2] * 5 + [3] * 3 + [4] * 2 + [0, 9])
    y = 10 / (10 + 2 * 5)
    ones, twos, more = 1 - 2 * y * 5 / 10, 2 - 3 * y * 3 / 5, 3 - 4 * y * 2 / 3
    expected = [ones] * 10 + [twos] * 5 + [more] * 3 + [more] * 2 + [0, more]
    assert discount(counts) == pytest.approx(np.array(expected))
    assert discount(np.array([1, 2, 4, 0])).tolist() == [0.5, 1.0, 1.5, 0]  # too few to estimate them
    assert discount(np.array([1] * 10 + [2] * 5 + [3] + [4] * 10))[[0, 10, 15, 16]].tolist() == [0.5, 1.0, 1.5, 1.5], (
        "the estimate for three, -17, is none"
    )


def test_probabilities_of_kneser_and_ney_by_hand(tmp_path: Path) -> None:
    """Below the highest order, an n-gram counts once per preceding word, except at the start of a sentence."""
    words, model = trained(tmp_path, "A B\nA B\nA B\nB A\n", 3)
    unigram = dict(zip(words, model.prob[0], strict=True))
    # A, B and </s> follow two words each; five words, without <s>, which is never predicted, share the discount.
    assert unigram["A"] == unigram["B"] == unigram["</s>"] == pytest.approx((2 - 1) / 6 + 3 / 6 / 4)
    assert unigram["<unk>"] == pytest.approx(3 / 6 / 4)
    bigrams = model.orders[1]
    found = {(words[c], words[w]): p for c, w, p in zip(bigrams.context, bigrams.word, model.prob[1], strict=True)}
    left = (1.5 + 0.5) / 4  # of the four sentences, three of which begin with A
    assert found["<s>", "A"] == pytest.approx((3 - 1.5) / 4 + left * unigram["A"])
    assert found["<s>", "B"] == pytest.approx((1 - 0.5) / 4 + left * unigram["B"])
    assert found["A", "B"] == pytest.approx((1 - 0.5) / 2 + 1.0 / 2 * unigram["B"])  # only "<s> A B"; also "B A </s>"


@pytest.mark.parametrize("order", [2, 3])
def test_ngram_loss_is_the_rise_of_cross_entropy(order: int, tmp_path: Path) -> None:
    words, model = trained(tmp_path, random_text(), order)
    tokens = [token for line in random_text().splitlines() for token in ("<s>", *line.split(), "</s>")]
    found, longest = losses(model)[-1], ngrams(words, model)[0]
    rows = [ngram for ngram in longest if len(ngram) == order]
    for row in range(0, len(found), 3):
        *context, _ = rows[row]
        without = prune(model, [*model.keep[:-1], np.arange(len(found)) != row])
        before, after = (
            np.array([probability(*ngrams(words, m), tuple(context), word) for word in words if word != "<s>"])
            for m in (model, without)
        )
        rise = np.sum(before * (np.log(before) - np.log(after)))
        often = sum(tokens[i : i + order - 1] == context for i in range(len(tokens)))
        assert found[row] == pytest.approx(often / (len(tokens) - 30) * rise / packed_bytes(model)[-1], rel=1e-6)
