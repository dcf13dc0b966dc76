"""Shape of the neural language model, and the defaults of its training and export. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from asr.training.short import TrainOptions

DEFAULTS = TrainOptions(steps=6000, rows=96, length=128, lr=2e-3, save_every=250)
COOLDOWN = 0.3
"""Default share of the steps at the end over which the learning rate decays linearly to zero. Before, it is constant,
so that training can be continued beyond the planned number of steps (Hägele et al. 2024)."""
SHARE, WEIGHT = 0.6, 1.2
"""Values of the bundled network; see csrc/search/neural_lm.h."""


@dataclass(frozen=True)
class NeuralLmConfig:
    num_pieces: int
    dim: int = 384
    num_heads: int = 6
    num_layers: int = 4
    ff_dim: int = 1152
    activation: str = "swiglu"

    def __post_init__(self) -> None:
        for field in ("num_pieces", "dim", "num_heads", "num_layers", "ff_dim"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} {getattr(self, field)} must be at least 1")
        if self.dim % (2 * self.num_heads):
            raise ValueError(f"dim {self.dim} must be a multiple of 2 * num_heads, {2 * self.num_heads}")
