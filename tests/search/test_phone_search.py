"""Search over phones: words by their pronunciations, compared with its definition over all hypotheses."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from support import arpa
from support.pair_gains import pair_gains

from asr._core import CtcPrefixBeamSearch, Hypothesis, LmFusion, NgramLm
from asr.lexicon.g2p import G2pOptions, train
from asr.lexicon.lexicon import Lexicon
from asr.lm.packed import LmError, with_pronunciations
from asr.runtime.search import BEAM_SIZE, LmWeights, decode_words, new_hotwords, output_symbols, phone_words

PHONES = ["AA", "B", "K"]
TOKENS = ["", "\u2581AA", "AA", "\u2581B", "B", "\u2581K", "K"]
LETTERS = ["<blk>", "<unk>", "<sos/eos>", "\u2581", "A", "B", "C", "K"]
UNIGRAMS = (*arpa.UNIGRAMS, "-1.0 ABB -0.1", "-2.5 BAA 0")
BIGRAMS = ("-0.2 <s> AB", "-1.9 AB A", "-0.3 A ABB", "-1.1 A AB", "-0.4 B </s>", "-0.9 ABB B")
PRONUNCIATIONS = {
    "A": [["AA"], ["AA", "K"]],
    "AB": [["AA", "B"], ["B", "AA"]],
    "ABB": [["AA", "B"]],
    "B": [["B"]],
    "BAA": [["B", "AA"], ["K", "AA"]],
}
OPTIONS = {"weight": 0.8, "word_bonus": 0.4, "oov_penalty": 1.5, "prior_weight": 0.3}


PACKED = arpa.packed(UNIGRAMS, BIGRAMS)


def opened(packed: bytes) -> NgramLm:
    return NgramLm(np.frombuffer(packed, np.uint8))


def model(g2p: bytes = b"", packed: bytes = PACKED) -> NgramLm:
    return opened(with_pronunciations(packed, PHONES, PRONUNCIATIONS, g2p))


@pytest.fixture(scope="module")
def lm() -> NgramLm:
    return model()


GAINS = pair_gains({"A": -0.6, "AB": -0.9, "ABB": -1.0, "B": -1.5, "BAA": -2.5}, PRONUNCIATIONS.__getitem__, 0.3)


def spoken(hypothesis: tuple[int, ...]) -> list[tuple[str, ...]]:
    """The pronunciations of the words of a hypothesis."""
    words: list[list[str]] = []
    for token in hypothesis:
        if not words or TOKENS[token].startswith("\u2581"):
            words.append([])
        words[-1].append(TOKENS[token].lstrip("\u2581"))
    return [tuple(word) for word in words]


def readings(hypothesis: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Every sequence of words with this pronunciation; "" for a word outside the vocabulary."""
    homophones = [
        [word for word, variants in PRONUNCIATIONS.items() if list(phones) in variants] or [""]
        for phones in spoken(hypothesis)
    ]
    return list(itertools.product(*homophones))


def definition(lm: NgramLm, hypothesis: tuple[int, ...], words: tuple[str, ...]) -> float:
    score = 0.8 * sum(lm.log_probs([word or "<unk>" for word in words])) + 0.4 * len(words)
    for word, phones in zip(words, spoken(hypothesis), strict=True):
        score += sum(GAINS[pair] for pair in itertools.pairwise([" ", *phones, " "])) if word else -1.5
    return score


def random_log_probs(rng: np.random.Generator, num_frames: int, num_tokens: int = 7) -> np.ndarray:
    return np.log(rng.dirichlet(np.full(num_tokens, 0.5), size=num_frames) + 1e-7).astype(np.float32) - 1e-6


