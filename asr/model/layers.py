"""The layers of encoder and decoder: attention, feed-forward, and residual connections.

Training, streaming and the exported graph share one self-attention: it takes the keys and values of earlier frames
(none in a full pass) and returns those of the new ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.model.positions import Rotation, mask_bias, rotate

KeysValues = tuple[Tensor, Tensor]
"""Keys and values of one layer."""


class LockedDropout(nn.Module):
    """Dropout whose mask is drawn once per sequence and channel (Gal and Ghahramani 2016).

    Element-wise dropout draws a random number per activation, which on a CPU costs more than all matrix products of
    this model. Attention weights have no dropout, because it would prevent fused kernels.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, dim) -> (N, T, dim)"""
        if not self.training or self.probability == 0:
            return x
        keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.probability
        return x * (keep / (1.0 - self.probability)).to(x.dtype)


class SelfAttention(nn.Module):
    """Multi-head attention of a chunk over the window [past | chunk] (Vaswani et al. 2017).

    Queries and keys of a chunk are rotated together: for one chunk, calling an operator costs about as much as
    computing it, here and in the exported graph.
    """

    num_blocks = 1
    """Blocks of queries that attend one after the other; more blocks need less memory for the scores."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(
        self, x: Tensor, bias: Tensor | None, rotation: Rotation | None, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """
        Args:
            x: (N, T, dim), or its rows (N * T, dim)
            bias: (N or 1, 1 or num_heads, T, C + T), added to the scores; -inf hides a slot. None for sequences
                (N, T, dim) without a past in which nothing attends to what comes later (see `causal_bias`).
            rotation: of the chunk (see asr.model.positions.rotation); None without rope.
            past: keys, rotated, and values of C earlier frames, (N, num_heads, C, head_dim) each; None if there are
                none.
        Returns:
            output, with the shape of x; rotated keys and values of the new frames, (N, num_heads, T, head_dim) each.
        """
        num_new, head_dim = x.shape[1] if bias is None else bias.shape[2], x.shape[-1] // self.num_heads
        heads = self.qkv(x).reshape(-1, num_new, 3 * self.num_heads, head_dim).transpose(1, 2)
        if rotation is None:
            query, key, value = heads.split(self.num_heads, dim=1)
            query = query * head_dim**-0.5
        else:
            query_key, value = heads.split((2 * self.num_heads, self.num_heads), dim=1)
            query, key = rotate(query_key, rotation).split(self.num_heads, dim=1)
        keys, values = key, value
        if past is not None:
            keys, values = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
        return self.out(self._attend(query, keys, values, bias).transpose(1, 2).reshape(x.shape)), (key, value)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        if self.num_blocks == 1 or bias is None:
            return attend(query, key, value, bias)
        blocks = block_slices(query.shape[2], self.num_blocks)
        return torch.cat([attend(query[:, :, rows], key, value, bias[:, :, rows]) for rows in blocks], dim=2)


class CrossAttention(nn.Module):
    """Attention of decoder positions over encoder frames, whose keys and values are computed once per utterance."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of encoder output (N, T, dim): (N, T, dim) each."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return keys, values

    def forward(self, x: Tensor, num_tokens: int, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        """x (N, U, dim), or its rows (N * U, dim); num_tokens U; keys and values (N or 1, T, dim);
        bias (N or 1, 1, 1, T) float32 -> the shape of x"""
        heads = (self.num_heads, x.shape[-1] // self.num_heads)
        query = self.query(x).reshape(-1, num_tokens, x.shape[-1]) * heads[1] ** -0.5
        q, k, v = (t.unflatten(-1, heads).transpose(1, 2) for t in (query, keys, values))
        return self.out(attend(q, k, v, bias).transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    """Two linear layers with relu, gelu or swiglu between them (Shazeer 2020).

    swiglu has a third matrix: two thirds of the width, rounded to a multiple of 8 for GPUs, give equal parameters.
    """

    def __init__(self, dim: int, hidden_dim: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.activation = activation
        if activation == "swiglu":
            hidden_dim = max(8, hidden_dim * 2 // 3 // 8 * 8)
        self.up = nn.Linear(dim, 2 * hidden_dim if activation == "swiglu" else hidden_dim)
        self.down = nn.Linear(hidden_dim, dim)
        self.dropout = LockedDropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        if self.activation == "swiglu":
            gate, x = x.chunk(2, dim=-1)
            x = F.silu(gate) * x
        else:
            x = F.relu(x) if self.activation == "relu" else F.gelu(x)
        return self.down(self.dropout(x))


class Residual(nn.Module):
    """x + f(norm(x)) (pre-norm, Xiong et al. 2020) or norm(x + f(x)) (post-norm), with dropout on f."""

    def __init__(self, dim: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(dim)
        self.dropout = LockedDropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        """Computes the input of f from x."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Adds y, the result of f, to x."""
        x = x + self.dropout(y)
        return x if self.pre else self.norm(x)

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return self.after(x, f(self.before(x)))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with its residual connection; also of the punctuation network."""

    def __init__(self, dim: int, num_heads: int, ff_dim: int, activation: str, norm: str, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, ff_dim, activation, dropout)
        self.attention_residual = Residual(dim, norm, dropout)
        self.feed_forward_residual = Residual(dim, norm, dropout)

    def forward(
        self, x: Tensor, bias: Tensor, rotation: Rotation | None, past: KeysValues | None
    ) -> tuple[Tensor, KeysValues]:
        """Arguments and results are those of SelfAttention."""
        y, new = self.attention(self.attention_residual.before(x), bias, rotation, past)
        x = self.attention_residual.after(x, y)
        return self.feed_forward_residual(x, self.feed_forward), new


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Dot-product attention of (N, num_heads, T or S, head_dim) with a scaled query; `bias` is added to the scores.
    None: nothing attends to what comes later.

    On a GPU, PyTorch's fused kernel is faster and does not store the scores. On a CPU, three separate operations are
    faster for short utterances.
    """
    if bias is None:
        return _fused(query, key, value, None)
    bias = bias.to(query.dtype)
    if is_fused(query.device.type) and len(bias) == len(query):
        return _fused(query, key, value, bias)
    return (query @ key.transpose(-1, -2) + bias).softmax(-1) @ value


@torch.compiler.disable
def _fused(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """The fused kernel, never in a compiled graph: a compiled training step with one causal mask for all rows attended
    to later pieces (PyTorch 2.11, H200; the cause is not established), and a kernel of its own gains nothing there."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=bias is None, scale=1.0)


def causal_bias(x: Tensor) -> Tensor | None:
    """The `bias` of sequences x (N, T, dim), in which nothing attends to what comes later: (1, 1, T, T), or None where
    the fused kernel computes it."""
    if is_fused(x.device.type):
        return None
    position = torch.arange(x.shape[1], device=x.device)
    return mask_bias(position[None, :] <= position[:, None])[None, None].to(dtype_of_products(x))


def dtype_of_products(x: Tensor) -> torch.dtype:
    """The type in which the products of x are computed: with autocast, that of autocast."""
    return torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype


def is_fused(device: str) -> bool:
    """Whether attention takes the fused kernel on this type of device."""
    return device == "cuda"


def block_slices(num_rows: int, num_blocks: int) -> list[slice]:
    """Consecutive parts of equal size, up to one row; some are empty if there are fewer rows than blocks."""
    return [slice(k * num_rows // num_blocks, (k + 1) * num_rows // num_blocks) for k in range(num_blocks)]
