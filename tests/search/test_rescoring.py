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


def test_a_tree_has_eight_nodes_or_more() -> None:
    """The graph divides the nodes into eighths, and kernels of onnxruntime-web fail on empty ones."""
    _, (tree,) = finals(stream(lm_metadata()), AB, lambda text: -1.0)
    assert texts(tree)[:5] == ["|", "| AB", "| AB|", "| ABB", "| ABB|"]
    assert len(tree.pieces) == 8


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


def test_impossible_pieces_leave_a_finite_confidence() -> None:
    ((_, _, _, _, words, *_),), _ = run(stream(lm_metadata()), AB, lambda text: -math.inf)
    assert words and all(0 < word[3] < 1 for word in words)


def test_rounding_may_exceed_a_certain_piece() -> None:
    for value in (0.0, 5e-4):
        events, _ = run(stream(lm_metadata()), AB, lambda text, value=value: value if text == "| ABB" else -1.0)
        assert [event[1] for event in events] == ["ABB"]
