"""The chunk-wise attention mask, for whole utterances and for a step.

A frame attends to its own chunk and to the `left_context` frames before the chunk's first frame, regardless of its
position in the chunk (Zhang et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model"). Every frame
attends at least to itself, so the softmax of a padded row is finite.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from asr.config import ChunkConfig


def chunk_mask(num_frames: int, chunk_size: int, left_context: int, device: torch.device | str = "cpu") -> Tensor:
    """The chunk mask of a whole utterance.

    Args:
        num_frames: encoder frames.
        chunk_size: encoder frames per chunk; 0 for full context.
        left_context: encoder frames before the chunk; -1 for all.
    Returns:
        (num_frames, num_frames) bool, True where the row (query) attends to the column (key).
    """
    if chunk_size < 0 or left_context < -1:
        raise ValueError(
            f"chunk_size {chunk_size} must be at least 0 (0: full context), "
            f"left_context {left_context} at least -1 (-1: all)"
        )
    if chunk_size == 0:
        return torch.ones(num_frames, num_frames, dtype=torch.bool, device=device)
    frame = torch.arange(num_frames, device=device)
    chunk_start = frame - frame % chunk_size
    mask = frame[None, :] < (chunk_start + chunk_size)[:, None]
    if left_context >= 0:
        mask = mask & (frame[None, :] >= (chunk_start - left_context)[:, None])
    return mask


def length_mask(lengths: Tensor, max_length: int) -> Tensor:
    """(N,) int64 lengths -> (N, max_length) bool, True at valid positions."""
    return torch.arange(max_length, device=lengths.device)[None, :] < lengths[:, None]


def full_mask(lengths: Tensor, num_frames: int, chunks: Sequence[tuple[int, int]]) -> Tensor:
    """Combined chunk and padding mask: (N, 1, num_frames, num_frames) bool.

    chunks: chunk size and left context of each view; the views are equal parts of the N rows.
    """
    views = torch.stack([chunk_mask(num_frames, *chunk, lengths.device) for chunk in chunks])
    valid = length_mask(lengths, num_frames).unflatten(0, (len(chunks), -1))
    itself = torch.eye(num_frames, dtype=torch.bool, device=lengths.device)
    return ((views[:, None] & valid[:, :, None]).flatten(0, 1) | itself)[:, None]


def step_mask(num_cached: Tensor, num_new: Tensor, cache_size: int, num_frames: int) -> Tensor:
    """The rows of `full_mask` for one chunk, over the window [cache | chunk].

    Args:
        num_cached: (N,) int64, frames processed before this chunk; the newest `cache_size` of them are right-aligned in
            the cache.
        num_new: (N,) int64, valid frames of this chunk.
        cache_size, num_frames: slots of the cache and of the chunk.
    Returns:
        (N, 1, num_frames, cache_size + num_frames) bool.
    """
    slot = torch.arange(cache_size + num_frames, device=num_new.device)
    valid = (slot[None, :] >= cache_size - num_cached[:, None]) & (slot[None, :] < cache_size + num_new[:, None])
    itself = slot[None, :] == cache_size + torch.arange(num_frames, device=num_new.device)[:, None]
    return valid[:, None, None, :] | itself[None, None]


def draw_chunk(config: ChunkConfig, seed: str) -> tuple[int, int]:
    """Chunk size (0: full context) and left context (-1: all) of one step."""
    generator = random.Random(seed)
    if generator.random() < config.full_probability:
        return 0, -1
    return generator.choice(config.sizes), generator.choice(config.left_contexts)