def test_wide_beam_finds_the_best_hypothesis(lm: NgramLm) -> None:
    rng = np.random.default_rng(0)
    fusion = LmFusion(lm, LETTERS, **OPTIONS, phones=PHONES)
    assert fusion.over_phones and fusion.tokens == TOKENS
    rarer = 0
    score, read = functools.cache(functools.partial(definition, lm)), functools.cache(readings)
    for _ in range(50):
        log_probs = random_log_probs(rng, 5)
        rows = log_probs.tolist()
        totals: dict[tuple[int, ...], float] = defaultdict(float)
        for path in itertools.product(range(7), repeat=5):
            collapsed = tuple(k for k, _ in itertools.groupby(path) if k)
            totals[collapsed] += math.exp(sum(row[k] for row, k in zip(rows, path, strict=True)))
        scored = {(h, w): math.log(p) + score(h, w) for h, p in totals.items() for w in read(h)}
        best = max(scored, key=scored.__getitem__)
        search = CtcPrefixBeamSearch(beam_size=1024, lm=fusion)
        search.advance(log_probs)
        found = search.hypotheses(5, finished=True)
        for hypothesis in found:
            h, w = tuple(hypothesis.tokens), tuple(fusion.text(word) for word in hypothesis.words)
            assert hypothesis.log_prob == pytest.approx(math.log(totals[h]), abs=1e-3)
            assert hypothesis.lm_score == pytest.approx(score(h, w), abs=1e-3)
        assert (tuple(found[0].tokens), tuple(fusion.text(word) for word in found[0].words)) == best
        rarer += any(word == "ABB" for word in best[1])
    assert rarer > 2  # ABB is rarer than AB, which sounds the same


def sure(*tokens: str, spelling: list[str] = TOKENS, doubt: float = 0.01) -> np.ndarray:
    """Log-probabilities (T, V) of these tokens, one frame each, "" for the blank."""
    rows = np.full((len(tokens), len(spelling)), doubt, np.float32)
    rows[range(len(tokens)), [spelling.index(token) if token else 0 for token in tokens]] = 1 - doubt * (
        len(spelling) - 1
    )
    return np.log(rows)


def facts(hypotheses: list[Hypothesis]) -> list[tuple[object, ...]]:
    return [(h.tokens, h.words, h.log_prob, h.lm_score, h.start_frames) for h in hypotheses]


@pytest.mark.parametrize("recombine", [False, True])
def test_letters_are_a_lexicon_of_spellings(recombine: bool) -> None:
    spelled = {word: [list(word)] for word in PRONUNCIATIONS}
    lm = opened(with_pronunciations(PACKED, ["A", "B"], spelled))
    phones = LmFusion(lm, LETTERS, **OPTIONS, phones=["A", "B"])
    assert phones.tokens == ["", "\u2581A", "A", "\u2581B", "B"]
    letters = LmFusion(opened(PACKED), phones.tokens, **OPTIONS)
    rng = np.random.default_rng(3)
    for _ in range(20):
        log_probs = random_log_probs(rng, 40, 5)
        found = []
        for fusion in (phones, letters):
            search = CtcPrefixBeamSearch(beam_size=20, beam_threshold=10.0, recombine=recombine, lm=fusion)
            search.advance(log_probs)
            found.append([(h.tokens, h.log_prob, h.lm_score) for h in search.hypotheses(20, finished=True)])
        assert found[0] == found[1]


def test_chunks_and_resets_change_nothing(lm: NgramLm) -> None:
    fusion = LmFusion(lm, LETTERS, **OPTIONS, phones=PHONES)
    log_probs = random_log_probs(np.random.default_rng(1), 60)
    whole, parts = (CtcPrefixBeamSearch(beam_size=12, beam_threshold=10.0, recombine=True, lm=fusion) for _ in range(2))
    whole.advance(log_probs)
    parts.advance(log_probs[:13])
    parts.reset()  # after another utterance
    for row in log_probs:
        parts.advance(row[None])
        parts.hypotheses(12, finished=True)
    expected = [(tokens, words, log_prob, score) for tokens, words, log_prob, score, _ in facts(whole.hypotheses(12))]
    assert [(t, w, p, s) for t, w, p, s, _ in facts(parts.hypotheses(12))] == expected


def test_order_of_the_models_phones_is_irrelevant(lm: NgramLm) -> None:
    log_probs = random_log_probs(np.random.default_rng(2), 30)
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        fusion = LmFusion(lm, LETTERS, **OPTIONS, phones=[PHONES[i] for i in order])
        columns = [0, *(1 + 2 * i + k for i in order for k in (0, 1))]
        search = CtcPrefixBeamSearch(beam_size=50, lm=fusion)
        search.advance(np.ascontiguousarray(log_probs[:, columns]))
        (best,) = search.hypotheses(finished=True)
        found.append(([columns[t] for t in best.tokens], best.words, pytest.approx(best.lm_score, abs=1e-5)))
    assert found[0] == found[1]


