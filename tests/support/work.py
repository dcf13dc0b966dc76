"""Work of networks, for tests that answer in their place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asr._core import Stream, Work


class EncoderStep(NamedTuple):
    slot: int
    """0 for the stream, 1 to 3 for the passes over an utterance"""
    begins: bool
    ends: bool
    features: np.ndarray
    """(num_frames, 80)"""
    num_valid: int

    @property
    def num_frames(self) -> int:
        return len(self.features)


def is_encoder(work: Work | None) -> bool:
    return work is not None and work.network == "encoder"


def encoder_step(work: Work | None) -> EncoderStep:
    assert work is not None and work.network == "encoder" and work.state is not None
    features, num_valid = work.inputs.values()
    return EncoderStep(work.state.slot, work.state.begins, not work.state.stays, features[0], int(num_valid[0]))


def answer_step(stream: Stream, *heads: np.ndarray) -> None:
    """heads: (c, n) float32 each."""
    stream.answer([np.ascontiguousarray(head)[None] for head in heads])


class PieceTree(NamedTuple):
    """Input of the neural language model, (num_nodes,) int64 each, see csrc/search/neural_lm.h."""

    pieces: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    ends: np.ndarray


def piece_tree(work: Work) -> PieceTree:
    assert work.network == "neural_lm"
    return PieceTree(**work.inputs)


def is_scoring(work: Work) -> bool:
    return work.network == "decoder" and work.state is None


def scored_tokens(work: Work) -> list[list[int]]:
    """The sentences that the decoder scores."""
    tokens, lengths = work.inputs["tokens"], work.inputs["token_lengths"]
    return [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]


def answer_scores(stream: Stream, scores: list[float]) -> None:
    stream.answer([np.array(scores, np.float32)])
