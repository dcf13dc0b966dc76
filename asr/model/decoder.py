"""The attention decoder: scores a token sequence against the encoder's output.

At an endpoint it rescores the n-best hypotheses of the CTC search. It is trained with teacher forcing, optionally with
scheduled sampling.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from asr.config import ModelConfig
from asr.model.layers import CrossAttention, FeedForward, LockedDropout, Residual, SelfAttention
from asr.model.masks import length_mask
from asr.model.positions import mask_bias, sinusoids
from asr.tokenizer import SOS_EOS_ID

IGNORE_ID = -1
"""Padding in target sequences."""


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config.dim, config.num_heads)
        self.cross_attention = CrossAttention(config.dim, config.num_heads)
        self.feed_forward = FeedForward(config.dim, config.decoder_ff_dim, config.activation, config.dropout)
        self.residuals = nn.ModuleList(Residual(config.dim, config.norm, config.dropout) for _ in range(3))

    def forward(self, x: Tensor, causal_bias: Tensor, memory: Tensor, memory_bias: Tensor) -> Tensor:
        x = self.residuals[0](x, lambda y: self.self_attention(y, causal_bias, None, None, None)[0])
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_bias))
        return self.residuals[2](x, self.feed_forward)


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
        length = tokens.shape[1]
        position = torch.arange(length, device=tokens.device)
        x = self.embedding(tokens) * math.sqrt(self.config.dim) + sinusoids(position, self.config.dim)
        x = self.dropout(x)
        causal_bias = mask_bias(position[None, :] <= position[:, None])[None, None]
        # Frame 0 stays visible in an empty memory, so that the softmax of its row is finite.
        memory_bias = mask_bias(length_mask(memory_lengths.clamp(min=1), memory.shape[1]))[:, None, None]
        for layer in self.layers:
            x = layer(x, causal_bias, memory, memory_bias)
        return self.out(self.final_norm(x))

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
        log_probs = self.forward(torch.cat((sos, tokens), dim=1), memory, memory_lengths).float().log_softmax(-1)
        position = torch.arange(tokens.shape[1] + 1, device=tokens.device)[None, :]
        target = torch.cat((tokens, sos), dim=1)
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
