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

    def rotation(self, position: Tensor, like: Tensor) -> Rotation | None:
        """The factors of `rotate` for queries and keys at these positions (N or 1, T) int64; rope only.

        Of the dtype of `like`. The size of the positions does not matter: scores depend on their differences.
        """
        if self.kind != "rope":
            return None
        cos, sin = rotation(position, self.num_heads, self.head_dim)
        return cos.to(like.dtype), sin.to(like.dtype)

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
    return torch.where(mask, 0.0, float("-inf"))


def rope_frequencies(head_dim: int, device: torch.device) -> Tensor:
    """(head_dim / 2,) float32, radians per slot."""
    half = head_dim // 2
    return 10_000.0 ** (-torch.arange(half, device=device) / half)


def rotation(position: Tensor, num_heads: int, head_dim: int) -> Rotation:
    """Factors for the queries and keys of all heads at `position` (N, T) int64: (N, 2 * num_heads, T, head_dim) each.

    The factors of the queries include the scale of the scores. The factors are repeated for all heads, because ONNX
    Runtime multiplies tensors of equal shape fastest. Angles are computed in 64 bits: after ten hours, 32 bits would
    leave an error of 0.06 radians.
    """
    angle = position.double()[..., None] * rope_frequencies(head_dim, position.device).double()
    angle = angle.fmod(2 * math.pi).float()
    cos, sin = angle.cos(), angle.sin()
    ones = torch.ones(num_heads, 1, 1, device=position.device)
    scale = torch.cat((ones * head_dim**-0.5, ones))
    return torch.cat((cos, cos), dim=-1)[:, None] * scale, torch.cat((-sin, sin), dim=-1)[:, None] * scale


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotary embedding of x (..., head_dim): a pair has one number from each half of a head."""
    first, second = x.chunk(2, dim=-1)
    return x * rotation[0] + torch.cat((second, first), dim=-1) * rotation[1]


def sinusoids(position: Tensor, dim: int) -> Tensor:
    """position (...) int64 -> (..., dim) float32: sines in the first half, cosines in the second."""
    half = dim // 2
    inverse_wavelength = torch.exp(torch.arange(half, device=position.device) * (-math.log(10_000.0) / half))
    angle = position[..., None].float() * inverse_wavelength
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
