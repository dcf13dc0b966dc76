"""Fusion of a word language model with the beam search, compared with its definition over all hypotheses."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict

import numpy as np
import pytest
from support.arpa import UNIGRAMS, packed
from support.pair_gains import pair_gains

from asr._core import CtcGreedySearch, CtcPrefixBeamSearch, Hotwords, Hypothesis, LmFusion, NgramLm
from asr.runtime.search import BEAM_THRESHOLD, new_search
from asr.text import detokenize

CHARACTERS = ["", "\u2581", "A", "B"]
PIECES = ["", "\u2581A", "B", "\u2581AB"]
BIGRAMS = ("-0.2 <s> AB", "-1.9 AB A", "-0.3 A B", "-0.4 B </s>")
OPTIONS = {"weight": 0.8, "word_bonus": 0.4, "oov_penalty": 1.5, "prior_weight": 0.3}


GAINS = pair_gains({"A": -0.6, "AB": -0.9, "B": -1.5, "BAA": -2.5}, lambda word: [word], 0.3)


def gain(word: str) -> float:
    """The score that the letters of a known word and the space after it gain."""
    return sum(GAINS[pair] for pair in itertools.pairwise(f" {word} "))


@pytest.fixture(scope="module")
def lm() -> NgramLm:
    return NgramLm(np.frombuffer(packed((*UNIGRAMS, "-2.5 BAA 0"), BIGRAMS), np.uint8))


def definition(lm: NgramLm, tokens: list[str], hypothesis: tuple[int, ...]) -> float:
    words = detokenize(tokens[t] for t in hypothesis).split()
    unknown = sum(word not in lm for word in words)
    letters = sum(gain(word) for word in words if word in lm)
    return 0.8 * sum(lm.log_probs(words)) + 0.4 * len(words) - 1.5 * unknown + letters


@pytest.mark.parametrize("tokens", [CHARACTERS, PIECES])
def test_wide_beam_finds_the_best_hypothesis(lm: NgramLm, tokens: list[str]) -> None:
    rng = np.random.default_rng(0)
    fusion = LmFusion(lm, tokens, **OPTIONS)
    differs = 0
    for _ in range(30):
        log_probs = np.log(rng.dirichlet(np.full(4, 0.7), size=6)).astype(np.float32)
        totals: dict[tuple[int, ...], float] = defaultdict(float)
        for path in itertools.product(range(4), repeat=6):
            collapsed = tuple(k for k, _ in itertools.groupby(path) if k)
            totals[collapsed] += math.exp(log_probs[range(6), path].astype(np.float64).sum())
        scored = {h: math.log(p) + definition(lm, tokens, h) for h, p in totals.items()}
        best = max(scored, key=scored.__getitem__)
        search = CtcPrefixBeamSearch(beam_size=1024, lm=fusion)
        search.advance(log_probs)
        found = search.hypotheses(5, finished=True)
        assert tuple(found[0].tokens) == best
        for hypothesis in found:
            h = tuple(hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(math.log(totals[h]), abs=1e-4)
            assert hypothesis.lm_score == pytest.approx(definition(lm, tokens, h), abs=1e-4)
        plain = CtcPrefixBeamSearch(beam_size=1024)
        plain.advance(log_probs)
        differs += plain.hypotheses()[0].tokens != found[0].tokens
    assert differs > 5  # the language model had an effect


def score_of(text: str, fusion: LmFusion, finished: bool = False) -> float:
    """The scores that the language model and the letters add to a hypothesis."""
    search = CtcPrefixBeamSearch(beam_size=64, lm=fusion)
    rows = [CHARACTERS.index(c) for c in text for c in (c, "")]
    search.advance(np.log(np.eye(4, dtype=np.float32)[rows] * 0.97 + 0.01).astype(np.float32))
    wanted = [CHARACTERS.index(c) for c in text]
    return next(h.lm_score for h in search.hypotheses(64, finished) if h.tokens == wanted)


def test_incomplete_word_counts_as_its_likeliest_completion(lm: NgramLm) -> None:
    fusion = LmFusion(lm, CHARACTERS, **OPTIONS)
    a, b, ba = GAINS[" ", "A"], GAINS[" ", "B"], GAINS[" ", "B"] + GAINS["B", "A"]
    # After <s> the bigram of AB, or the back-off weight -0.2 and a unigram; look-ahead ignores <unk>.
    assert score_of("A", fusion) == pytest.approx(0.8 * -0.2 * math.log(10) + 0.4 + a, abs=1e-2)
    assert score_of("B", fusion) == pytest.approx(0.8 * -1.7 * math.log(10) + 0.4 + b, abs=1e-2)
    assert score_of("BA", fusion) == pytest.approx(0.8 * -2.7 * math.log(10) + 0.4 + ba, abs=1e-2)
    assert score_of("BB", fusion) == pytest.approx(0.8 * -2.0 * math.log(10) + 0.4 - 1.5, abs=1e-5)
    assert score_of("AB\u2581", fusion) == pytest.approx(0.8 * -0.2 * math.log(10) + 0.4 + gain("AB"), abs=0.01)
    whole = 0.8 * sum(lm.log_probs(["AB"])) + 0.4 + gain("AB")
    assert score_of("AB", fusion, finished=True) == pytest.approx(whole, abs=1e-5)
    assert (
        score_of("BA\u2581", fusion)
        == score_of("BA\u2581\u2581", fusion)
        == pytest.approx(0.8 * lm.log_probs(["<unk>"])[0] + 0.4 - 1.5, abs=1e-5)
    )


def test_look_ahead_is_the_best_bigram_completion() -> None:
    rng = np.random.default_rng(1)
    words = sorted({"".join(rng.choice(["A", "B"], size=rng.integers(1, 7))) for _ in range(90)})
    log10 = {word: round(float(rng.uniform(-4, -2)), 1) for word in words}
    backoffs = {word: round(float(rng.uniform(-1, 0)), 1) for word in words}
    followers = {
        word: rng.choice(words, size=min(len(words), int(rng.integers(1, 60))), replace=False) for word in words
    }
    bigrams = {(word, after): round(float(rng.uniform(-3, -0.5)), 1) for word in words for after in followers[word]}
    unigrams = [f"{log10[word]} {word} {backoffs[word]}" for word in words]
    file = packed(
        ["-99 <s> -0.1", "-1 </s>", "-3 <unk> -0.1", *unigrams],
        [f"{value} {word} {after}" for (word, after), value in bigrams.items()],
    )
    lm = NgramLm(np.frombuffer(file, np.uint8))
    fusion = LmFusion(lm, CHARACTERS, **{**OPTIONS, "prior_weight": 0.0})
    compared = 0
    for word in words[::7]:
        of_word = score_of(f"{word}\u2581", fusion)
        for length in range(1, 5):
            for beginning in map("".join, itertools.product("AB", repeat=length)):
                become = [after for after in words if after.startswith(beginning)]
                if not become:
                    continue
                best = max(bigrams.get((word, after), -99.0) for after in become)
                best = max(best, *(backoffs[word] + log10[after] for after in become))
                expected = of_word + 0.8 * best * math.log(10) + 0.4
                assert score_of(f"{word}\u2581{beginning}", fusion) == pytest.approx(expected, abs=0.03)
                compared += 1
    assert compared > 100


def test_rare_letter_counts_as_one_in_200() -> None:
    lm = NgramLm(np.frombuffer(packed(["-99 <s>", "-1 </s>", "-1 <unk>", "-0.1 A", "-5 Q"]), np.uint8))
    search = CtcPrefixBeamSearch(
        lm=LmFusion(lm, ["", "Q"], weight=0.0, word_bonus=0.0, oov_penalty=0.0, prior_weight=1.0)
    )
    search.advance(np.log(np.array([[0.01, 0.99]], np.float32)))
    assert search.hypotheses()[0].lm_score == pytest.approx(math.log(200), abs=1e-5)


def test_keeps_the_best_hypothesis_of_one_future(lm: NgramLm) -> None:
    """The model is a 2-gram, so its state is the last complete word and the letters since."""

    def future(hypothesis: Hypothesis) -> tuple[str, ...]:
        spelled = "".join(CHARACTERS[t] for t in hypothesis.tokens).replace("\u2581", " ")
        words, under_way = spelled.split(), "" if spelled.endswith(" ") else spelled.split(" ")[-1]
        last = [*["<s>"], *(words[:-1] if under_way else words)][-1]
        known = [w for w in ("A", "AB", "B", "BAA") if w.startswith(under_way)]
        return last if last in lm else "<unk>", under_way if known else "<unk>", spelled[-1:]

    rng = np.random.default_rng(5)
    fusion = LmFusion(lm, CHARACTERS, **OPTIONS)
    gain, repeated = 0.0, 0
    for _ in range(20):
        log_probs = np.log(rng.dirichlet(np.full(4, 0.5), size=30)).astype(np.float32)
        plain, merged = (CtcPrefixBeamSearch(beam_size=6, recombine=r, lm=fusion) for r in (False, True))
        plain.advance(log_probs)
        merged.advance(log_probs)
        futures = [future(h) for h in merged.hypotheses(6)]
        assert len(set(futures)) == len(futures) > 1
        repeated += 6 - len({future(h) for h in plain.hypotheses(6)})
        best = [search.hypotheses(1)[0] for search in (plain, merged)]
        gain += (best[1].log_prob + best[1].lm_score) - (best[0].log_prob + best[0].lm_score)
    assert repeated > 20 and gain > 1.0  # with the same number of hypotheses it finds better ones


def test_hypotheses_ending_in_different_letters_differ_in_future(lm: NgramLm) -> None:
    """BBA and BBB are both outside the lexicon, but repeating the last letter would extend only one of them."""
    rows = np.full((5, 4), 1e-4, np.float32)
    rows[range(4), [3, 0, 3, 0]] = 1 - 3e-4
    rows[4, 2:] = 0.4999
    search = CtcPrefixBeamSearch(beam_size=10, recombine=True, lm=LmFusion(lm, CHARACTERS, **OPTIONS))
    search.advance(np.log(rows))
    found = [h.tokens for h in search.hypotheses(10)]
    assert [3, 3, 2] in found and [3, 3, 3] in found


def test_the_recognizer_searches_so(lm: NgramLm) -> None:
    fusion = LmFusion(lm, CHARACTERS, **OPTIONS)
    log_probs = np.log(np.random.default_rng(5).dirichlet(np.full(4, 0.5), size=60)).astype(np.float32)

    def found(search: CtcPrefixBeamSearch | CtcGreedySearch) -> list[list[int]]:
        search.advance(log_probs)
        return [h.tokens for h in search.hypotheses(400)]

    threshold = {"beam_threshold": BEAM_THRESHOLD}
    expected = found(CtcPrefixBeamSearch(beam_size=400, recombine=True, lm=fusion, **threshold))
    assert found(new_search("beam", 400, fusion)) == expected
    assert found(CtcPrefixBeamSearch(beam_size=400, lm=fusion, **threshold)) != expected
    assert found(CtcPrefixBeamSearch(beam_size=400, recombine=True, lm=fusion)) != expected


@pytest.mark.parametrize("with_lm", [False, True])
def test_what_is_far_below_the_best_is_dropped(lm: NgramLm, with_lm: bool) -> None:
    log_probs = np.log(np.random.default_rng(6).dirichlet(np.full(4, 0.5), size=20)).astype(np.float32)
    fusion = LmFusion(lm, CHARACTERS, **OPTIONS) if with_lm else None

    def scores(threshold: float) -> list[float]:
        search = CtcPrefixBeamSearch(beam_size=200, beam_threshold=threshold, lm=fusion)
        search.advance(log_probs)
        return [h.log_prob + h.lm_score for h in search.hypotheses(200)]

    everything, near = scores(0.0), scores(2.0)
    assert 1 < len(near) < len(everything) == 200
    assert near[0] == pytest.approx(everything[0], abs=0.5) and near[0] - near[-1] <= 2.0
    with pytest.raises(ValueError, match="beam_threshold must be at least 0"):
        scores(math.nan)


def test_what_does_not_fit_is_named(lm: NgramLm) -> None:
    for name, value, allowed in (
        ("weight", -0.5, "[0, 10]"),
        ("weight", math.nan, "[0, 10]"),
        ("word_bonus", 21.0, "[-20, 20]"),
        ("oov_penalty", -1.0, "[0, 100]"),
        ("prior_weight", 2.5, "[0, 2]"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"lm_{name} is {value:g}; it must be in {allowed}")):
            LmFusion(lm, CHARACTERS, **{**OPTIONS, name: value})
    search = CtcPrefixBeamSearch(lm=LmFusion(lm, CHARACTERS, **OPTIONS))
    with pytest.raises(ValueError, match="vocab_size is 5, but the language model or hotwords were given 4 tokens"):
        search.advance(np.full((1, 5), -2.0, np.float32))


def test_hypotheses_of_different_hotwords_are_not_recombined(lm: NgramLm) -> None:
    """ABB and BB are both outside the lexicon and end alike, but only one of them can become the hotword."""
    hotwords = Hotwords("BBA", CHARACTERS, 1.5)
    fusion = LmFusion(lm, CHARACTERS, **OPTIONS, hotwords=hotwords)
    abb, bb = ([CHARACTERS.index(c) for c in word] for word in ("ABB", "BB"))
    rows = np.full((6, 4), 1e-4, np.float32)
    rows[0] = [0.001, 1e-4, 0.9988, 1e-4]
    rows[range(1, 6), [0, 3, 0, 3, 2]] = 1 - 3e-4
    search = CtcPrefixBeamSearch(beam_size=10, recombine=True, lm=fusion)
    search.advance(np.log(rows[:5]))
    found = [h.tokens for h in search.hypotheses(10)]
    assert found[0] == abb and bb in found
    search.advance(np.log(rows[5:]))
    assert search.hypotheses()[0].tokens == [*bb, 2]


def test_a_pause_costs_no_more_than_speakers_pause() -> None:
    lm = NgramLm(np.frombuffer(packed(["-99 <s>", "-5 </s>", "-1 <unk>", "-0.1 A", "-0.7 B"]), np.uint8))
    fusion = LmFusion(lm, CHARACTERS, weight=1.0, word_bonus=0.0, oov_penalty=0.0, prior_weight=0.0)
    search = CtcPrefixBeamSearch(lm=fusion)
    search.advance(np.log(np.array([[1e-3, 1e-3, 0.997, 1e-3]], np.float32)))
    assert search.hypotheses(finished=True)[0].lm_score == pytest.approx(-0.1 * math.log(10) - 3.5, abs=1e-4)


def test_language_model_in_another_case_is_refused(lm: NgramLm) -> None:
    """The search would propose none of its words."""
    with pytest.raises(ValueError, match=r"can spell none of the language model's words, such as 'A'.* case"):
        LmFusion(lm, ["", "\u2581", "a", "b"])
    LmFusion(lm, ["", "\u2581", "a", "A"])  # one word is enough
