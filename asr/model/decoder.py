"""The attention decoder: the probability of the next token, given the encoder's output and the tokens so far.

It is trained with teacher forcing, optionally with scheduled sampling. Searches run it token by token (`Decoder.step`);
rescoring runs whole sentences at once (`Decoder.score`). All run the same layers: the full pass is a step with all
tokens and an empty cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from asr.config import ModelConfig
from asr.model.layers import (
    CrossAttention,
    FeedForward,
    KeysValues,
    LockedDropout,
    Residual,
    SelfAttention,
    causal_bias,
    dtype_of_products,
)
from asr.model.masks import length_mask
from asr.model.positions import mask_bias, sinusoids
from asr.tokenizer import SOS_EOS_ID

IGNORE_ID = -1
"""Padding in target sequences."""


class DecoderCache(NamedTuple):
    """State of N hypotheses of P tokens each, between steps. Immutable: `Decoder.step` returns a new one.

    Reordering hypotheses is indexing the first axis of `keys` and `values`.
    """

    keys: Tensor
    """(N, num_layers, P, dim), keys of the P tokens so far"""
    values: Tensor
    """(N, num_layers, P, dim)"""
    memory_keys: Tensor
    """(N, num_layers, T, dim), keys of the encoder's output; one row if the hypotheses are of one utterance"""
    memory_values: Tensor
    """(N or 1, num_layers, T, dim)"""

    def select(self, rows: Any) -> DecoderCache:
        """The hypotheses `rows`, (M,) integers, of one utterance."""
        return self._replace(keys=self.keys[rows], values=self.values[rows])


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.dim, config.num_heads)
        self.cross_attention = CrossAttention(config.dim, config.num_heads)
        self.feed_forward = FeedForward(config.dim, config.decoder_ff_dim, config.activation, config.dropout)
        self.residuals = nn.ModuleList(Residual(config.dim, config.norm, config.dropout) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        num_tokens: int,
        bias: Tensor | None,
        past: KeysValues | None,
        memory: KeysValues,
        memory_bias: Tensor,
    ) -> tuple[Tensor, KeysValues]:
        """x (N, U, dim), or its rows; num_tokens U; bias: of the self-attention -> output of the shape of x, and keys
        and values of these tokens."""
        around_self, around_cross, around_feed_forward = cast("list[Residual]", self.residuals)
        y, new = self.self_attention(around_self.before(x), bias, None, past)
        x = around_self.after(x, y)
        x = around_cross(x, lambda y: self.cross_attention(y, num_tokens, *memory, memory_bias))
        return around_feed_forward(x, self.feed_forward), new


