"""The network: a causal Transformer over word pieces, built from the recognizer's layers.

It scores trees of pieces in one run: each node attends to its ancestors, and its position is its depth. A sentence is a
tree without branches; the network is trained on sentences.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from asr.model.layers import FeedForward, Residual, SelfAttention, causal_bias
from asr.model.positions import Rotation, rotation
from asr.neural_lm.config import NeuralLmConfig

HIDDEN = -60.0
"""Added to the scores of masked nodes. With minus infinity, ONNX Runtime's softmax would compute with denormal numbers,
which takes five times as long."""


class NeuralLmLayer(nn.Module):
    def __init__(self, config: NeuralLmConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.dim, config.num_heads)
        self.feed_forward = FeedForward(config.dim, config.ff_dim, config.activation, 0.0)
        self.residuals = nn.ModuleList(Residual(config.dim, "pre", 0.0) for _ in range(2))

    def forward(self, x: Tensor, bias: Tensor | None, rotation: Rotation) -> Tensor:
        """x (N, T, dim) -> (N, T, dim)"""
        around_attention, around_feed_forward = cast("list[Residual]", self.residuals)
        x = around_attention(x, lambda y: self.self_attention(y, bias, rotation, None)[0])
        return around_feed_forward(x, self.feed_forward)


class NeuralLm(nn.Module):
    """Rotary positions, pre-norm, one shared table for input and output embeddings."""

    def __init__(self, config: NeuralLmConfig) -> None:
        super().__init__()
        if config.num_pieces < 1:
            raise ValueError(f"model.num_pieces {config.num_pieces} must be at least 1: take it from the tokenizer")
        self.config = config
        self.embedding = nn.Embedding(config.num_pieces, config.dim)
        nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)
        self.layers = nn.ModuleList(NeuralLmLayer(config) for _ in range(config.num_layers))
        self.final_norm = nn.LayerNorm(config.dim)
        for name, parameter in self.layers.named_parameters():
            if name.endswith(("attention.out.weight", "feed_forward.down.weight")):
                # Scaled down because the residual connections sum over all layers.
                nn.init.normal_(parameter, std=(2 * config.num_layers * parameter.shape[1]) ** -0.5)

    def forward(self, pieces: Tensor, depth: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """
        Args:
            pieces: (N, T) int64
            depth: (T,) int64, the position of each.
            mask: (N or 1, T, T) bool, True where the piece of the row attends to the piece of the column.
                Without depth and mask, the rows are sentences, in which a piece attends to those before it.
        Returns:
            (N, T, num_pieces) logits of the piece after each.
        """
        return self.hidden(pieces, depth, mask) @ self.embedding.weight.T

    def hidden(self, pieces: Tensor, depth: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Like `forward`, before the output layer: (N, T, dim)."""
        x = self.embedding(pieces) * math.sqrt(self.config.dim)
        bias = causal_bias(x) if mask is None else torch.where(mask, 0.0, HIDDEN)[:, None]
        position = torch.arange(x.shape[1], device=x.device) if depth is None else depth
        turn = rotation(position[None], self.config.num_heads, self.config.dim // self.config.num_heads)
        for layer in self.layers:
            x = layer(x, bias, turn)
        return cast(Tensor, self.final_norm(x))
