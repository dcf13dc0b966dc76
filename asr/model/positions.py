"""Position encodings behind one interface: rotary, relative, sinusoidal, learned or none.

The relative kinds (rope, relative, none) depend only on slots of the attention window: hour ten is computed like minute
one, and the exported graph needs no absolute offset. The two absolute kinds are textbook baselines; they need the
number of frames since the start of the stream.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from asr.features import ENCODER_FRAME_S

MAX_LEARNED_POSITIONS = 4096
MAX_RELATIVE_DISTANCE = 128

Rotation = tuple[Tensor, Tensor]
"""The factors of `rotate`: cosines and signed sines."""


class Positions(nn.Module):
    """Positions of kind rope (Su et al. 2021) | relative (a learned bias of the clipped distance, after
    Raffel et al. 2020) | sinusoidal (Vaswani et al. 2017) | learned | none."""

    def __init__(self, kind: str, dim: int, num_heads: int) -> None:
        super().__init__()
        self.kind = kind
        self.dim = dim
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        if kind == "relative":
            self.relative_bias = nn.Parameter(torch.zeros(num_heads, 2 * MAX_RELATIVE_DISTANCE + 1))
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(MAX_LEARNED_POSITIONS, dim) * 0.02)

    @property
    def is_absolute(self) -> bool:
        return self.kind in ("sinusoidal", "learned")

    def add_absolute(self, x: Tensor, offset: Tensor | None = None) -> Tensor:
        """Adds absolute positions offset, offset + 1, ... to x (N, T, dim); `offset` (N,) int64, None for zeros."""
        if not self.is_absolute:
            return x
        position = torch.arange(x.shape[1], device=x.device)[None, :]
        if offset is not None:
            position = offset[:, None] + position
        if self.kind == "sinusoidal":
            return x + sinusoids(position, self.dim).to(x.dtype)
        # The host waits for positions on the device only in a stream.
        last = x.shape[1] - 1 if offset is None else int(position.max()) if position.numel() else 0
        if last >= MAX_LEARNED_POSITIONS:
            raise ValueError(
                f"encoder frame {last} is beyond the {MAX_LEARNED_POSITIONS} learned positions "
                f"({MAX_LEARNED_POSITIONS * ENCODER_FRAME_S:.0f} s); use position=rope for longer audio"
            )
        return x + self.table[position].to(x.dtype)

    def rotation(self, num_slots: int, num_queries: int, like: Tensor) -> Rotation | None:
        """Factors for the keys of an attention window, then for the queries, which are its last slots; rope only.

        The factors of the queries include the scale of the scores. The factors are repeated for all heads, because ONNX
        Runtime multiplies tensors of equal shape fastest.
        Returns (num_slots + num_queries, num_heads, 2, head_dim / 2) each, of the dtype and device of `like`.
        """
        if self.kind != "rope":
            return None
        slot = torch.arange(num_slots, device=like.device)
        angle = slot[:, None, None, None] * rope_frequencies(self.head_dim, like.device)
        cos, sin = angle.cos(), angle.sin()
        scale = self.head_dim**-0.5
        cos, sin = (
            torch.cat((table, table[num_slots - num_queries :] * scale)).repeat(1, self.num_heads, 1, 1).to(like.dtype)
            for table in (torch.cat((cos, cos), dim=-2), torch.cat((-sin, sin), dim=-2))
        )
        return cos, sin

    def bias(self, mask: Tensor) -> Tensor:
        """Attention bias: -inf where the mask hides a slot, otherwise the relative bias or 0.

        mask: (N, 1, num_queries, num_slots) bool; the queries are the last slots of the window.
        Returns (N, 1 or num_heads, num_queries, num_slots) float32.
        """
        if self.kind != "relative":
            return mask_bias(mask)
        num_queries, num_slots = mask.shape[-2:]
        slot = torch.arange(num_slots, device=mask.device)
        distance = slot[None, :] - slot[num_slots - num_queries :, None]
        index = distance.clamp(-MAX_RELATIVE_DISTANCE, MAX_RELATIVE_DISTANCE) + MAX_RELATIVE_DISTANCE
        return torch.where(mask, self.relative_bias[:, index], float("-inf"))


def mask_bias(mask: Tensor) -> Tensor:
    """bool, True where visible -> float32 of the same shape, 0 or -inf."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, float("-inf"))


def rope_frequencies(head_dim: int, device: torch.device) -> Tensor:
    """(head_dim / 2,) float32, radians per slot."""
    half = head_dim // 2
    return 10_000.0 ** (-torch.arange(half, device=device) / half)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotary embedding of x (..., num_heads, 2, head_dim / 2): a pair has one number from each half of a head."""
    first, second = x.chunk(2, dim=-2)
    return x * rotation[0] + torch.cat((second, first), dim=-2) * rotation[1]


def sinusoids(position: Tensor, dim: int) -> Tensor:
    """position (...) int64 -> (..., dim) float32: sines in the first half, cosines in the second."""
    half = dim // 2
    inverse_wavelength = torch.exp(torch.arange(half, device=position.device) * (-math.log(10_000.0) / half))
    angle = position[..., None].float() * inverse_wavelength
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
