"""benchmarks/lm_units.py: its counts are those of the trainer, its characters score as words of the search."""

from __future__ import annotations

import lzma
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import TOKENS
from support.benchmark_module import load_benchmark

from asr._core import CtcPrefixBeamSearch
from asr.lm import ngram
from asr.lm.packed import load_lm
from asr.runtime.search import text

CHARACTERS = "".join(token for token in TOKENS if len(token) == 1).replace("▁", " ")
SENTENCES = ["THE CAT SAT", "THE CAT'S HAT", "A CAT SAT ON THE HAT", "THAT HAT"]


@pytest.fixture(scope="module")
def lm_units() -> ModuleType:
    return load_benchmark("lm_units")


@pytest.fixture
def ids(lm_units: ModuleType, tmp_path: Path) -> np.ndarray:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.xz"
    plain.write_text("\n".join([*SENTENCES[:2], "", " CAFÉ "]))
    packed.write_bytes(lzma.compress("\n".join(SENTENCES[2:]).encode()))
    read: np.ndarray = lm_units.read_characters([plain, packed], CHARACTERS)
    return read


def test_text_is_read_as_characters_between_the_ends_of_its_sentences(ids: np.ndarray) -> None:
    names = ["<", ">", "?", *CHARACTERS]
    assert "".join(names[i] for i in ids) == "<THE CAT SAT><THE CAT'S HAT><CAF??><A CAT SAT ON THE HAT><THAT HAT>"


@pytest.mark.parametrize("order", [2, 5, 9])
def test_one_sort_counts_what_the_trainer_counts(order: int, lm_units: ModuleType, ids: np.ndarray) -> None:
    num_words = 3 + len(CHARACTERS)
    counted = lm_units.count_ngrams(ids, num_words, order)
    for ours, theirs in zip(counted, ngram.count_ngrams(ids.astype(np.int64), num_words, order), strict=True):
        for name in ("context", "word", "suffix", "count", "starts"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_symbols_that_do_not_fit_an_integer_are_refused(lm_units: ModuleType, ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="9-grams of 200 symbols"):
        lm_units.count_ngrams(ids, 200, 9)


def test_every_character_is_scored_in_its_context(lm_units: ModuleType, ids: np.ndarray) -> None:
    """Random log-probabilities: what the search adds to a hypothesis is the model's own word on its characters."""
    lm, size = lm_units.train(ids, CHARACTERS, 5, 1e6)
    assert size == sum(n * b for n, b in zip(lm.num_ngrams, [7, 7, 7, 7, 2], strict=True))
    fusion = lm_units.character_fusion(lm, TOKENS, 0.7, 0.3)
    logits = np.random.default_rng(0).normal(size=(30, len(TOKENS))).astype(np.float32)
    logits[:, 1:3] = -30  # <unk> and the mark of sentences are not written
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    search = CtcPrefixBeamSearch(beam_size=16, lm=fusion)
    search.advance(log_probs)
    for finished in (False, True):
        hypotheses = search.hypotheses(16, finished=finished)
        assert len({tuple(h.tokens) for h in hypotheses}) == 16
        for hypothesis in hypotheses:
            characters = [TOKENS[i].replace("▁", lm_units.BORDER_WORD) for i in hypothesis.tokens]
            *log_probs, end = lm.log_probs(characters)
            expected = 0.7 * (sum(log_probs) + finished * max(end, -3.5)) + 0.3 * len(characters)
            assert hypothesis.lm_score == pytest.approx(expected, abs=1e-3)
    best = "".join(TOKENS[i] for i in hypotheses[0].tokens)
    assert text(hypotheses[0], TOKENS) == " ".join(best.replace("▁", " ").split())


def test_a_smaller_character_model_keeps_to_its_bytes(lm_units: ModuleType, ids: np.ndarray) -> None:
    lm, size = lm_units.train(ids, CHARACTERS, 5, 700)
    whole, all_bytes = lm_units.train(ids, CHARACTERS, 5, 1e6)
    assert 600 < size <= 700 < all_bytes
    assert lm.num_ngrams[0] == whole.num_ngrams[0] and sum(lm.num_ngrams) < sum(whole.num_ngrams)


def test_words_outside_the_vocabulary_count_as_right_where_they_were_heard(
    lm_units: ModuleType, tmp_path: Path
) -> None:
    from asr.cli import main

    (tmp_path / "text.txt").write_text("THE CAT SAT ON THE HAT\n" * 10)
    assert main(["lm", "train", str(tmp_path / "text.txt"), "-o", str(tmp_path / "words.lm")]) == 0
    known = load_lm(tmp_path / "words.lm")
    references = ["THE ZEBRA SAT ON THE SOFA", "QUAGGA", "THE CAT"]
    recognized = ["THE ZEBRA SAT THE SO FAR", "QUAGGA QUAGGA", "SOFA CAT"]
    assert lm_units.unknown_words(references, recognized, known) == (3, 2)
