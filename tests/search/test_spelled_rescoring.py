"""Finals of a search by spelling, rescored by a neural language model: with letters, without phones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.toy_model import toy_decoder
from support.work import answer_scores, answer_step, encoder_step, is_scoring, piece_tree, scored_tokens
from test_phone_search import LETTERS, model
from test_phone_segment import LOUDNESS, STEP, sound
from test_rescoring import lm_metadata, texts

from asr import _core
from asr.runtime.metadata import ModelMetadata
from asr.runtime.search import LmWeights, new_hotwords, output_symbols

SYMBOLS = [
    {"A": 0.56, "B": 0.43},
    {"\u2581": 0.99},
    {"B": 0.99},
    {"C": 0.56, "B": 0.43},
    {"B": 0.56, "\u2581": 0.43},
]
"""Probabilities of the tokens for each loudness, from 1; the blank gets most of the rest, and all at silence."""
A_OR_B, SPACE, B, C_OR_B, SPACE_OR_B = range(1, 6)
SILENCE = [0] * 30
SPELLING = ["<blk>", "<unk>", "<sos/eos>", "\u2581A", "\u2581B", "\u2581C", "A", "B", "C"]
"""The pieces of the network."""
LM = lm_metadata(pieces=SPELLING)
Answer = Callable[[str], float]


def network(features: np.ndarray) -> np.ndarray:
    """(T, V) log-probabilities of the letters for (4 T + 3, 80) features."""
    rows = []
    for start in range(0, len(features) - 3, 4):
        distance = np.abs(features[start + 1 : start + 3].mean() - LOUDNESS[: len(SYMBOLS)])
        row = np.full(len(LETTERS), 1e-6)
        probs = SYMBOLS[int(distance.argmin())] if distance.min() < STEP / 2 else {}
        row[0] = 0.01 if probs else 1.0
        for token, prob in probs.items():
            row[LETTERS.index(token)] = prob
        rows.append(np.log(row / row.sum()))
    return np.array(rows, np.float32)


def options(
    lm: _core.NeuralLmMetadata | None,
    fusion: _core.LmFusion | None = None,
    weights: tuple[float, float] = (1.0, 0.0),
    **chosen: Any,
) -> _core.SegmentOptions:
    """weights: weight and word_bonus of the neural language model without n-grams."""
    fixed = {"chunk_ms": 320, "beam_size": 32, "silence_after_speech_s": 0.8, "min_silence_after_speech_s": 0.8}
    metadata = ModelMetadata(
        tokens=("<blk>", "<unk>", "<sos/eos>", *LETTERS[3:]), num_layers=1, dim=2, neural_lm_weights=weights
    )
    options = _core.Options(**{"search": "beam", **fixed, **chosen})
    return _core.SegmentOptions(options, metadata.core, fusion=fusion, neural_lm=lm, decoder=toy_decoder(LETTERS))


def run(
    made: _core.SegmentOptions,
    symbols: list[int],
    lm: Answer = lambda text: -1.0,
    decoder: Callable[[list[int]], float] = lambda tokens: 0.0,
    failing: str = "",
) -> tuple[list[tuple], list[Any]]:
    """Events, and the work except for encoder steps.

    lm: log-probability of the last piece of a text, see `texts`. decoder: of a hypothesis. failing: network that fails.
    """
    core, others = _core.Stream(made), []
    core.accept(sound(symbols))
    core.finish()
    while (work := core.work()) is not None:
        if work.network == "encoder":
            letters = network(encoder_step(work).features)
            answer_step(core, letters, np.zeros((len(letters), 2), np.float32))
            continue
        others.append(work)
        if work.network == failing:
            core.not_answered("no luck")
        elif work.network == "neural_lm":
            answer_scores(core, [lm(text) for text in texts(piece_tree(work), SPELLING)])
        elif is_scoring(work):
            answer_scores(core, [decoder(tokens) for tokens in scored_tokens(work)])
        else:
            (shape,) = work.outputs.values()
            core.answer([np.full(shape, -np.log(len(LETTERS)), np.float32)])
    return core.take_events(), others


def finals(*arguments: Any, **named: Any) -> list[str]:
    events, _ = run(*arguments, **named)
    return [event[1] for event in events if event[0] == "final"]


def prefers(*words: str) -> Answer:
    """Gives these words, and their ends, 1 nat more than others."""
    return lambda text: -0.5 if text.rstrip("|").split(" ")[-1] in words else -1.5


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize("likely", ["A", "B"])
def test_likelier_of_close_sentences_wins(likely: str, second_pass: bool) -> None:
    found = finals(options(LM, second_pass=second_pass), [0, A_OR_B, *SILENCE], prefers(likely))
    assert found == [likely]
    assert finals(options(None, second_pass=second_pass), [0, A_OR_B, *SILENCE]) == ["A"]


def test_weights_are_those_of_the_model_file() -> None:
    speech = [0, A_OR_B, *SILENCE]
    assert finals(options(LM, weights=(0.0, 0.0)), speech, prefers("B")) == ["A"]
    assert finals(options(lm_metadata(0.0, 0.0, SPELLING)), speech, prefers("B")) == ["B"]  # these are for n-grams


def test_bonus_of_words_decides_between_one_and_two() -> None:
    speech = [0, B, 0, SPACE_OR_B, 0, B, *SILENCE]
    assert finals(options(LM, weights=(0.0, 0.0)), speech) == ["BBB"]
    assert finals(options(LM, weights=(0.0, 1.0)), speech) == ["B B"]


def test_partials_stay_as_they_are() -> None:
    speech = [0, A_OR_B, 0, SPACE, 0, C_OR_B, 0, B, *SILENCE, A_OR_B, *SILENCE]
    for second_pass in (False, True):
        without, _ = run(options(None, second_pass=second_pass), speech)
        found, trees = run(options(LM, second_pass=second_pass), speech, prefers("B", "BB"))
        assert len(trees) == 2
        assert [event for event in found if event[0] == "partial"] == [e for e in without if e[0] == "partial"]
        assert [event[1] for event in found if event[0] == "final"] == ["B BB", "B"]


def test_words_follow_each_other_and_are_uncertain() -> None:
    speech = [0, A_OR_B, 0, 0, SPACE, 0, C_OR_B, 0, 0, B, *SILENCE]
    (final,) = [e for e in run(options(LM), speech, prefers("B", "BB"))[0] if e[0] == "final"]
    spans = [(word[1], word[2]) for word in final[4]]
    assert len(spans) == 2 and all(start < end for start, end in spans) and spans[0][1] <= spans[1][0]
    assert all(0 < word[3] < 1 for word in final[4])


def test_alternatives_are_other_sentences() -> None:
    recognized, alone = (
        run(options(LM, max_alternatives=n), [0, A_OR_B, 0, SPACE, 0, C_OR_B, *SILENCE], prefers("B"))[0]
        for n in (3, 0)
    )
    (final,), (without,) = ([e for e in events if e[0] == "final"] for events in (recognized, alone))
    assert final[1] == without[1] == "B B"
    (alternatives,) = [field for field in final if isinstance(field, list) and field and len(field[0]) == 3]
    shown = [text for text, _, _ in alternatives]
    assert len(set(shown)) == len(shown) == 3 and final[1] not in shown
    confidences = [confidence for _, _, confidence in alternatives]
    assert confidences == sorted(confidences, reverse=True) and 0 < sum(confidences) < 1


def test_hotwords_still_act() -> None:
    hotwords = new_hotwords(["A"], LETTERS, 3.0)
    fusion = _core.LmFusion(None, output_symbols(LETTERS), hotwords=hotwords)
    with pytest.raises(RuntimeError, match="without a language model there are no words"):
        fusion.text(0)
    speech = [0, A_OR_B, *SILENCE]
    assert finals(options(LM, fusion), speech, prefers("B")) == ["A"]
    strong = options(LM, fusion, weights=(9.0, 0.0))
    assert finals(strong, speech, prefers("B")) == ["B"]


def test_the_utterance_before_is_read_first() -> None:
    speech = [0, A_OR_B, *SILENCE, C_OR_B, *SILENCE]
    _, trees = run(options(LM), speech, prefers("B"))
    assert len(trees) == 2 and {"| B| B|", "| B|"} <= set(texts(piece_tree(trees[1]), SPELLING))


def test_spelled_sentences_of_ngrams_are_rescored_in_a_lattice() -> None:
    """CB is outside the vocabulary: it has the probability of <unk> in the n-grams, and its own in the network."""
    fusion = LmWeights(weight=0.1, word_bonus=0.0, oov_penalty=0.5, prior_weight=0.0).fusion(model(), LETTERS)
    assert not fusion.over_phones
    speech = [0, A_OR_B, 0, B, 0, SPACE, 0, C_OR_B, 0, B, *SILENCE]
    made = options(lm_metadata(weight=10.0, pieces=SPELLING), fusion)
    for word in ("CB", "BB"):

        def answer(text: str, word: str = word) -> float:
            return -0.1 if word.startswith(text.rstrip("|").split(" ")[-1]) else -9.0

        found = finals(made, speech, answer)
        assert found[0].split()[1] == word


def test_decoder_scores_what_the_network_prefers() -> None:
    """B follows C in the list of the search, and is first in that of the decoder."""
    speech, tokens = [0, C_OR_B, *SILENCE], {name: LETTERS.index(name) for name in "BC"}
    made = options(LM, search="rescore")

    def prefer_c(found: list[int]) -> float:
        return 0.0 if found == [tokens["C"]] else -50.0

    _, others = run(made, speech, prefers("B"), prefer_c)
    assert others[0].network == "neural_lm" and is_scoring(others[1]) and len(others) == 2
    scored = scored_tokens(others[1])
    assert scored[0] == [tokens["B"]] and [tokens["C"]] in scored
    assert finals(made, speech, prefers("B"), prefer_c) == ["C"]
    assert finals(made, speech, prefers("B"), failing="decoder") == ["B"]


def test_sentences_of_a_joint_search_are_rescored() -> None:
    speech = [0, A_OR_B, 0, SPACE, 0, B, *SILENCE]
    made = options(LM, search="joint", joint_ctc_weight=0.9)
    events, others = run(made, speech, prefers("B"))
    assert [event[1] for event in events if event[0] == "final"] == ["B B"]
    assert others[-1].network == "neural_lm" and others[-2].network == "decoder" and others[-2].state is not None
    assert finals(options(None, search="joint", joint_ctc_weight=0.9), speech) == ["A B"]


def test_a_network_that_fails_costs_only_the_rescoring() -> None:
    speech = [0, A_OR_B, *SILENCE]
    for search, expected in (("beam", ["A"]), ("rescore", ["B"])):
        decoder = {LETTERS.index("A"): -50.0}
        events, _ = run(
            options(LM, search=search),
            [*speech, *speech],
            prefers("B"),
            lambda tokens, decoder=decoder: decoder.get(tokens[0] if tokens else 0, 0.0),
            failing="neural_lm",
        )
        (error,) = [event[1] for event in events if event[0] == "error"]
        assert error.startswith("the neural language model failed, and recognition goes on without it: no luck")
        assert [event[1] for event in events if event[0] == "final"] == 2 * expected


def test_combinations_without_effect_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"search greedy takes no neural language model.* use search beam, rescore or joint, or none"
    ):
        options(LM, search="greedy")
    pieces = ["<blk>", "<unk>", "<sos/eos>", "\u2581a", "\u2581b", "\u2581A"]
    with pytest.raises(ValueError, match=r"can spell 1 of the 4 tokens of the recognizer, and not 'B'; train it on"):
        options(lm_metadata(pieces=pieces))