class Decoder(nn.Module):
    """Transformer decoder, sinusoidal positions, embeddings scaled by sqrt(dim) (Vaswani et al. 2017)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)
        self.dropout = LockedDropout(config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.final_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.out = nn.Linear(config.dim, config.vocab_size)

    def forward(self, tokens: Tensor, memory: Tensor, memory_lengths: Tensor) -> Tensor:
        """
        Args:
            tokens: (N, U) int64, each row SOS followed by tokens; padded with any valid id.
            memory: (N, T, dim) encoder output.
            memory_lengths: (N,) int64
        Returns:
            (N, U, vocab_size) logits of the token that follows each position.
        """
        memory_keys_values = self._project(memory)
        # Frame 0 stays visible if the memory is empty, so that the softmax is finite.
        memory_bias = mask_bias(length_mask(memory_lengths.clamp(min=1), memory.shape[1]))[:, None, None]
        return self._run(tokens, None, memory_keys_values, memory_bias)[0]

    def init_cache(self, memory: Tensor, batch_size: int = 1) -> DecoderCache:
        """The state before the first token. memory: (N or 1, T, dim) for `batch_size` hypotheses, valid frames only."""
        none = memory.new_zeros(batch_size, len(self.layers), 0, self.config.dim)
        return self.extend(DecoderCache(none, none, none[:1], none[:1]), memory)

    def extend(self, cache: DecoderCache, memory: Tensor) -> DecoderCache:
        """Appends T encoder frames, memory (N or 1, T, dim), to those of `cache`."""
        projected = zip(*self._project(memory), strict=True)
        keys, values = (torch.stack(each, dim=1) for each in projected)
        return cache._replace(
            memory_keys=torch.cat((cache.memory_keys, keys), dim=2),
            memory_values=torch.cat((cache.memory_values, values), dim=2),
        )

    def step(self, tokens: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Processes the next tokens of every hypothesis.

        Args:
            tokens: (N, U) int64; the first token of a hypothesis is SOS.
        Returns:
            (N, U, vocab_size) logits of the token after each of them; the cache for the next step.
        """
        heads = (self.config.num_heads, -1)
        by_head = (each.unflatten(-1, heads).transpose(2, 3).unbind(1) for each in (cache.keys, cache.values))
        past = list(zip(*by_head, strict=True))
        memory = list(zip(cache.memory_keys.unbind(1), cache.memory_values.unbind(1), strict=True))
        logits, new = self._run(tokens, past, memory, torch.zeros(1, 1, 1, 1, device=tokens.device))
        keys, values = (torch.stack(each, dim=1).transpose(2, 3).flatten(3) for each in zip(*new, strict=True))
        keys, values = torch.cat((cache.keys, keys), dim=2), torch.cat((cache.values, values), dim=2)
        return logits, cache._replace(keys=keys, values=values)

    def _project(self, memory: Tensor) -> list[KeysValues]:
        """Keys and values of `memory` for each layer."""
        layers: Iterable[Any] = self.layers  # for type checkers a ModuleList contains only modules
        return [layer.cross_attention.project(memory) for layer in layers]

    def _run(
        self, tokens: Tensor, past: Sequence[KeysValues] | None, memory: Sequence[KeysValues], memory_bias: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """Logits, and each layer's keys and values of these tokens."""
        num_past = past[0][0].shape[2] if past else 0
        position = torch.arange(tokens.shape[1], device=tokens.device) + num_past
        x = self.embedding(tokens) * math.sqrt(self.config.dim) + sinusoids(position, self.config.dim)
        if past:
            slot = torch.arange(num_past + tokens.shape[1], device=tokens.device)
            bias: Tensor | None = mask_bias(slot[None, :] <= position[:, None])[None, None]
            x = x.flatten(0, 1)  # the tokens of all hypotheses are rows, like the frames in the encoder's step
        else:
            bias, x = causal_bias(x), self.dropout(x)
        memory_bias = memory_bias.to(dtype_of_products(x))
        new = []
        for index, layer in enumerate(self.layers):
            x, keys_values = layer(x, tokens.shape[1], bias, past[index] if past else None, memory[index], memory_bias)
            new.append(keys_values)
        return self.out(self.final_norm(x)).reshape(*tokens.shape, -1), new

    def score(self, tokens: Tensor, token_lengths: Tensor, memory: Tensor, memory_lengths: Tensor) -> Tensor:
        """Log-probability of whole sentences, including EOS.

        Args:
            tokens: (N, U) int64 without SOS and EOS, padded with any valid id.
            token_lengths: (N,) int64
            memory: (N, T, dim); memory_lengths: (N,) int64
        Returns:
            (N,) float32
        """
        sos = torch.full_like(tokens[:, :1], SOS_EOS_ID)
        logits = self.forward(torch.cat((sos, tokens), dim=1), memory, memory_lengths)
        return sentence_scores(logits.float().log_softmax(-1), tokens, token_lengths)


def sentence_scores(log_probs: Tensor, tokens: Tensor, token_lengths: Tensor) -> Tensor:
    """Log-probability of whole sentences, including EOS.

    Args:
        log_probs: (N, U + 1, vocab_size), of the token at each position and after the last one.
        tokens: (N, U) int64 without SOS and EOS, padded with any valid id; token_lengths: (N,) int64
    Returns:
        (N,)
    """
    target = torch.cat((tokens, torch.full_like(token_lengths, SOS_EOS_ID)[:, None]), dim=1)
    position = torch.arange(target.shape[1], device=tokens.device)[None, :]
    target = torch.where(position == token_lengths[:, None], SOS_EOS_ID, target)
    picked = log_probs.gather(-1, target[:, :, None])[:, :, 0]
    return torch.where(position <= token_lengths[:, None], picked, 0.0).sum(dim=1)


def shift_right(targets: Tensor) -> Tensor:
    """(N, U) int64 targets padded with IGNORE_ID -> the decoder's input, SOS first: (N, U + 1)."""
    sos = torch.full_like(targets[:, :1], SOS_EOS_ID)
    return torch.cat((sos, targets.clamp(min=0)), dim=1)


def append_eos(targets: Tensor, lengths: Tensor) -> Tensor:
    """(N, U) int64 targets padded with IGNORE_ID -> the decoder's targets, EOS last: (N, U + 1)."""
    padded = torch.cat((targets, torch.full_like(targets[:, :1], IGNORE_ID)), dim=1)
    return padded.scatter(1, lengths[:, None], SOS_EOS_ID)