def test_other_phones_are_named_and_none_search_letters(lm: NgramLm) -> None:
    message = "the model lacks B; the language model lacks D; use the lexicon"
    with pytest.raises(ValueError, match=message):
        LmFusion(lm, LETTERS, phones=["AA", "D", "K"])
    assert not LmFusion(lm, LETTERS).over_phones
    assert not LmFusion(opened(PACKED), LETTERS, phones=PHONES).over_phones
    fusion = LmFusion(lm, LETTERS, phones=PHONES)
    with pytest.raises(ValueError, match="vocab_size is 8, but the language model or hotwords were given 7 tokens"):
        CtcPrefixBeamSearch(lm=fusion).advance(sure("A", spelling=LETTERS))
    with pytest.raises(ValueError, match="the model has no phone_log_probs"):
        decode_words(sure("A", spelling=LETTERS), LETTERS, "beam", fusion=fusion)


def test_word_is_shown_once_it_is_complete(lm: NgramLm) -> None:
    fusion = LmFusion(lm, LETTERS, **OPTIONS, phones=PHONES)
    search = CtcPrefixBeamSearch(lm=fusion)
    told = []
    for token in ("\u2581K", "AA", "\u2581B", "AA"):
        search.advance(sure(token))
        told.append([fusion.text(word) for word in search.hypotheses()[0].words])
    assert told == [[""], ["BAA"], ["BAA", "B"], ["BAA", "AB"]]


@pytest.fixture(scope="module")
def unknown(lm: NgramLm) -> tuple[LmFusion, np.ndarray]:
    """A fusion that prefers unknown words to unlikely phones, and phones of a known, an unknown and a known word: A KB
    B."""
    fusion = LmFusion(lm, LETTERS, weight=0.1, word_bonus=0.0, oov_penalty=0.5, prior_weight=0.0, phones=PHONES)
    return fusion, sure("\u2581AA", "", "", "", "\u2581K", "B", "", "", "", "\u2581B", "")


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("A . . \u2581 C A B . \u2581 B .", "A CAB B"),
        ("A A . . \u2581 C A B \u2581 . B", "A CAB B"),
        ("A \u2581 . C A . B . . \u2581 B", "A CAB B"),  # the letters come earlier than the phones
        ("A \u2581 . . . C B . \u2581 B B", "A CB B"),
        ("A . . \u2581 C A \u2581 K . \u2581 B", "A CAK B"),  # two words for the letters
        ("\u2581 A . . . . . . . \u2581 B", "A B"),  # nothing: no word
    ],
)
def test_word_outside_the_vocabulary_gets_its_letters(
    unknown: tuple[LmFusion, np.ndarray], letters: str, expected: str
) -> None:
    fusion, phone_log_probs = unknown
    log_probs = sure(*letters.replace(".", "").split(" "), spelling=LETTERS)
    found = decode_words(log_probs, LETTERS, "rescore", fusion=fusion, phone_log_probs=phone_log_probs)
    assert " ".join(word.word for word in found) == expected
    times = [time for word in found for time in (word.start, word.end)]
    assert times == sorted(times) and all(0 < word.confidence < 1 for word in found)


@pytest.mark.parametrize(
    ("spans", "letters", "expected"),
    [
        ([(10, 13)], {3: "A", 4: "B", 19: "C", 20: "K"}, "BC"),  # 6 frames before its phones and after them
        ([(10, 13)], {5: "A", 13: "\u2581", 14: "B"}, "B"),  # a word of the letter head begins within 4 frames
        ([(10, 13)], {4: "A", 14: "\u2581", 15: "B"}, "AB"),  # none does
        ([(10, 13)], {7: "A", 10: "\u2581", 11: "B", 12: "\u2581", 13: "C"}, "BC"),  # of three the nearest
        ([(0, 3), (12, 15)], {1: "A", 7: "B", 8: "C"}, "AB C"),  # none: the middle between the two words
        ([(0, 1), (4, 5)], {0: "A", 1: "\u2581", 2: "B", 3: "C"}, "AB C"),  # one as near to the word before
    ],
)
def test_letters_may_lie_only_near_their_phones(
    unknown: tuple[LmFusion, np.ndarray], spans: list[tuple[int, int]], letters: dict[int, str], expected: str
) -> None:
    """spans: the first and the last phone of the unknown words, each of which is KB; letters: keyed by frame."""
    phones = {frame: phone for span in spans for frame, phone in zip(span, ("\u2581K", "B"), strict=True)}
    log_probs = sure(*(letters.get(frame, "") for frame in range(24)), spelling=LETTERS)
    phone_log_probs = sure(*(phones.get(frame, "") for frame in range(24)))
    found = decode_words(log_probs, LETTERS, "rescore", fusion=unknown[0], phone_log_probs=phone_log_probs)
    assert " ".join(word.word for word in found) == expected


