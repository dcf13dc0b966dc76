"""The masked full pass and the cached step are one function; no frame attends beyond its chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from asr.config import ModelConfig
from asr.model.model import AsrModel

POSITIONS = ("rope", "relative", "sinusoidal", "learned", "none")
SMALL = ModelConfig(
    dim=64,
    num_heads=4,
    encoder_layers=3,
    encoder_ff_dim=128,
    decoder_layers=1,
    decoder_ff_dim=128,
    subsampling_channels=8,
    vocab_size=20,
)
NUM_FRAMES = 701
"""Number of feature frames: not a multiple of any chunk, so that every case has a ragged tail."""
TOLERANCE = 1e-4


def make_model(config: ModelConfig = SMALL) -> AsrModel:
    torch.manual_seed(0)
    model = AsrModel(config).eval()
    for parameter in model.parameters():  # biases and relative positions are initially zero, which hides errors
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.encoder.set_cmvn(torch.linspace(-12, -8, 80), torch.linspace(2, 4, 80))
    return model


def speech(num_utterances: int, num_frames: int = NUM_FRAMES, seed: int = 1) -> torch.Tensor:
    return torch.randn(num_utterances, num_frames, 80, generator=torch.Generator().manual_seed(seed)) * 3 - 10


@torch.no_grad()
def stream(
    model: AsrModel, features: torch.Tensor, lengths: list[int], chunk: int, cache_size: int
) -> list[torch.Tensor]:
    """Steps through a batch as a live recognizer does; returns each utterance's log-probs."""
    cache = model.encoder.init_cache(len(lengths), cache_size)
    outputs: list[list[torch.Tensor]] = [[] for _ in lengths]
    num_frames = torch.tensor(lengths)
    window = 4 * chunk + 3
    for start in range(0, max(lengths) - 3, 4 * chunk):
        num_valid = (num_frames - start).clamp(0, window)
        piece = features[:, start : start + window]
        piece = F.pad(piece, (0, 0, 0, window - piece.shape[1]), value=float("nan"))
        log_probs, _, cache, _ = model.step(piece, num_valid, cache)
        for row, valid in enumerate(num_valid.tolist()):
            outputs[row].append(log_probs[row, : valid // 4])
    return [torch.cat(pieces) for pieces in outputs]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("left_context", [0, 16, 64, -1])
@pytest.mark.parametrize("chunk", [1, 4, 8, 16, 32])
def test_masked_full_pass_equals_cached_step(position: str, chunk: int, left_context: int) -> None:
    model = make_model(replace(SMALL, position=position))
    features = speech(1)
    with torch.no_grad():
        full, _, lengths = model(features, torch.tensor([NUM_FRAMES]), chunk, left_context)
    cache_size = left_context if left_context >= 0 else NUM_FRAMES // 4
    (stepped,) = stream(model, features, [NUM_FRAMES], chunk, cache_size)
    assert stepped.shape == full[0].shape == (lengths[0], SMALL.vocab_size)
    assert (stepped - full[0]).abs().max() <= TOLERANCE
    assert torch.equal(stepped.argmax(-1), full[0].argmax(-1))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    "changes",
    [{"activation": a} for a in ("relu", "gelu", "swiglu")] + [{"condition_layers": (1, 2)}, {"running_mean": True}],
)
def test_parity_holds_for_every_block(norm: str, changes: dict[str, Any]) -> None:
    model = make_model(replace(SMALL, norm=norm, **changes))
    features = speech(1)
    with torch.no_grad():
        full, _, _ = model(features, torch.tensor([NUM_FRAMES]), 8, 16)
    (stepped,) = stream(model, features, [NUM_FRAMES], 8, 16)
    assert (stepped - full[0]).abs().max() <= TOLERANCE


@pytest.mark.parametrize("left_context", [0, 64, -1])
@pytest.mark.parametrize("chunk", [1, 4, 16, 200])
def test_parity_holds_with_a_running_mean(chunk: int, left_context: int) -> None:
    model = make_model(replace(SMALL, running_mean=True))
    lengths = [NUM_FRAMES, 402, 67, 7]
    features = speech(4) + torch.tensor([0.0, 4.0, -3.0, 1.0])[:, None, None]
    with torch.no_grad():
        full, _, _ = model(features, torch.tensor(lengths), chunk, left_context)
        other = make_model(SMALL)(features, torch.tensor(lengths), chunk, left_context)[0]
    stepped = stream(model, features, lengths, chunk, left_context if left_context >= 0 else NUM_FRAMES // 4)
    for row, expected in zip(stepped, full, strict=True):
        assert (row - expected[: len(row)]).abs().max() <= TOLERANCE
    assert (other - full).abs().max() > 1  # the mean counts


@pytest.mark.parametrize(("num_layers", "inner_layer"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_middle_layer_is_read_like_the_last(num_layers: int, inner_layer: int) -> None:
    model = make_model(replace(SMALL, encoder_layers=num_layers))
    short = AsrModel(replace(SMALL, encoder_layers=inner_layer)).eval()
    short.load_state_dict(model.state_dict(), strict=False)
    features, num_frames = speech(1), torch.tensor([NUM_FRAMES])
    with torch.no_grad():
        _, _, inner = model.encoder(model.ctc, features, num_frames)
        expected = short(features, num_frames)[0]
    assert len(inner) == 1
    torch.testing.assert_close(inner[0].log_softmax(-1), expected)


def test_inner_layers_get_what_ctc_would_write() -> None:
    model = make_model(replace(SMALL, condition_layers=(1, 2)))
    features, num_frames = speech(1), torch.tensor([NUM_FRAMES])
    with torch.no_grad():
        given: list[torch.Tensor] = []
        model.encoder.condition.register_forward_pre_hook(lambda _, arguments: given.append(arguments[0]))
        _, _, inner = model.encoder(model.ctc, features, num_frames)
        assert [tuple(logits.shape) for logits in inner] == [(1, NUM_FRAMES // 4, SMALL.vocab_size)] * 2
        torch.testing.assert_close(given, [logits.softmax(-1) for logits in inner])
        before = model(features, num_frames)[0]
        model.encoder.condition.weight *= -3.0
        assert (model(features, num_frames)[0] - before).abs().max() > 0.1
        fresh = AsrModel(replace(SMALL, condition_layers=(1,)))
        plain = AsrModel(SMALL)
        plain.load_state_dict(fresh.state_dict(), strict=False)
        torch.testing.assert_close(fresh.eval()(features, num_frames)[0], plain.eval()(features, num_frames)[0])


@pytest.mark.parametrize("num_frames", range(4, 20))
def test_no_ragged_tail_is_dropped(num_frames: int) -> None:
    model = make_model()
    features = speech(1, num_frames)
    with torch.no_grad():
        full, _, lengths = model(features, torch.tensor([num_frames]), 2, 4)
    (stepped,) = stream(model, features, [num_frames], 2, 4)
    assert lengths[0] == num_frames // 4 == stepped.shape[0]
    assert (stepped - full[0, : lengths[0]]).abs().max() <= TOLERANCE


def test_features_are_normalized_by_mean_and_deviation() -> None:
    """Includes a bin that never changes, for example without sound."""
    model = make_model()
    mean, std = torch.linspace(-12, -8, 80), torch.linspace(0, 4, 80)
    features, num_frames = speech(1, 40), torch.tensor([40])
    features[..., 0] = mean[0]
    normalized = (features - mean) / std.clamp(min=1e-3)
    with torch.no_grad():
        model.encoder.set_cmvn(mean, std)
        found = model(features, num_frames)[0]
        model.encoder.set_cmvn(torch.zeros(80), torch.ones(80))
        assert found.isfinite().all()
        torch.testing.assert_close(found, model(normalized, num_frames)[0])


def test_cache_counts_the_valid_frames_only() -> None:
    model = make_model()
    with torch.no_grad():
        cache = model.step(speech(2, 35), torch.tensor([35, 22]), model.encoder.init_cache(2, 16)).cache
    assert cache.num_frames.tolist() == [8, 5]


def test_every_feature_frame_reaches_the_output() -> None:
    model = make_model()
    for num_frames in (16, 17, 18, 19):
        features = speech(1, num_frames)
        changed = features.clone()
        changed[0, num_frames - 1] += 1
        with torch.no_grad():
            before = model(features, torch.tensor([num_frames]))[0]
            after = model(changed, torch.tensor([num_frames]))[0]
        assert not torch.equal(before, after), f"the last of {num_frames} feature frames is ignored"


def test_stream_alone_equals_itself_in_a_batch() -> None:
    model = make_model()
    features = speech(5)
    lengths = [NUM_FRAMES, 88, 333, 64, 590]
    together = stream(model, features, lengths, 8, 16)
    for row, length in enumerate(lengths):
        (alone,) = stream(model, features[row : row + 1, :length], [length], 8, 16)
        assert torch.equal(alone.argmax(-1), together[row].argmax(-1))
        assert (alone - together[row]).abs().max() <= TOLERANCE


def test_streams_of_different_age_share_a_batch() -> None:
    """The cache is gathered from streams that began at different times; each must get the same result as alone."""
    model = make_model()
    old, young = speech(1, seed=1), speech(1, seed=2)
    with torch.no_grad():
        old_cache = model.encoder.init_cache(1, 16)
        for start in range(0, 160, 32):
            old_cache = model.step(old[:, start : start + 35], torch.tensor([35]), old_cache).cache
        young_cache = model.encoder.init_cache(1, 16)
        gathered = type(old_cache)(*(torch.cat(pair) for pair in zip(old_cache, young_cache, strict=True)))
        pieces = torch.cat((old[:, 160:195], young[:, :35]))
        together, _, scattered, _ = model.step(pieces, torch.tensor([35, 35]), gathered)
        for row, (piece, cache) in enumerate(((pieces[:1], old_cache), (pieces[1:], young_cache))):
            alone, _, after, _ = model.step(piece, torch.tensor([35]), cache)
            assert (alone[0] - together[row]).abs().max() <= TOLERANCE
            assert after.num_frames[0] == scattered.num_frames[row]


@pytest.mark.parametrize("chunk", [1, 4, 16])
def test_causality_is_exact(chunk: int) -> None:
    """Changes of the audio after the end of a chunk must not change the output of the chunk."""
    model = make_model()
    features = speech(1)
    changed = features.clone()
    num_chunks = 5
    end = 4 * chunk * num_chunks + 3
    changed[:, end:] = speech(1, NUM_FRAMES, seed=7)[:, end:] * 100
    with torch.no_grad():
        before = model(features, torch.tensor([NUM_FRAMES]), chunk, 16)[0]
        after = model(changed, torch.tensor([NUM_FRAMES]), chunk, 16)[0]
    seen = chunk * num_chunks
    assert torch.equal(before[:, :seen], after[:, :seen])
    assert not torch.equal(before[:, seen:], after[:, seen:])


def test_padding_is_invisible() -> None:
    model = make_model()
    features = speech(1, 203)
    padded = F.pad(features, (0, 0, 0, 300), value=float("nan"))
    with torch.no_grad():
        for chunk in (0, 8):
            alone, _, _ = model(features, torch.tensor([203]), chunk, 16)
            beside, _, _ = model(padded, torch.tensor([203]), chunk, 16)
            assert (alone - beside[:, :50]).abs().max() <= TOLERANCE


def test_decoder_score_ignores_padding_and_sums_the_sentence() -> None:
    model = make_model()
    memory = torch.randn(2, 30, SMALL.dim)
    lengths = torch.tensor([30, 12])
    tokens = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]])
    with torch.no_grad():
        scores = model.decoder.score(tokens, torch.tensor([4, 2]), memory, lengths)
        alone = model.decoder.score(tokens[1:, :2], torch.tensor([2]), memory[1:, :12], lengths[1:])
        log_probs = model.decoder(torch.tensor([[2, 9, 3]]), memory[1:, :12], lengths[1:]).log_softmax(-1)
    by_hand = log_probs[0, 0, 9] + log_probs[0, 1, 3] + log_probs[0, 2, 2]
    assert torch.allclose(scores[1], alone[0], atol=1e-4)
    assert torch.allclose(by_hand, alone[0], atol=1e-4)
