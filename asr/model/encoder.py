"""The streaming encoder: log-mel feature frames to one vector per 40 ms. Its state is kept outside the module.

`forward` (whole utterances with a chunk mask) and `step` (one chunk and a cache) run the same layers and compute the
same numbers. The exported graphs trace `step`, which is written in few large operators because these are fastest in
ONNX Runtime. Subsampling has no padding: n feature frames give n // 4 encoder frames, and encoder frame j depends on
feature frames 4j .. 4j + 6. Frames beyond the end of the utterance are replaced by the global mean. With a running mean
(asr.model.speaker), frame j depends on all features up to the end of its chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asr.config import ModelConfig
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.model.layers import EncoderLayer, LockedDropout, dtype_of_products
from asr.model.masks import full_mask, length_mask, step_mask
from asr.model.positions import Positions
from asr.model.speaker import SpeakerMean


class EncoderCache(NamedTuple):
    """State of a stream between chunks. Immutable: `step` returns a new one."""

    keys_values: Tensor
    """(N, num_layers * 2 * num_heads, left_context, head_dim) float32, newest frame last: for each layer the rotated
    keys of all heads, then the values"""
    num_frames: Tensor
    """(N,) int64, encoder frames processed since the start; min(num_frames, left_context) slots are valid"""


class SpeakerCache(NamedTuple):
    """The cache of an encoder with a running mean: the fields of EncoderCache, and one more."""

    keys_values: Tensor
    num_frames: Tensor
    speaker_sums: Tensor
    """(N, 81) float32, the weighted sums of asr.model.speaker"""


Cache = EncoderCache | SpeakerCache


class Encoder(nn.Module):
    """Convolutional subsampling by 4, then Transformer blocks without convolution.

    `head`, the CTC head (dim -> vocab_size logits), is also applied to inner layers: for intermediate CTC, and for
    self-conditioning, which projects its posteriors and adds them to the input of the next layer.
    """

    mean: Tensor
    inverse_std: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.inner_layers = config.condition_layers or (max(config.encoder_layers // 2, 1),)
        self.register_buffer("mean", torch.zeros(NUM_MEL_BINS))
        self.register_buffer("inverse_std", torch.ones(NUM_MEL_BINS))
        channels = config.subsampling_channels
        self.conv1 = nn.Conv2d(1, channels, 3, stride=2)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=2)
        self.project = nn.Linear(channels * (((NUM_MEL_BINS - 1) // 2 - 1) // 2), config.dim)
        self.speaker = SpeakerMean(config.dim) if config.running_mean else None
        self.positions = Positions(config.position, config.dim, config.num_heads)
        self.dropout = LockedDropout(config.dropout)
        layer = (config.dim, config.num_heads, config.encoder_ff_dim, config.activation, config.norm, config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(*layer) for _ in range(config.encoder_layers))
        self.final_norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        if config.condition_layers:
            self.condition = nn.Linear(config.vocab_size, config.dim)
            nn.init.zeros_(self.condition.weight)  # no conditioning at the start of training
            nn.init.zeros_(self.condition.bias)

    def set_cmvn(self, mean: Tensor, std: Tensor) -> None:
        """Sets mean and standard deviation of the features, each (80,) float32; saved with the weights."""
        self.mean.copy_(mean)
        self.inverse_std.copy_(1.0 / std.clamp(min=1e-3))

    def forward(
        self, head: nn.Module, features: Tensor, num_frames: Tensor, chunks: Sequence[tuple[int, int]] = ((0, -1),)
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Encodes whole utterances with chunk masks.

        Args:
            features: (N, T, 80) float32 log-mel, with any padding.
            num_frames: (N,) int64 valid feature frames.
            chunks: of each view, encoder frames per chunk, 0 for full context, and encoder frames before the chunk
                that it attends to, -1 for all. The views are equal parts of the N rows.
        Returns:
            (N, T // 4, dim); (N,) int64 valid encoder frames, num_frames // 4; and the logits of `head` at each inner
            layer, (N, T // 4, vocab_size).
        """
        lengths = num_frames // SUBSAMPLING
        num_out = max(features.shape[1] // SUBSAMPLING, 1)
        views = zip(features.chunk(len(chunks)), num_frames.chunk(len(chunks)), chunks, strict=True)
        parts = [self._subsample_whole(x, n, num_out, chunk_size or num_out) for x, n, (chunk_size, _) in views]
        x = self.dropout(self.positions.add_absolute(torch.cat(parts)))
        mask = full_mask(lengths, num_out, chunks)
        x, _, inner = self._run(head, x, mask, torch.arange(num_out, device=x.device)[None], (), self.inner_layers)
        return x, lengths, inner

    def init_cache(self, batch_size: int, left_context: int) -> Cache:
        """The state before the first chunk: zeros, with `left_context` slots (at least 0) per layer."""
        if left_context < 0:
            raise ValueError(
                f"left_context {left_context} must be at least 0 in streaming; for all audio, use its length"
            )
        weight = self.project.weight
        num_heads, dim = self.config.num_heads, self.config.dim
        cache = EncoderCache(
            torch.zeros(
                batch_size, 2 * num_heads * len(self.layers), left_context, dim // num_heads, device=weight.device
            ),
            torch.zeros(batch_size, dtype=torch.int64, device=weight.device),
        )
        return SpeakerCache(*cache, self.speaker.init_sums(batch_size, weight.device)) if self.speaker else cache

    def step(self, head: nn.Module, features: Tensor, num_valid: Tensor, cache: Cache) -> tuple[Tensor, list[Tensor]]:
        """Encodes one chunk of each stream of a batch.

        Args:
            features: (N, 4c + 3, 80) float32 log-mel of a chunk of c encoder frames.
            num_valid: (N,) int64 valid feature frames: 4c + 3, or fewer in a stream's last chunk; num_valid // 4
                encoder frames are valid.
        Returns:
            The frames of all streams as rows, (N * c, dim), and the input of `next_cache`. ONNX Runtime fuses a product
            and its bias into one operator only for rows.
        """
        x = self._normalize(features, num_valid)
        sums = []
        if self.speaker is not None and isinstance(cache, SpeakerCache):
            num_new = torch.full_like(num_valid, x.shape[1] - FEATURE_OVERLAP)  # the others begin the next chunk
            kept = cache.speaker_sums * self.speaker.decay_after(num_new)[:, None]
            sums.append(kept + self.speaker.added(x[:, :-FEATURE_OVERLAP], num_valid))
        x = self._subsample(x, num_valid, *sums)
        x = self.positions.add_absolute(x, cache.num_frames)
        mask = step_mask(cache.num_frames, _encoder_frames(num_valid), cache.keys_values.shape[2], x.shape[1])
        position = cache.num_frames[:, None] + torch.arange(x.shape[1], device=x.device)
        past = cache.keys_values.to(x.dtype).split(self.config.num_heads, dim=1)
        x, new, _ = self._run(head, x.flatten(0, 1), mask, position, past, self.config.condition_layers)
        return x, [*new, *sums]

    def next_cache(self, cache: Cache, num_valid: Tensor, new: Sequence[Tensor]) -> Cache:
        """The cache after a chunk, from the previous one and the result of `step`: new frames of each layer, and sums.

        If a chunk is longer than the cache, as in a second pass, only its newest frames are kept.
        """
        frames, sums = torch.cat(list(new[: 2 * len(self.layers)]), dim=1), new[2 * len(self.layers) :]
        num_new = frames.shape[2]
        num_kept = torch.sym_min(num_new, cache.keys_values.shape[2])
        keys_values = torch.cat((cache.keys_values[:, :, num_kept:], frames[:, :, num_new - num_kept :]), dim=2)
        next = EncoderCache(keys_values, cache.num_frames + _encoder_frames(num_valid))
        return SpeakerCache(*next, *sums) if sums else next

    def _run(
        self,
        head: nn.Module,
        x: Tensor,
        mask: Tensor,
        position: Tensor,
        past: Sequence[Tensor],
        heads_at: Collection[int],
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Runs all layers.

        position: (N or 1, T) int64, of each frame. past: keys and values of each layer, one after the other; or empty.
        Returns the output; with a `past`, keys and values of the new frames in the same order; and the logits of
        `head` after the layers `heads_at`, counted from 1.
        """
        bias = self.positions.bias(mask).to(dtype_of_products(x))  # once, not in every layer
        rotation = self.positions.rotation(position, x)
        new, inner = [], []
        for number, layer in enumerate(self.layers, 1):
            x, keys_values = layer(x, bias, rotation, past[2 * number - 2 : 2 * number] or None)
            if past:
                new += keys_values
            if number in heads_at:
                inner.append(head(self.final_norm(x)))
                if self.config.condition_layers:
                    x = x + self.condition(inner[-1].float().softmax(-1).to(inner[-1].dtype))
        return self.final_norm(x), new, inner

    def _normalize(self, features: Tensor, num_valid: Tensor) -> Tensor:
        """(N, T, 80); zero, which is the global mean, beyond the end."""
        x = (features - self.mean) * self.inverse_std
        return torch.where(length_mask(num_valid, x.shape[1])[:, :, None], x, 0.0)

    def _subsample_whole(self, features: Tensor, num_frames: Tensor, num_out: int, chunk_size: int) -> Tensor:
        """Whole utterances (N, T, 80) -> (N, num_out, dim); with a running mean by chunks, each with its own mean."""
        size = SUBSAMPLING * (chunk_size if self.speaker else num_out)
        num_chunks = -(-SUBSAMPLING * num_out // size)
        missing = size * num_chunks + FEATURE_OVERLAP - features.shape[1]
        x = self._normalize(F.pad(features, (0, 0, 0, max(missing, 0))), num_frames)
        if self.speaker is None:
            return self._subsample(x, num_frames)
        starts = size * torch.arange(num_chunks, device=x.device)
        # Indexed, because torch.compile compiles `unfold` anew for each size.
        windows = x[:, starts[:, None] + torch.arange(size + FEATURE_OVERLAP, device=x.device)]
        num_valid = num_frames[:, None] - starts
        sums = self.speaker.running(windows[:, :, :size], num_valid)
        x = self._subsample(windows.flatten(0, 1), num_valid.flatten(), sums.flatten(0, 1))
        return x.unflatten(0, (-1, num_chunks)).flatten(1, 2)[:, :num_out]

    def _subsample(self, x: Tensor, num_valid: Tensor, sums: Tensor | None = None) -> Tensor:
        """Normalized (N, T, 80) -> (N, (T - 3) // 4, dim). sums: (N, 81), for an encoder with a running mean."""
        if self.speaker is None or sums is None:
            return self._convolve(x)
        to_features, to_layers = self.speaker(sums)
        x = torch.where(length_mask(num_valid, x.shape[1])[:, :, None], x + to_features[:, None], 0.0)
        return self._convolve(x) + to_layers[:, None]

    def _convolve(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x[:, None]))))
        return self.project(x.transpose(1, 2).flatten(-2))


def _encoder_frames(num_valid: Tensor) -> Tensor:
    """num_valid // 4 of numbers from 0, which is one operator in ONNX; a floor takes eight."""
    return torch.div(num_valid, SUBSAMPLING, rounding_mode="trunc")
