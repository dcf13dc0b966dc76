"""Finals rescored by a neural language model: its input, and the effect of its output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.toy_model import toy_metadata
from support.work import PieceTree, answer_scores, answer_step, encoder_step, piece_tree
from test_phone_search import LETTERS, PHONES, model
from test_phone_segment import WEIGHTS, network, sound

from asr import _core

PIECES = ["<blk>", "<unk>", "<sos/eos>", "\u2581A", "\u2581B", "\u2581AB", "\u2581ABB", "A", "B"]
EDGE = 2
AB = [0, 1, 3, *[0] * 30]
"""The phones of AB and ABB, which are homophones."""


def lm_metadata(share: float = 1.0, weight: float = 1.0, pieces: Sequence[str] = PIECES) -> _core.NeuralLmMetadata:
    return _core.NeuralLmMetadata(
        {
            "model_type": _core.NEURAL_LM_TYPE,
            "format_version": str(_core.NEURAL_LM_VERSION),
            "pieces": "\n".join(pieces),
            "share": str(share),
            "weight": str(weight),
        }
    )


def stream(lm: _core.NeuralLmMetadata | None, second_pass: bool = True) -> _core.Stream:
    chosen = _core.Options(
        chunk_ms=320,
        second_pass=second_pass,
        search="beam",
        beam_size=32,
        silence_after_speech_s=0.8,
        min_silence_after_speech_s=0.8,
    )
    fusion = WEIGHTS.fusion(model(), LETTERS, phones=PHONES)
    options = _core.SegmentOptions(chosen, toy_metadata(LETTERS, PHONES), fusion=fusion, neural_lm=lm)
    return _core.Stream(options)


def run(core: _core.Stream, symbols: list[int], answer: Callable[[str], float]) -> tuple[list, list[PieceTree]]:
    """answer: gives the log-probability of the last piece of a text, whose utterances end with "|"."""
    core.accept(sound(symbols))
    core.finish()
    trees = []
    while (work := core.work()) is not None:
        if work.network == "neural_lm":
            trees.append(piece_tree(work))
            answer_scores(core, [answer(text) for text in texts(trees[-1])])
            continue
        letters, phones = network(encoder_step(work).features)
        answer_step(core, letters, np.zeros((len(letters), 2), np.float32), phones)
    return [event for event in core.take_events() if event[0] == "final"], trees


def finals(*arguments: Any) -> tuple[list[str], list[PieceTree]]:
    events, trees = run(*arguments)
    return [event[1] for event in events], trees


def texts(tree: PieceTree, pieces: Sequence[str] = PIECES) -> list[str]:
    """For each node, the text from the root to it."""
    found: list[str] = []
    for node, (piece, parent) in enumerate(zip(tree.pieces, tree.parents, strict=True)):
        spelled = "|" if piece == EDGE else pieces[piece].replace("\u2581", " ")
        found.append(spelled if node == 0 else found[parent] + spelled)
    return found


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize("likely", ["AB", "ABB"])
def test_likelier_of_words_that_sound_alike_wins(likely: str, second_pass: bool) -> None:
    found, _ = finals(stream(lm_metadata(), second_pass), AB, lambda text: -0.4 if text == f"| {likely}" else -0.5)
    assert found == [likely]


def test_without_a_share_nothing_changes() -> None:
    found, _ = finals(stream(lm_metadata(share=0.0)), AB, lambda text: -0.1 if "ABB" in text else -50.0)
    without, trees = finals(stream(None), AB, lambda text: 0.0)
    assert found == without == ["AB"]
    assert not trees


def test_mean_of_probabilities_decides() -> None:
    """The n-grams prefer AB (10 ** -0.2 at the beginning of a sentence); the neural model prefers ABB."""

    def answer(text: str) -> float:
        return -20.0 if text == "| AB" else -0.01

    assert finals(stream(lm_metadata(share=0.9)), AB, answer)[0] == ["ABB"]
    assert finals(stream(lm_metadata(share=0.01)), AB, answer)[0] == ["AB"]


def test_tree_has_each_beginning_once_and_all_sentences() -> None:
    _, (tree,) = finals(stream(lm_metadata()), AB, lambda text: -1.0)
    found = texts(tree)
    assert len(found) == len(set(found))
    assert {"| AB|", "| ABB|"} <= set(found)
    assert tree.pieces[0] == EDGE and tree.parents[0] == 0
    assert (tree.parents[1:] < np.arange(1, len(found))).all()
    assert (tree.depths[1:] == tree.depths[tree.parents[1:]] + 1).all()
    for node in range(len(found)):
        descendants = {node}
        for other in range(node + 1, len(found)):
            if tree.parents[other] in descendants:
                descendants.add(other)
        assert descendants == set(range(node, tree.ends[node]))


def test_a_tree_has_eight_nodes_or_more() -> None:
    """The graph divides the nodes into eighths, and kernels of onnxruntime-web fail on empty ones."""
    _, (tree,) = finals(stream(lm_metadata()), AB, lambda text: -1.0)
    assert texts(tree)[:5] == ["|", "| AB", "| AB|", "| ABB", "| ABB|"]
    assert len(tree.pieces) == 8


def test_sentences_with_the_same_last_words_share_nodes() -> None:
    """Eight words of one piece each: after six equal words, both sentences continue from the same node."""
    six = "| AB AB AB AB AB AB"

    def answer(text: str) -> float:
        return {f"{six} AB": -9.0, f"{six} ABB": -0.1}.get(text, -0.1 if text.endswith(" AB") else -2.0)

    found, (tree,) = finals(stream(lm_metadata()), [0, 1, 3] * 8 + [0] * 30, answer)
    assert found == ["AB AB AB AB AB AB ABB AB"]
    shown = texts(tree)
    inner = [shown[node].split()[1:] for node, end in enumerate(tree.ends) if end > node + 1]
    histories = [tuple(words[-6:]) for words in inner if len(words) >= 6]
    assert len(histories) == len(set(histories)) > 1


def test_the_utterance_before_is_read_first() -> None:
    core = stream(lm_metadata())
    found, trees = finals(core, AB + AB, lambda text: -0.4 if text.endswith("ABB") else -0.5)
    assert found == ["ABB", "ABB"]
    assert all(text.startswith("| ABB|"[: len(text)]) for text in texts(trees[1]))


def test_no_more_than_48_pieces_before_are_read() -> None:
    _, (_, second) = finals(stream(lm_metadata()), [0, 1, 3] * 60 + [0] * 30 + AB, lambda text: -1.0)
    assert 48 < second.depths.max() < 55


def test_nothing_before_a_long_silence_is_read() -> None:
    _, (_, second) = finals(stream(lm_metadata()), AB + [0] * 200 + AB, lambda text: -1.0)
    assert not any("| " in text[1:] for text in texts(second))


def test_the_end_costs_no_more_than_a_pause() -> None:
    """A speaker who pauses within a sentence must not lose a word."""
    found, _ = finals(stream(lm_metadata()), AB, lambda text: -40.0 if text == "| ABB|" else -1.0)
    assert found == ["AB"]  # -3.5 against -1
    found, _ = finals(stream(lm_metadata()), AB, lambda text: {"| ABB|": -40.0, "| AB": -9.0}.get(text, -1.0))
    assert found == ["ABB"]


def test_impossible_pieces_leave_a_finite_confidence() -> None:
    ((_, _, _, _, words, *_),), _ = run(stream(lm_metadata()), AB, lambda text: -math.inf)
    assert words and all(0 < word[3] < 1 for word in words)


@pytest.mark.parametrize(("value", "lacking"), [(-1.0, 1), (float("nan"), 0), (0.5, 0)])
def test_an_odd_answer_is_none(value: float, lacking: int) -> None:
    """The final is that of the search. It is reported once, and the model is asked again for the next utterance."""

    def events(lm: _core.NeuralLmMetadata | None) -> list[tuple]:
        core = stream(lm)
        core.accept(sound(AB + AB))
        core.finish()
        while (work := core.work()) is not None:
            if work.network == "neural_lm":
                trees.append(piece_tree(work))
                if len(trees) % 2:
                    answer_scores(core, [value] * (len(trees[-1].pieces) - lacking))
                else:
                    core.not_answered("no luck")
                continue
            letters, phones = network(encoder_step(work).features)
            answer_step(core, letters, np.zeros((len(letters), 2), np.float32), phones)
        return [event[:2] for event in core.take_events()]

    trees: list[PieceTree] = []
    found = events(lm_metadata())
    ((_, error),) = [event for event in found if event[0] == "error"]
    assert error.startswith("the neural language model failed, and recognition goes on without it: the ")
    assert len(trees) == 2
    assert [event for event in found if event[0] != "error"] == events(None)


def test_rounding_may_exceed_a_certain_piece() -> None:
    for value in (0.0, 5e-4):
        events, _ = run(stream(lm_metadata()), AB, lambda text, value=value: value if text == "| ABB" else -1.0)
        assert [event[1] for event in events] == ["ABB"]


@pytest.mark.parametrize(
    ("entry", "value"),
    [("pieces", "a\nb\nc"), ("pieces", "a\nb\nc\nd\nd"), ("share", "1.5"), ("weight", "x")],
)
def test_damaged_metadata_is_refused_by_its_name(entry: str, value: str) -> None:
    properties = {"model_type": _core.NEURAL_LM_TYPE, "format_version": "1", "pieces": "\n".join(PIECES)}
    with pytest.raises(ValueError, match=entry):
        _core.NeuralLmMetadata(properties | {"share": "0.5", "weight": "1"} | {entry: value})
