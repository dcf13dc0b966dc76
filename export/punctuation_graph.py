"""The punctuation network in few operations, for its ONNX graph.

A partial has some twenty words, so calling a node takes about as long as computing it. Here all texts are rows of one
matrix. The rotation of queries and keys is two products; to save the exchange of halves, the weights also contain the
exchanged rows. Scales and offsets are folded into the weights. asr.punctuation.model has the network as it is trained;
an export compares the two.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr._core import NUM_CASES, NUM_MARKS
from asr.model.layers import EncoderLayer
from asr.model.positions import rope_frequencies
from asr.punctuation.model import Punctuator

HIDDEN = -1e9
"""Added to the scores of masked units. Finite, so that rows of padding, which attend to nothing, do not become NaN."""


class PunctuatorGraph(nn.Module):
    """`Punctuator.probabilities` with the weights of `model`."""

    pauses: Tensor
    frequencies: Tensor

    def __init__(self, model: Punctuator) -> None:
        super().__init__()
        self.config = config = model.config
        self.features, self.project, self.norm, self.head = model.features, model.project.weight, model.norm, model.head
        self.layers = nn.ModuleList(_Layer(cast("EncoderLayer", layer), config.num_heads) for layer in model.layers)
        self.register_buffer("pauses", model.pauses.weight.detach() + model.project.bias.detach())
        frequencies = rope_frequencies(config.dim // config.num_heads, torch.device("cpu"))
        self.register_buffer("frequencies", frequencies.repeat(2))
        for look_ahead in set(config.look_ahead):
            self.register_buffer(f"bias_{look_ahead}", self._bias_of_distances(look_ahead))

    def _bias_of_distances(self, look_ahead: int) -> Tensor:
        """(left_context + max(look_ahead) + 3,): the bias for each clipped distance between two units."""
        distance = torch.arange(-self.config.left_context - 1, max(self.config.look_ahead) + 2)
        is_near = (distance >= -self.config.left_context) & (distance <= look_ahead)
        return torch.where(is_near, 0.0, HIDDEN)

    def forward(self, features: Tensor, pauses: Tensor, num_units: Tensor) -> tuple[Tensor, Tensor]:
        """Has the inputs and outputs of `Punctuator.probabilities`."""
        num_texts, length = pauses.shape
        x = self.features(features).sum(2).flatten(0, 1)
        x = x @ self.project.T + F.embedding(pauses.flatten(), self.pauses)

        unit = torch.arange(length, device=pauses.device)
        angle = unit[:, None, None] * self.frequencies
        rotation = angle.cos(), angle.sin()
        before = self.config.left_context + 1
        distance = (unit + before)[None, :] - unit[:, None]
        distance = distance.clamp(0, before + max(self.config.look_ahead) + 1)
        padding = torch.where(unit < num_units[:, None], 0.0, HIDDEN)[:, None, None, :]
        biases = {each: getattr(self, f"bias_{each}")[distance] + padding for each in set(self.config.look_ahead)}

        for layer, look_ahead in zip(self.layers, self.config.look_ahead, strict=True):
            x = layer(x, biases[look_ahead], rotation, num_texts)
        logits = self.head(self.norm(x)).unflatten(0, (num_texts, length))
        marks, cases = logits.split((NUM_MARKS, NUM_CASES), dim=-1)
        return marks.softmax(-1), cases.softmax(-1)


class _Layer(nn.Module):
    def __init__(self, layer: EncoderLayer, num_heads: int) -> None:
        super().__init__()
        attention = layer.attention
        self.num_heads = num_heads
        self.norms = nn.ModuleList((layer.attention_residual.norm, layer.feed_forward_residual.norm))
        self.out, self.up, self.down = attention.out, layer.feed_forward.up, layer.feed_forward.down
        self.weight, self.bias = (
            nn.Parameter(self._with_rotated(parameter)) for parameter in (attention.qkv.weight, attention.qkv.bias)
        )

    def _with_rotated(self, rows: Tensor) -> Tensor:
        """Rows of queries, keys and values, followed by the query and key rows that `rotate` multiplies by the sine."""
        by_head = rows.detach().unflatten(0, (3, self.num_heads, 2, -1)).clone()
        head_dim = 2 * by_head.shape[3]
        by_head[0] *= head_dim**-0.5
        first, second = by_head[:2, :, 0], by_head[:2, :, 1]
        return torch.cat((by_head.flatten(0, 3), torch.stack((-second, first), 2).flatten(0, 3)))

    def forward(self, x: Tensor, bias: Tensor, rotation: tuple[Tensor, Tensor], num_texts: int) -> Tensor:
        """x (N * T, dim), bias (N, 1, T, T), rotation (T, 1, head_dim) each -> (N * T, dim)"""
        cos, sin = rotation
        heads = self.num_heads
        y = self.norms[0](x) @ self.weight.T + self.bias
        by_head = y.view(num_texts, cos.shape[0], 5 * heads, cos.shape[2])
        query_key, value, rotated = by_head.split((2 * heads, heads, 2 * heads), dim=2)
        query, key = (query_key * cos + rotated * sin).split(heads, dim=2)
        scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) + bias
        attended = (scores.softmax(-1) @ value.transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        x = x + _linear(self.out, attended)
        return x + _linear(self.down, F.relu(_linear(self.up, self.norms[1](x))))


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """A linear layer as a product and a sum, because `quantize_statically` converts products."""
    return x @ layer.weight.T + layer.bias
