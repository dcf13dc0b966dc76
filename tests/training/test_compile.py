"""torch.compile of the network has no graph break and compiles three graphs: for full context, for chunks of any size
with any length, and for whole chunks. A training on a GPU compiles the layers alone.

CTC stays outside, because the output size of PyTorch's operator depends on the values of its inputs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from asr.config import LossConfig, ModelConfig
from asr.model.model import AsrModel, Losses
from asr.training.compiled import compile_layers

SHAPE = ModelConfig(
    **{"dim": 16, "num_heads": 2, "encoder_layers": 1, "encoder_ff_dim": 32, "decoder_layers": 1, "decoder_ff_dim": 32},
    **{"dropout": 0.0, "running_mean": True, "vocab_size": 12, "phones": tuple("ABCD")},
)


def batch(num_frames: int) -> tuple[Tensor, ...]:
    """Features, their lengths, and tokens."""
    generator = torch.Generator().manual_seed(num_frames)
    features = torch.randn(3, num_frames, 80, generator=generator)
    tokens = torch.randint(3, 9, (3, num_frames // 20), generator=generator)
    return features, torch.tensor([num_frames, num_frames - 30, num_frames - 70]), tokens


def loss_of(model: AsrModel, batch: tuple[Tensor, ...], chunk: tuple[int, int]) -> Tensor:
    features, num_frames, tokens = batch
    log_probs, encoder_out, lengths = model(features, num_frames, *chunk)
    logits = model.decoder(tokens, encoder_out, lengths)
    return (log_probs.exp() ** 2).mean() + model.phone_log_probs(encoder_out).mean() + (logits**2).mean()


def test_one_graph_serves_all_lengths_and_chunks() -> None:
    torch.manual_seed(0)
    model = AsrModel(SHAPE)
    torch._dynamo.reset()
    # Breaks and recompilations are Dynamo's; another backend would add a minute.
    compiled = torch.compile(loss_of, backend="eager", fullgraph=True, dynamic=True)
    first = [(200, (0, -1)), (200, (16, 64)), (320, (8, 64))]
    for num_frames, chunk in [*first, (320, (0, -1)), (260, (4, 32)), (320, (16, 64))]:
        gradients = []
        for function in (loss_of, compiled):
            model.zero_grad()
            with torch._dynamo.config.patch(error_on_recompile=(num_frames, chunk) not in first):
                loss = function(model, batch(num_frames), chunk)
            loss.backward()
            gradients.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
        for expected, found in zip(*gradients, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_layers_compiled_for_a_gpu_share_their_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two views with their masks, as on a GPU: the losses and gradients are the same, other lengths compile nothing."""
    monkeypatch.setattr("asr.model.layers.is_fused", lambda _: True)
    torch.manual_seed(0)
    model = AsrModel(replace(SHAPE, encoder_layers=4, running_mean=False))
    counter = CompileCounterWithBackend("aot_eager")
    config = LossConfig(cr_ctc_weight=0.1)
    batches = [(120, [(0, -1), (4, 8)]), (160, [(8, 16), (0, -1)]), (100, [(16, 64), (4, 8)])]

    def results(num_frames: int, chunks: list[tuple[int, int]]) -> tuple[Losses, list[Tensor]]:
        model.zero_grad()
        features, lengths, tokens = (torch.cat((x, x)) for x in batch(num_frames))
        losses = model.losses(features, lengths, tokens, torch.full((6,), tokens.shape[1]), config, chunks)
        losses.total.backward()
        return losses, [p.grad for p in model.parameters() if p.grad is not None]

    expected = [results(*each) for each in batches]
    torch._dynamo.reset()
    compile_layers(model, counter)
    for index, (each, (losses, gradients)) in enumerate(zip(batches, expected, strict=True)):
        with torch._dynamo.config.patch(error_on_recompile=index > 0):
            found, slopes = results(*each)
        torch.testing.assert_close(tuple(found), tuple(losses), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(slopes, gradients, rtol=1e-3, atol=1e-5)
    assert 0 < counter.frame_count < 28, "each layer would have graphs of its own"
    assert not any("_orig_mod" in name for name in model.state_dict())
