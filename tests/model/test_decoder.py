"""The decoder's steps and its full, teacher-forced pass are one function."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from asr.config import ModelConfig
from asr.model.decoder import Decoder
from asr.model.positions import sinusoids
from asr.tokenizer import SOS_EOS_ID

CONFIG = ModelConfig(dim=32, num_heads=4, decoder_layers=2, decoder_ff_dim=48, vocab_size=17)
TOLERANCE = 1e-5


@pytest.fixture(params=[{}, {"norm": "post", "activation": "swiglu"}], ids=str)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    torch.manual_seed(3)
    decoder = Decoder(replace(CONFIG, **request.param)).eval()
    for parameter in decoder.parameters():  # biases are initially zero, which hides errors
        parameter.data += 0.1 * torch.randn_like(parameter)
    return decoder


def sentences(*lengths: int) -> torch.Tensor:
    """Random sentences, SOS first, padded with token 0: (N, U)."""
    tokens = torch.randint(3, CONFIG.vocab_size, (len(lengths), max(lengths)))
    tokens[torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]] = 0
    return torch.cat((torch.full((len(lengths), 1), SOS_EOS_ID), tokens), dim=1)


@torch.no_grad()
@pytest.mark.parametrize("piece", [1, 3, 13])
def test_full_pass_equals_steps(decoder: Decoder, piece: int) -> None:
    """Utterances and sentences of different lengths, in one batch and one by one."""
    frames = [11, 5, 8]
    tokens, memory = sentences(12, 4, 9), torch.randn(3, 11, CONFIG.dim)
    full = decoder(tokens, memory, torch.tensor(frames))
    for row, (num_frames, length) in enumerate(zip(frames, (12, 4, 9), strict=True)):
        cache = decoder.init_cache(memory[row : row + 1, :num_frames])
        outputs = []
        for part in tokens[row : row + 1, : length + 1].split(piece, dim=1):
            logits, cache = decoder.step(part, cache)
            outputs.append(logits[0])
        assert cache.keys.shape == cache.values.shape == (1, 2, length + 1, CONFIG.dim)
        assert (torch.cat(outputs) - full[row, : length + 1]).abs().max() <= TOLERANCE


@torch.no_grad()
def test_an_utterance_without_frames_gives_numbers(decoder: Decoder) -> None:
    """The numbers must also not depend on the other sequences in the batch."""
    tokens, memory = sentences(4, 4), torch.randn(2, 7, CONFIG.dim)
    logits = decoder(tokens, memory, torch.tensor([0, 7]))
    assert logits.isfinite().all()
    alone = decoder(tokens[1:], memory[1:], torch.tensor([7]))
    assert (logits[1:] - alone).abs().max() <= TOLERANCE


@torch.no_grad()
def test_hypotheses_of_one_utterance_are_reordered_by_gather(decoder: Decoder) -> None:
    """As in a beam search: some are dropped, some are duplicated, and lengths differ once one has ended."""
    memory = torch.randn(1, 7, CONFIG.dim)
    tokens, cache = sentences(0), decoder.init_cache(memory)
    for rows in ([0, 0, 0], [2, 0, 1, 1], [3, 0], [1, 1, 0, 0, 0], [4]):
        logits, cache = decoder.step(tokens[:, -1:], cache)
        full = decoder(tokens, memory.expand(len(tokens), -1, -1), torch.full((len(tokens),), 7))
        assert (logits[:, 0] - full[:, -1]).abs().max() <= TOLERANCE
        assert cache.memory_keys.shape == (1, 2, 7, CONFIG.dim), "keys of the utterance were copied"
        cache = cache.select(torch.tensor(rows))
        tokens = torch.cat((tokens[rows], torch.randint(2, CONFIG.vocab_size, (len(rows), 1))), dim=1)


@torch.no_grad()
def test_memory_may_come_in_parts(decoder: Decoder) -> None:
    tokens, memory = sentences(6), torch.randn(1, 9, CONFIG.dim)
    cache = decoder.init_cache(memory[:, :4])
    logits, _ = decoder.step(tokens, decoder.extend(cache, memory[:, 4:]))
    assert (logits - decoder(tokens, memory, torch.tensor([9]))).abs().max() <= TOLERANCE


@torch.no_grad()
def test_steps_see_no_later_token(decoder: Decoder) -> None:
    cache = decoder.init_cache(torch.randn(1, 6, CONFIG.dim))
    tokens = sentences(5)
    logits, _ = decoder.step(tokens, cache)
    changed = tokens.clone()
    changed[:, 3:] = 9
    other, _ = decoder.step(changed, cache)
    assert torch.equal(logits[:, :3], other[:, :3]) and not torch.equal(logits[:, 3:], other[:, 3:])


@torch.no_grad()
def test_the_first_layer_gets_scaled_embeddings_and_positions(decoder: Decoder) -> None:
    inputs: list[torch.Tensor] = []
    decoder.layers[0].register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    tokens = sentences(6)
    decoder(tokens, torch.randn(1, 4, CONFIG.dim), torch.tensor([4]))
    expected = math.sqrt(CONFIG.dim) * decoder.embedding.weight[tokens] + sinusoids(torch.arange(7), CONFIG.dim)
    torch.testing.assert_close(inputs, [expected])