def test_words_are_those_of_their_own_search(unknown: tuple[LmFusion, np.ndarray]) -> None:
    fusion, _ = unknown
    lists = {"start_frames": [0], "end_frames": [1], "confidences": [1.0]}
    hypothesis = Hypothesis([1], log_prob=0.0, lm_score=0.0, **lists)
    with pytest.raises(ValueError, match="has 0 words for 1 in phones: it is from a different search"):
        phone_words(hypothesis, fusion, sure("A", spelling=LETTERS), LETTERS)


# ---- hotwords ----


@pytest.fixture(scope="module")
def pronouncer() -> bytes:
    """Reads A as AA, B as B, C and K as K."""
    names = {"A": "AA", "B": "B", "C": "K", "K": "K"}
    words = ["".join(letters) for n in (2, 3, 4) for letters in itertools.product(names, repeat=n)]
    return train(Lexicon({word: (tuple(names[letter] for letter in word),) for word in words}), G2pOptions(order=2))


def heard_with(hotwords: list[str], lm: NgramLm, *tokens: str, boost: float = 2.0) -> tuple[str, Hypothesis]:
    hot = new_hotwords(hotwords, LETTERS, boost, lm, PHONES) if hotwords else None
    fusion = LmFusion(lm, LETTERS, **OPTIONS, hotwords=hot, phones=PHONES)
    search = CtcPrefixBeamSearch(beam_size=100, lm=fusion)
    search.advance(sure(*tokens))
    (best,) = search.hypotheses(finished=True)
    return " ".join(fusion.text(word) or "?" for word in best.words), best


def test_hotword_is_distinguished_from_words_sounding_alike(lm: NgramLm, pronouncer: bytes) -> None:
    sounds = ("\u2581B", "", "\u2581AA", "B", "")
    assert heard_with([], lm, *sounds)[0] == "B AB"
    text, best = heard_with(["abb"], lm, *sounds)
    assert text == "B ABB" and best.hotword_score == pytest.approx(2.0 * 3)
    assert heard_with(["aab"], model(g2p=pronouncer), *sounds)[0] == "B AB"  # is pronounced AA AA B
    assert heard_with(["abb", "b abb:1"], lm, *sounds)[1].hotword_score == pytest.approx(2.0 * 3 + 4)
    assert heard_with(["b ab:3"], lm, *sounds)[1].hotword_score == pytest.approx(3 * 3)
    text, best = heard_with(["ab b:0.5"], lm, *sounds)
    assert text == "B AB" and best.hotword_score == 0


def test_hotword_outside_the_lexicon_is_written_as_given(pronouncer: bytes) -> None:
    lm = model(g2p=pronouncer)
    sounds = ("\u2581AA", "", "\u2581K", "AA", "B", "", "\u2581B")
    assert heard_with([], lm, *sounds)[0] == "A ? B"
    text, best = heard_with(["cab"], lm, *sounds)
    assert text == "A CAB B" and best.hotword_score == pytest.approx(2.0 * 3)
    assert heard_with(["cab b:1"], lm, *sounds)[1].hotword_score == pytest.approx(4)
    both = heard_with(["cab:1", "kab:1.5"], lm, *sounds)  # of two that sound alike, the dearer
    assert both[0] == "A KAB B" and both[1].hotword_score == pytest.approx(4.5)
    text, best = heard_with(["ac:0.1"], lm, "\u2581AA", "K", "", "\u2581B")
    assert text == "A B" and best.hotword_score == 0  # a more likely word sounds the same


