"""torch.compile of the network has no graph break and compiles three graphs: for full context, for chunks of any size
with any length, and for whole chunks.

CTC stays outside, because the output size of PyTorch's operator depends on the values of its inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.config import ModelConfig
from asr.model.model import AsrModel

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
