"""Shape of the punctuation network, and the defaults of its training. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from asr.training.short import TrainOptions

DEFAULTS = TrainOptions(steps=4000, rows=128, length=64, lr=3e-3, save_every=500)


@dataclass(frozen=True)
class PunctuatorConfig:
    feature_dim: int = 96
    """Width of the table of word features."""
    dim: int = 128
    num_heads: int = 4
    look_ahead: tuple[int, ...] = (2, 2, 0)
    """Words after a word that each layer attends to; one number per layer."""
    left_context: int = 16
    """Words before a word that each layer attends to."""
    ff_dim: int = 512

    def __post_init__(self) -> None:
        for field in ("feature_dim", "dim", "num_heads", "left_context", "ff_dim"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} {getattr(self, field)} must be at least 1")
        if not self.look_ahead or min(self.look_ahead) < 0:
            raise ValueError(f"look_ahead {self.look_ahead} must be a number of at least 0 for each layer")
        if self.dim % (2 * self.num_heads):
            raise ValueError(f"dim {self.dim} must be a multiple of 2 * num_heads, {2 * self.num_heads}")
