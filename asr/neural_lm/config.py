"""The recipe of the neural language model, and the defaults of its export. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field

from asr.config import ConfigError, Recipe, TextData, TokenizerConfig

INTERPOLATION, LM_WEIGHT = 0.6, 1.2
"""Values of the bundled network: its share of a word's probability beside the n-grams, and the weight of both."""


@dataclass(frozen=True)
class NeuralLmConfig:
    """Shape of the network. The same values rebuild it from a checkpoint or an exported file."""

    num_pieces: int = 0
    """Set from the tokenizer; 0 in a recipe."""
    dim: int = 384
    num_heads: int = 6
    num_layers: int = 4
    ff_dim: int = 1152
    activation: str = "swiglu"

    def __post_init__(self) -> None:
        for name in ("dim", "num_heads", "num_layers", "ff_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"model.{name} = {getattr(self, name)} must be at least 1")
        if self.dim % (2 * self.num_heads):
            raise ConfigError(f"model.dim = {self.dim} must be a multiple of 2 * model.num_heads, {2 * self.num_heads}")


@dataclass(frozen=True)
class NeuralLmRecipe(Recipe):
    """data.train: files of utterances, one per line, as `asr lm utterances` writes them; `path*0.2` is a fifth of each
    batch, relative to weights of 1."""

    TASK = "asr.neural_lm.task:NeuralLmTask"
    task: str = "neural_lm"
    model: NeuralLmConfig = field(default_factory=NeuralLmConfig)
    tokenizer: TokenizerConfig = field(default_factory=lambda: TokenizerConfig("wordpiece", 4096))
    data: TextData = field(default_factory=TextData)

    def __post_init__(self) -> None:
        if self.tokenizer.kind != "wordpiece":
            raise ConfigError(
                f"tokenizer.kind = {self.tokenizer.kind!r} must be wordpiece, which the search spells with"
            )

    @property
    def batch(self) -> tuple[str, float]:
        return "data.rows", self.data.rows
