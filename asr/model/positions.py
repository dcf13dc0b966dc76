"""Position encodings behind one interface: rotary, relative, sinusoidal, learned or none.

The relative kinds (rope, relative, none) depend only on slots of the attention window: hour ten equals minute one, and
the exported graph needs no absolute offset. The two absolute kinds are textbook baselines; they need the number of
frames since the start of the stream.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from asr.features import ENCODER_FRAME_S

MAX_LEARNED_POSITIONS = 4096
MAX_RELATIVE_DISTANCE = 128

Rotation = tuple[Tensor, Tensor]


class Positions(nn.Module):
    """Positions of kind rope (Su et al. 2021) | relative (a learned bias of the clipped distance, after
    Raffel et al. 2020) | sinusoidal (Vaswani et al. 2017) | learned | none."""

    def __init__(self, kind: str, dim: int, num_heads: int) -> None:
        super().__init__()
        self.kind = kind
        self.dim = dim
        self.head_dim = dim // num_heads
        if kind == "relative":
            self.relative_bias = nn.Parameter(torch.zeros(num_heads, 2 * MAX_RELATIVE_DISTANCE + 1))
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(MAX_LEARNED_POSITIONS, dim) * 0.02)

    @property
    def is_absolute(self) -> bool:
        return self.kind in ("sinusoidal", "learned")

    def add_absolute(self, x: Tensor, offset: Tensor) -> Tensor:
        """Adds absolute positions offset, offset + 1, ... to x (N, T, dim); `offset` (N,) int64."""
        if not self.is_absolute:
            return x
        position = offset[:, None] + torch.arange(x.shape[1], device=x.device)[None, :]
        if self.kind == "sinusoidal":
            return x + sinusoids(position, self.dim).to(x.dtype)
        last = int(position.max()) if position.numel() else 0
        if last >= MAX_LEARNED_POSITIONS:
            raise ValueError(
                f"encoder frame {last} is beyond the {MAX_LEARNED_POSITIONS} learned positions "
                f"({MAX_LEARNED_POSITIONS * ENCODER_FRAME_S:.0f} s); use position=rope for longer audio"
            )
        return x + self.table[position].to(x.dtype)

    def rotation(self, num_slots: int, device: torch.device) -> Rotation | None:
        """cos and sin of the slots of an attention window, each (num_slots, head_dim) float32; rope only."""
        if self.kind != "rope":
            return None
        half = self.head_dim // 2
        inverse_wavelength = 10_000.0 ** (-torch.arange(half, device=device) / half)
        angle = (torch.arange(num_slots, device=device)[:, None] * inverse_wavelength[None, :]).repeat(1, 2)
        return angle.cos(), angle.sin()

    def bias(self, mask: Tensor) -> Tensor:
        """Attention bias: -inf where the mask hides a slot, else the relative bias or 0.

        mask: (N, 1, num_queries, num_slots) bool, the queries being the last slots of the window.
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


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x (N, num_heads, T, head_dim) by cos, sin (T, head_dim)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat((-second, first), dim=-1) * sin.to(x.dtype)


def sinusoids(position: Tensor, dim: int) -> Tensor:
    """position (...) int64 -> (..., dim) float32: sines in the first half, cosines in the second."""
    half = dim // 2
    inverse_wavelength = torch.exp(torch.arange(half, device=position.device) * (-math.log(10_000.0) / half))
    angle = position[..., None].float() * inverse_wavelength
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
