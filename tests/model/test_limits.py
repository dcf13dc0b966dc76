"""Sizes that the network cannot have are refused with their name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from asr.config import ModelConfig
from asr.model.masks import chunk_mask
from asr.model.model import AsrModel
from asr.model.positions import MAX_LEARNED_POSITIONS, Positions

SMALL = ModelConfig(dim=16, num_heads=2, encoder_layers=1, encoder_ff_dim=16, decoder_ff_dim=16, vocab_size=5)


@pytest.mark.parametrize(("chunk_size", "left_context"), [(-1, 0), (4, -2)])
def test_negative_chunks_and_contexts_are_refused(chunk_size: int, left_context: int) -> None:
    with pytest.raises(ValueError, match=f"chunk_size {chunk_size} .* left_context {left_context} at least -1"):
        chunk_mask(10, chunk_size, left_context)


def test_a_stream_needs_a_number_of_slots() -> None:
    with pytest.raises(ValueError, match="left_context -1 must be at least 0 in streaming"):
        AsrModel(SMALL).encoder.init_cache(1, -1)


def test_vocabulary_without_units_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.vocab_size 3 must be at least 4: take it from the tokenizer"):
        AsrModel(replace(SMALL, vocab_size=3))


def test_learned_positions_end_with_their_table() -> None:
    positions = Positions("learned", 4, 1)
    x = torch.zeros(1, 2, 4)
    last = positions.add_absolute(x, torch.tensor([MAX_LEARNED_POSITIONS - 2]))
    assert torch.equal(last[0], positions.table[-2:])
    with pytest.raises(ValueError, match=r"frame 4096 is beyond the 4096 learned positions \(164 s\)"):
        positions.add_absolute(x, torch.tensor([MAX_LEARNED_POSITIONS - 1]))
