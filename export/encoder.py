"""`AsrModel.step` in fewer and larger operators, for the graphs of `asr export`.

The numbers are those of AsrModel.step, to rounding; the parity gate compares them. What differs is how the work is cut:

- Frames of all streams are rows of one matrix, so that a product and its bias are one operator of ONNX Runtime.
- The cached keys of all layers are rotated at once, and split into heads at once. A layer rotates its queries and new
  keys together, with the scale of the scores in the table of the queries.
- The caches are moved on once, with the new frames of all layers.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from asr.features import SUBSAMPLING
from asr.model.encoder import EncoderCache, EncoderLayer
from asr.model.masks import step_mask
from asr.model.model import AsrModel
from asr.model.positions import Rotation


class Step(NamedTuple):
    log_probs: Tensor
    """(N, c, vocab_size) float32"""
    encoder_out: Tensor
    """(N, c, dim)"""
    cache: EncoderCache
    phone_log_probs: tuple[Tensor, ...]
    """(N, c, num_phone_tokens) float32, of a model with a phone head; empty otherwise"""


class Product(nn.Linear):
    """nn.Linear as a product and a sum: of rows, the exporter would make one operator, which no pass here knows."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.t() + self.bias


def with_products(model: AsrModel) -> AsrModel:
    """A copy whose linear layers are `Product`s, as `step` wants it for an export."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Product
    return model


def step(model: AsrModel, features: Tensor, num_valid: Tensor, cache: EncoderCache) -> Step:
    """One chunk: (N, 4c + 3, 80) float32, (N,) int64 valid frames, the cache before it. Relative positions only."""
    encoder, config = model.encoder, model.config
    num_heads, dim = config.num_heads, config.dim
    x = encoder._subsample(features, num_valid)
    num_streams, num_new, size = x.shape[0], x.shape[1], cache.keys.shape[2]
    num_valid = num_valid // SUBSAMPLING
    bias = encoder.positions.bias(step_mask(cache.num_frames, num_valid, size, num_new))

    # Heads are pairs of halves, which the rotation swaps. They become one axis after every transposition: ONNX Runtime
    # would merge that with the transposition of the keys in the product, which then moves number by number.
    pairs = (num_heads, 2, dim // num_heads // 2)
    keys, values = (past.unflatten(-1, pairs) for past in (cache.keys, cache.values))
    rotation = encoder.positions.rotation(size + num_new, x.device)
    scale = (dim // num_heads) ** -0.5
    tables = None
    if rotation is not None:
        of_past, tables = _tables(rotation, size, num_heads, scale)
        keys = _rotate(keys, of_past)
    # (1, N, num_heads, C, head_dim) of each layer
    past_keys, past_values = (past.permute(1, 0, 3, 2, 4, 5).flatten(-2).split(1) for past in (keys, values))

    x = x.flatten(0, 1)
    rows = []
    for index, layer in enumerate(encoder.layers):
        past = (past_keys[index], past_values[index])

        def attend(y: Tensor, layer: EncoderLayer = layer, past: tuple[Tensor, Tensor] = past) -> Tensor:
            rows.append(layer.attention.qkv(y))
            qkv = rows[-1].reshape(num_streams, num_new, 3 * num_heads, *pairs[1:])
            qkv = (qkv if tables is None else _rotate(qkv, tables)).transpose(1, 2)
            qkv = qkv.reshape(1, num_streams, 3 * num_heads, num_new, 2 * pairs[2])
            query, key, value = qkv.split(num_heads, dim=2)
            query = query * scale if tables is None else query
            key, value = (torch.cat(pair, dim=3) for pair in zip(past, (key, value), strict=True))
            weights = (query @ key.transpose(-1, -2) + bias).softmax(-1)
            return layer.attention.out((weights @ value).transpose(2, 3).reshape(num_streams * num_new, dim))

        x = layer.attention_residual(x, attend)
        x = layer.feed_forward_residual(x, layer.feed_forward)
        if index + 1 in config.condition_layers:
            x = encoder._condition(x, model.ctc(encoder.final_norm(x)))

    x = encoder.final_norm(x)
    new = torch.cat(rows).reshape(len(rows), num_streams, num_new, 3 * dim).transpose(0, 1)
    new_cache = EncoderCache(
        torch.cat((cache.keys, new[..., dim : 2 * dim]), dim=2)[:, :, num_new:],
        torch.cat((cache.values, new[..., 2 * dim :]), dim=2)[:, :, num_new:],
        cache.num_frames + num_valid,
    )
    heads_of_model = (model.ctc,) if model.phone_ctc is None else (model.ctc, model.phone_ctc)
    log_probs, *phones = (
        head(x).log_softmax(-1).reshape(num_streams, num_new, head.out_features) for head in heads_of_model
    )
    return Step(log_probs, x.reshape(num_streams, num_new, dim), new_cache, tuple(phones))


def _tables(rotation: Rotation, size: int, num_heads: int, scale: float) -> tuple[Rotation, Rotation]:
    """What `_rotate` multiplies with: the cached keys (C, num_heads, 2, head_dim / 2), and queries, keys and values of
    the chunk (c, 3 x num_heads, 2, head_dim / 2). Queries are scaled as well; values stay as they are."""
    cos, sin = (table.unflatten(-1, (1, 2, -1)) for table in rotation)
    sin = torch.cat((-sin[..., :1, :], sin[..., 1:, :]), dim=-2)
    past, chunk = [], []
    for table, of_values in ((cos, 1.0), (sin, 0.0)):
        past.append(table[:size].repeat(1, num_heads, 1, 1))
        new = table[size:].repeat(1, num_heads, 1, 1)
        chunk.append(torch.cat((new * scale, new, torch.full_like(new, of_values)), dim=1))
    return (past[0], past[1]), (chunk[0], chunk[1])


def _rotate(x: Tensor, tables: Rotation) -> Tensor:
    """asr.model.positions.rotate of (..., T, num_heads, 2, head_dim / 2), the sign of the sines being in their table."""
    first, second = x.chunk(2, dim=-2)
    return x * tables[0] + torch.cat((second, first), dim=-2) * tables[1]