def test_a_hotword_gains_by_its_phones_so_far(pronouncer: bytes) -> None:
    lm = model(g2p=pronouncer)
    hot = new_hotwords(["cabb:1.5"], LETTERS, lm=lm, phones=PHONES)
    search = CtcPrefixBeamSearch(lm=LmFusion(lm, LETTERS, **OPTIONS, hotwords=hot, phones=PHONES))
    gains = []
    for tokens in (["\u2581K"], ["AA"], ["B"], ["", "B"], ["", "\u2581AA"]):
        search.advance(sure(*tokens))
        gains.append(search.hypotheses()[0].hotword_score)
    assert gains == pytest.approx([1.5, 3.0, 4.5, 6.0, 6.0])


def test_a_hotword_that_cannot_be_pronounced_is_named(lm: NgramLm, pronouncer: bytes) -> None:
    (warning,) = new_hotwords(["a cab", "ab"], LETTERS, lm=lm, phones=PHONES).warnings
    assert warning.startswith("hotword line 'a cab': hotword 'CAB' cannot be pronounced: ")
    assert "has no model that pronounces new words" in warning
    (warning,) = new_hotwords(["A" * 70, "ab"], LETTERS, lm=model(g2p=pronouncer), phones=PHONES).warnings
    assert warning.startswith(f"hotword line '{'A' * 70}': ")
    assert "its pronouncing model cannot read it; write it as known words" in warning
    spelled = new_hotwords(["ab"], LETTERS)
    with pytest.raises(ValueError, match="the hotwords are spelled, but the search is over phones"):
        LmFusion(lm, LETTERS, hotwords=spelled, phones=PHONES)


def test_phones_of_another_pronouncing_model_are_named() -> None:
    """For each hotword: later ones of a list are read after the first has failed."""
    odd = train(Lexicon({"C": (("ZZ",),), "K": (("ZZ",),)}), G2pOptions(order=2, fewest=1))
    warnings = new_hotwords(["c", "ab", "k"], LETTERS, lm=model(g2p=odd), phones=PHONES).warnings
    assert [warning.split(":")[0] for warning in warnings] == ["hotword line 'c'", "hotword line 'k'"]
    assert all("with the phone 'ZZ', which it does not name" in warning for warning in warnings)


# ---- the file ----


def test_the_file_has_pronunciations(lm: NgramLm) -> None:
    assert lm.phones == PHONES
    for word in ("A", "AB", "ABB", "B", "BAA"):
        assert lm.pronunciations(word) == PRONUNCIATIONS[word]
    assert lm.pronunciations("<s>") == lm.pronunciations("NEVER") == []
    assert lm.log_probs(["A", "ABB"]) == opened(PACKED).log_probs(["A", "ABB"])
    assert opened(PACKED).phones == [] and opened(PACKED).pronunciations("A") == []
    again = with_pronunciations(with_pronunciations(PACKED, PHONES, PRONUNCIATIONS, b"old"), ["x"], {"A": [["x"]]})
    assert again == with_pronunciations(PACKED, ["x"], {"A": [["x"]]})


@pytest.mark.parametrize(
    ("phones", "pronunciations", "message"),
    [
        ([], {}, "1 to 128 different names, got 0"),
        (["AA", "AA"], {}, "1 to 128 different names, got 2"),
        ([str(i) for i in range(129)], {}, "1 to 128 different names, got 129"),
        (["AA", ""], {}, "different names"),
        (["AA"], {"A": [["B"]]}, "A is pronounced with 'B', which is not one of the phones"),
        (["AA"], {"A": [[]]}, "a pronunciation of A has 0 phones; 1 to 255"),
        (["AA"], {"A": [["AA"] * n for n in range(1, 257)]}, "A has 256 pronunciations; at most 255"),
    ],
)
def test_what_cannot_be_packed_is_named(
    phones: list[str], pronunciations: dict[str, list[list[str]]], message: str
) -> None:
    with pytest.raises(LmError, match=message):
        with_pronunciations(PACKED, phones, pronunciations)


# ---- defaults ----


def test_core_has_the_recognizers_weights_by_default() -> None:
    log_probs = random_log_probs(np.random.default_rng(6), 30, len(LETTERS))
    lm = opened(PACKED)
    scores = []
    for fusion in (LmFusion(lm, output_symbols(LETTERS)), LmWeights().fusion(lm, LETTERS)):
        search = CtcPrefixBeamSearch(lm=fusion)
        search.advance(log_probs)
        scores.append([(h.tokens, h.lm_score) for h in search.hypotheses(300)])
    assert scores[0] == scores[1] and len(scores[0]) == BEAM_SIZE
