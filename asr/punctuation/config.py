"""The recipe of the punctuation network. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field

from asr.config import ConfigError, Recipe, TextData


@dataclass(frozen=True)
class PunctuatorConfig:
    """Shape of the network. The same values rebuild it from a checkpoint or an exported file."""

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
        for name in ("feature_dim", "dim", "num_heads", "left_context", "ff_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"model.{name} = {getattr(self, name)} must be at least 1")
        if not self.look_ahead or min(self.look_ahead) < 0:
            raise ConfigError(f"model.look_ahead = {self.look_ahead} must be a number of at least 0 for each layer")
        if self.dim % (2 * self.num_heads):
            raise ConfigError(f"model.dim = {self.dim} must be a multiple of 2 * model.num_heads, {2 * self.num_heads}")


@dataclass(frozen=True)
class PunctuationData(TextData):
    """train: files with a cased sentence or paragraph per line. Their ends, one fiftieth, are held out."""

    rows: int = 128
    length: int = 64
    words: float = 20.0
    """Million words to read of each file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.words < 1e6:
            raise ConfigError(f"data.words = {self.words:g} must be above 0 and below 1e6")


@dataclass(frozen=True)
class PunctuationRecipe(Recipe):
    TASK = "asr.punctuation.task:PunctuationTask"
    task: str = "punctuation"
    model: PunctuatorConfig = field(default_factory=PunctuatorConfig)
    data: PunctuationData = field(default_factory=PunctuationData)

    @property
    def batch(self) -> tuple[str, float]:
        return "data.rows", self.data.rows
