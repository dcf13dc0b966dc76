"""The blocks of encoder and decoder, compared with their definitions and with PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from asr.config import ModelConfig
from asr.model.decoder import Decoder
from asr.model.layers import (
    CrossAttention,
    FeedForward,
    LockedDropout,
    Residual,
    SelfAttention,
    attend,
    causal_bias,
)
from asr.neural_lm.config import NeuralLmConfig
from asr.neural_lm.model import NeuralLm


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def with_biases(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return module


def attention_of_pytorch(in_weight: Tensor, in_bias: Tensor, out: nn.Linear, num_heads: int) -> nn.MultiheadAttention:
    module = nn.MultiheadAttention(out.in_features, num_heads, batch_first=True)
    module.load_state_dict(
        {"in_proj_weight": in_weight, "in_proj_bias": in_bias, "out_proj.weight": out.weight, "out_proj.bias": out.bias}
    )
    return module.eval()


@torch.no_grad()
def test_self_attention_is_that_of_pytorch() -> None:
    attention = with_biases(SelfAttention(12, 3))
    reference = attention_of_pytorch(attention.qkv.weight, attention.qkv.bias, attention.out, 3)
    x, hidden = random(2, 5, 12), torch.ones(5, 5, dtype=torch.bool).triu(1)
    bias = torch.zeros(1, 1, 5, 5).masked_fill(hidden, float("-inf"))
    torch.testing.assert_close(attention(x, bias, None, None)[0], reference(x, x, x, attn_mask=hidden)[0])


@torch.no_grad()
def test_cross_attention_is_that_of_pytorch() -> None:
    attention = with_biases(CrossAttention(12, 3))
    weight, bias = (
        torch.cat((getattr(attention.query, n), getattr(attention.key_value, n))) for n in ("weight", "bias")
    )
    reference = attention_of_pytorch(weight, bias, attention.out, 3)
    x, memory = random(2, 5, 12), random(2, 7, 12, seed=1)
    hidden = torch.arange(7)[None] >= torch.tensor([7, 4])[:, None]
    mask = torch.zeros(2, 7).masked_fill(hidden, float("-inf"))[:, None, None]
    found = attention(x, 5, *attention.project(memory), mask)
    torch.testing.assert_close(found, reference(x, memory, memory, key_padding_mask=hidden)[0])


@torch.no_grad()
@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_feed_forward(activation: str) -> None:
    block, x = with_biases(FeedForward(6, 48, activation, dropout=0.0)), random(2, 3, 6)
    hidden = x @ block.up.weight.T + block.up.bias
    if activation == "swiglu":
        assert hidden.shape[-1] == 2 * 32, "two thirds of the width"
        hidden = hidden[..., :32] * torch.sigmoid(hidden[..., :32]) * hidden[..., 32:]
    else:
        hidden = {"relu": F.relu, "gelu": F.gelu}[activation](hidden)
    torch.testing.assert_close(block(x), hidden @ block.down.weight.T + block.down.bias)


@torch.no_grad()
def test_residuals_before_and_after_the_norm() -> None:
    x, weight, bias = random(2, 3, 8), random(8, seed=1), random(8, seed=2)

    def norm(x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * weight + bias

    for kind, expected in (("pre", x + norm(x).sin()), ("post", norm(x + x.sin()))):
        residual = Residual(8, kind, dropout=0.5).eval()
        residual.norm.load_state_dict({"weight": weight, "bias": bias})
        torch.testing.assert_close(residual(x, torch.sin), expected)


def test_dropout_takes_whole_channels_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout, x = LockedDropout(0.25), torch.ones(64, 5, 100)
    out = dropout.train()(x)
    assert torch.equal(out, out[:, :1].expand_as(out)), "the same channels at all times"
    assert {round(value, 4) for value in out.unique().tolist()} == {0.0, 1.3333}
    assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert len(out[:, 0].unique(dim=0)) == 64, "others in each sequence"
    assert torch.equal(dropout.eval()(x), x)


class Calls(TorchFunctionMode):
    """The functions of PyTorch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.functions.add(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("device", "num_biases", "is_fused"),
    [("cuda", 3, True), ("cuda", 1, False), ("cuda", None, True), ("cpu", 3, False)],
)
def test_a_gpu_fuses_attention_with_row_masks(device: str, num_biases: int | None, is_fused: bool) -> None:
    with FakeTensorMode():  # needs no GPU
        query, key = (torch.empty(3, 4, 10, 8, device=device) for _ in range(2))
        bias = None if num_biases is None else torch.empty(num_biases, 1, 10, 10, device=device)
        with Calls() as calls:
            assert attend(query, key, key, bias).shape == query.shape
    assert (F.scaled_dot_product_attention in calls.functions) == is_fused


def test_fused_attention_is_the_unfused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(3, 4, 10, 8) for _ in range(3))
    rows = torch.where(torch.rand(3, 1, 10, 10) < 0.5, 0.0, float("-inf"))
    rows.diagonal(dim1=2, dim2=3).zero_()
    unfused = [attend(query, key, value, bias) for bias in (rows, causal_bias(torch.empty(3, 10, 32)))]
    monkeypatch.setattr("asr.model.layers.is_fused", lambda *_: True)
    assert causal_bias(torch.empty(3, 10, 32)) is None
    fused = [attend(query, key, value, bias) for bias in (rows, None)]
    torch.testing.assert_close(fused, unfused)


@torch.no_grad()
@pytest.mark.parametrize("fused", [False, True])
def test_what_comes_later_moves_nothing_before_it(monkeypatch: pytest.MonkeyPatch, fused: bool) -> None:
    monkeypatch.setattr("asr.model.layers.is_fused", lambda *_: fused)
    torch.manual_seed(2)
    shape = {"dim": 16, "num_heads": 2, "decoder_layers": 2, "decoder_ff_dim": 32, "vocab_size": 30, "dropout": 0.0}
    decoder = Decoder(ModelConfig(**shape))  # type: ignore[arg-type]
    memory, lengths = torch.randn(3, 7, 16), torch.tensor([7, 5, 2])
    language = NeuralLm(NeuralLmConfig(num_pieces=30, dim=16, num_heads=2, num_layers=2, ff_dim=32))
    tokens = torch.randint(30, (3, 12))
    networks: dict[str, Callable[[Tensor], Tensor]] = {
        "decoder": lambda tokens: decoder(tokens, memory, lengths),
        "language model": language,
    }
    for name, network in networks.items():
        before = network(tokens)
        for changed in (1, 5, 11):
            others = tokens.clone()
            others[:, changed:] = (others[:, changed:] + 7) % 30
            after = network(others)
            torch.testing.assert_close(after[:, :changed], before[:, :changed], rtol=0, atol=1e-6, msg=name)
            assert not torch.allclose(after[:, changed], before[:, changed]), name
