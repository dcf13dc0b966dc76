"""`AsrModel.step` in fewer and larger operators, for the graphs of `asr export`.

The numbers are those of AsrModel.step, to rounding; the parity gate compares them. What differs is how the work is cut:

- Frames of all streams are rows of one matrix, so that a product and its bias are one operator of ONNX Runtime.
- A layer rotates its queries and the keys of its window at once, with the scale of the scores in the table of the
  queries.
- The caches are moved on once, with the new frames of all layers. Of a chunk that is longer than a cache, as the whole
  utterance of a second pass is, only those frames are kept until then.
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

    # Heads are pairs of halves, which the rotation swaps.
    pairs, scale = (num_heads, 2, dim // num_heads // 2), (dim // num_heads) ** -0.5
    # (N, 1, C, *pairs) of each layer
    past_keys, past_values = (past.unflatten(-1, pairs).split(1, dim=1) for past in (cache.keys, cache.values))
    rotation = encoder.positions.rotation(size + num_new, x.device)
    tables = None if rotation is None else _tables(rotation, size, num_heads, scale)

    num_kept = torch.sym_min(num_new, size)
    x = x.flatten(0, 1)
    projected = []
    for index, layer in enumerate(encoder.layers):
        past = (past_keys[index], past_values[index])

        def attend(y: Tensor, layer: EncoderLayer = layer, past: tuple[Tensor, Tensor] = past) -> Tensor:
            qkv = layer.attention.qkv(y).reshape(num_streams, 1, num_new, 3 * num_heads, *pairs[1:])
            projected.append(qkv)
            query, key, value = qkv.split(num_heads, dim=3)
            query = query * scale if tables is None else query
            window = torch.cat((past[0], key, query), dim=2)
            window = window if tables is None else _rotate(window, tables)
            key, query = _by_head(window).split((size + num_new, num_new), dim=2)
            value = _by_head(torch.cat((past[1], value), dim=2))
            weights = (query @ key.transpose(-1, -2) + bias).softmax(-1)
            return layer.attention.out((weights @ value).transpose(1, 2).reshape(num_streams * num_new, dim))

        x = layer.attention_residual(x, attend)
        x = layer.feed_forward_residual(x, layer.feed_forward)
        if index + 1 in config.condition_layers:
            x = encoder._condition(x, model.ctc(encoder.final_norm(x)))

    x = encoder.final_norm(x)
    heads_of_model = (model.ctc,) if model.phone_ctc is None else (model.ctc, model.phone_ctc)
    log_probs, *phones = (
        head(x).log_softmax(-1).reshape(num_streams, num_new, head.out_features) for head in heads_of_model
    )
    encoder_out = x.reshape(num_streams, num_new, dim)
    # ONNX Runtime computes what has no order of its own from the end of the graph. With the caches at the end and the
    # layers in them from last to first, the frames of a layer are cut as soon as they are there, and the others do not
    # wait in memory for the last layer.
    newest = [qkv[:, :, num_new - num_kept :] for qkv in reversed(projected)]
    new = torch.cat(newest[::-1], dim=1).reshape(num_streams, len(newest), num_kept, 3 * dim)
    new_cache = EncoderCache(
        torch.cat((cache.keys, new[..., dim : 2 * dim]), dim=2)[:, :, num_kept:],
        torch.cat((cache.values, new[..., 2 * dim :]), dim=2)[:, :, num_kept:],
        cache.num_frames + num_valid,
    )
    return Step(log_probs, encoder_out, new_cache, tuple(phones))


def _tables(rotation: Rotation, size: int, num_heads: int, scale: float) -> Rotation:
    """What `_rotate` multiplies with, (C + 2c, num_heads, 2, head_dim / 2) each: keys of the window, then queries of
    the chunk, which are scaled as well."""
    cos, sin = (table.unflatten(-1, (1, 2, -1)) for table in rotation)
    sin = torch.cat((-sin[..., :1, :], sin[..., 1:, :]), dim=-2)
    cos, sin = (torch.cat((table, table[size:] * scale)).repeat(1, num_heads, 1, 1) for table in (cos, sin))
    return cos, sin


def _rotate(x: Tensor, tables: Rotation) -> Tensor:
    """asr.model.positions.rotate of (..., S, num_heads, 2, head_dim / 2); their table holds the sign of the sines."""
    first, second = x.chunk(2, dim=-2)
    return x * tables[0] + torch.cat((second, first), dim=-2) * tables[1]


def _by_head(x: Tensor) -> Tensor:
    """(N, 1, S, num_heads, 2, head_dim / 2) -> (N, num_heads, S, head_dim).

    Halves are joined after the transposition: ONNX Runtime merges two transpositions in a row, and with that of the
    keys in their product it would be one that moves number by number.
    """
    return x.transpose(2, 3).reshape(x.shape[0], x.shape[3], x.shape[2], 2 * x.shape[5])
