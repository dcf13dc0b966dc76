"""The G2P model: its results are those of the n-gram model of the pairs."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from asr._core import G2p, NgramLm
from asr.lexicon import Lexicon, LexiconError
from asr.lexicon.alignment import Aligner
from asr.lexicon.g2p import G2pOptions, error_rates, load_g2p, pronounce, train
from asr.lm.packed import pack, read_arpa

PAIRS = ["A}a", "A}", "A}a|i", "P}p", "PH}f", "H}", "H}h", "É}e", "'}", "'A}ə", "}}u"]


def model(pairs: list[str], order: int, seed: int = 0) -> bytes:
    """Random n-grams over the pairs."""
    rng = random.Random(seed)
    levels = [[(w,) for w in ("<s>", "</s>", "<unk>", *pairs)]]
    for _ in range(order - 1):
        levels.append(
            [(*n, w) for n in levels[-1] if n[-1] != "</s>" for w in ("</s>", *pairs) if rng.random() < 0.4]
        )  # fmt: skip
    lines = ["\\data\\", *(f"ngram {k}={len(level)}" for k, level in enumerate(levels, 1)), ""]
    for k, level in enumerate(levels, 1):
        backoff = [f"{rng.uniform(-0.4, 0):.4f}"] if k < order else []
        lines += [f"\\{k}-grams:", *(" ".join([f"{rng.uniform(-1.5, -0.5):.4f}", *n, *backoff]) for n in level), ""]
    return pack(*read_arpa(iter([*lines, "\\end\\"])))


def opened(data: bytes) -> G2p:
    return G2p(np.frombuffer(data, np.uint8))


def sequences(word: str) -> Iterator[list[str]]:
    if not word:
        yield []
    for pair in PAIRS:
        letters = pair.rpartition("}")[0]
        if word.startswith(letters):
            for rest in sequences(word[len(letters) :]):
                yield [pair, *rest]


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_likeliest_pronunciations_are_those_of_all_alignments(order: int) -> None:
    data = model(PAIRS, order)
    lm, g2p = NgramLm(np.frombuffer(data, np.uint8)), opened(data)
    assert g2p.phones == ["a", "e", "f", "h", "i", "p", "u", "ə"]
    for word in ("A", "PHA", "ÉPA", "'A", "HAPH", "A}A"):
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for pairs in sequences(word):
            phones = tuple(p for pair in pairs for p in pair.rpartition("}")[2].split("|") if p)
            sums[phones] += math.exp(sum(lm.log_probs(pairs)))
        sums.pop((), None)
        log_probs = {phones: math.log(prob / sum(sums.values())) for phones, prob in sums.items()}
        found = pronounce(g2p, word, 3)
        best = sorted(log_probs.values(), reverse=True)[:3]
        assert [log_prob for _, log_prob in found] == pytest.approx(best, abs=0.02), word
        assert dict(found) == pytest.approx({phones: log_probs[phones] for phones, _ in found}, abs=0.02), word


def test_what_cannot_be_pronounced() -> None:
    g2p = opened(model(PAIRS, 3))
    assert pronounce(g2p, "A" * 64) and not pronounce(g2p, "A" * 65)
    for word in ("", "Z", "AZ", "ZA", "a"):
        assert pronounce(g2p, word, 5) == [], word
    assert [phones for phones, _ in pronounce(g2p, "H", 5)] == [("h",)]  # never empty
    with pytest.raises(ValueError, match="num_best must be at least 1, got 0"):
        g2p.pronounce("A", 0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["A}a", "WORD"], "not pairs of letters and phones"),
        (["A}a", "}b"], "a pair of 0 letters"),
        (["ABCDE}a"], "a pair of 5 letters"),
        (["A}a|b|c|d|e"], "5 phones"),
        (["A}a|"], "a phone without a name"),
        (["A}|a"], "a phone without a name"),
        (["A}"], "it has no phones"),
    ],
)
def test_language_models_of_anything_else_are_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        opened(model(pairs, 2))


def test_a_damaged_file_is_refused_or_harmless() -> None:
    data = model(PAIRS, 3)
    for size in range(0, len(data), max(1, len(data) // 100)):
        with pytest.raises(ValueError, match="damaged"):
            opened(data[:size])
    rng = random.Random(2)
    refused = 0
    for _ in range(2000):
        broken = bytearray(data)
        broken[rng.randrange(len(data) if rng.random() < 0.7 else 200)] = rng.randrange(256)
        try:
            g2p = opened(bytes(broken))
        except ValueError:
            refused += 1
            continue
        for phones, log_prob in g2p.pronounce("PHAÉ'A", 3):
            assert phones and max(phones) < len(g2p.phones) and math.isfinite(log_prob)
    assert 300 < refused < 2000


# ---- training ----


def spoken(word: str) -> tuple[str, ...]:
    """A language with rules: silent final E, digraphs, C pronounced by its successor, and X with two phones."""
    phones: list[str] = []
    i = 0
    while i < len(word):
        pair = word[i : i + 2]
        if pair in ("SH", "PH", "EE"):
            phones.append({"SH": "ʃ", "PH": "f", "EE": "i"}[pair])
            i += 2
            continue
        letter = word[i]
        if letter == "C":
            phones.append("s" if word[i + 1 : i + 2] in ("E", "I") else "k")
        elif letter == "X":
            phones += ["k", "s"]
        elif letter != "E" or i + 1 < len(word):
            phones.append(letter.lower())
        i += 1
    return tuple(phones)


def language(num_words: int, seed: int) -> Lexicon:
    rng = random.Random(seed)
    words: dict[str, tuple[tuple[str, ...], ...]] = {}
    while len(words) < num_words:
        word = "".join(
            rng.choice(["B", "C", "D", "SH", "PH", "X", "M", "T", "S"]) + rng.choice(["A", "E", "I", "O", "EE"])
            for _ in range(rng.randrange(2, 5))
        )
        words[word] = (spoken(word),)
    return Lexicon(words)


def test_a_regular_language_is_learned_to_the_phone() -> None:
    lexicon, test = language(3000, 0), language(300, 1)
    held_out = Lexicon({word: test[word] for word in test.pronunciations if word not in lexicon})
    assert len(held_out) > 150
    reports: list[str] = []
    g2p = opened(train(lexicon, G2pOptions(order=4), reports.append))
    rates = error_rates(g2p, held_out)
    assert (rates.words, rates.phones, rates.num_words) == (0.0, 0.0, len(held_out))
    assert any("pronunciations aligned" in report for report in reports)


def test_error_rates_count_the_nearest_reference() -> None:
    words = {word: (tuple(word.lower()),) for word in ("A", "B", "AB", "BA")}
    g2p = opened(train(Lexicon(words), G2pOptions(order=2)))
    held_out = {"A": (("x", "y"), ("a",)), "B": (("b", "c"),), "Z": (("z",),)}
    rates = error_rates(g2p, Lexicon(held_out))  # correct; one of two phones missing; empty
    assert (rates.words, rates.phones) == (2 / 3, 2 / 4)
    # In one pair, one of two phones is substituted. For one phone, two are wrong; for four, two are missing, which is
    # nearer.
    held_out |= {"AB": (("a", "c"),), "BA": (("x",), ("b", "a", "a", "a"))}
    rates = error_rates(g2p, Lexicon(held_out))
    assert (rates.words, rates.phones) == (4 / 5, (2 + 1 + 2) / (4 + 2 + 4))


def test_words_that_need_rare_pairs_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {word: (tuple(word.lower()),) for word in ("A", "B", "AB", "BA", "ABABQ")}
    best, rare = Aligner.best, []
    monkeypatch.setattr(Aligner, "best", lambda aligner, fewest: rare.append(fewest) or best(aligner, fewest))
    for fewest, expected in ((2, "4 of 5 pronunciations aligned, 2 pairs"), (1, "5 of 5 pronunciations aligned, ")):
        reports: list[str] = []
        train(Lexicon(words), G2pOptions(order=2, num_iterations=3, fewest=fewest), reports.append)
        assert [report.partition(":")[0] for report in reports[:3]] == [f"aligning, {i} of 3" for i in (1, 2, 3)]
        assert reports[3].startswith(expected)
    assert rare == [2, 1], "it is avoided where there is another"


def test_words_without_a_common_pair_are_learned() -> None:
    """In a dictionary of a few words, every pair may be rare."""
    g2p = opened(train(Lexicon({"AB": (("x", "y"),)}), G2pOptions()))
    assert pronounce(g2p, "AB")[0][0] == ("x", "y")


def test_the_context_is_as_long_as_asked_for() -> None:
    """X is pronounced like the consonant before it, with a vowel between them: three pairs of context."""
    words = {a + v + "X": ((a.lower(), v.lower(), a.lower()),) for a in "BDGKMNPT" for v in "AEIOU"}
    for order, wrong in ((2, True), (3, False)):
        rates = error_rates(opened(train(Lexicon(words), G2pOptions(order=order))), Lexicon(words))
        assert (rates.words > 0.5) is wrong, (order, rates)


def test_a_smaller_size_is_kept() -> None:
    data = train(language(3000, 0), G2pOptions(order=4, megabytes=0.01))
    assert len(data) < 12_000


def test_a_dictionary_that_cannot_be_aligned_is_refused() -> None:
    with pytest.raises(LexiconError, match="no word has a pronunciation"):
        train(Lexicon({"W": (tuple("dVblju"),)}), G2pOptions())


def test_files_that_are_no_model_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.model").write_text("hello")
    with pytest.raises(LexiconError, match=r"text\.model: not a language model"):
        load_g2p(tmp_path / "text.model")
    with pytest.raises(LexiconError, match=r"none\.model cannot be read"):
        load_g2p(tmp_path / "none.model")
