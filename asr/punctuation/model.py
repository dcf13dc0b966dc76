"""The punctuation network: a Transformer with a limited look-ahead, counted in words.

In layer i a word attends to the `look_ahead[i]` words after it and the `left_context` words before it. So the answer
for a word depends on sum(look_ahead) words after it and layers * left_context words before it, in a text of any length.
This makes the network streaming: an answer with that many words after it never changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr._core import (
    NUM_CASES,
    NUM_MARKS,
    NUM_PAUSE_CLASSES,
    NUM_WORD_FEATURE_ROWS,
    NUM_WORD_FEATURES,
    PunctuationUnits,
)
from asr.model.layers import EncoderLayer
from asr.model.masks import length_mask
from asr.model.positions import Positions, mask_bias
from asr.punctuation.config import PunctuatorConfig
from asr.runtime.punctuation import Answer, PunctuationNetwork


class Punctuator(nn.Module, PunctuationNetwork):
    def __init__(self, config: PunctuatorConfig) -> None:
        super().__init__()
        self.config = config
        self.look_ahead = sum(config.look_ahead)
        self.left_context = config.left_context * len(config.look_ahead)
        self.features = nn.Embedding(NUM_WORD_FEATURE_ROWS, config.feature_dim)
        nn.init.normal_(self.features.weight, std=NUM_WORD_FEATURES**-0.5)
        self.project = nn.Linear(config.feature_dim, config.dim)
        self.pauses = nn.Embedding(NUM_PAUSE_CLASSES, config.dim)
        self.positions = Positions("rope", config.dim, config.num_heads)
        layer = (config.dim, config.num_heads, config.ff_dim, "relu", "pre", 0.0)
        self.layers = nn.ModuleList(EncoderLayer(*layer) for _ in config.look_ahead)
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, NUM_MARKS + NUM_CASES)

    def forward(self, features: Tensor, pauses: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        """
        Args:
            features: (N, T, NUM_WORD_FEATURES) int64, rows of the table, of asr._core.word_features.
            pauses: (N, T) int64, classes of the pause before each unit.
            segments: (N, T) int64; units attend only to their own segment.
        Returns:
            Logits of the mark after each unit, (N, T, NUM_MARKS), and of its case, (N, T, NUM_CASES).
        """
        x = self.project(self.features(features).sum(2)) + self.pauses(pauses)
        same = segments[:, :, None] == segments[:, None, :]
        unit = torch.arange(x.shape[1], device=x.device)
        rotation = self.positions.rotation(unit[None], x)
        distance = unit[None, :] - unit[:, None]  # from the query (row) to the key (column)
        biases: dict[int, Tensor] = {}
        for layer, look_ahead in zip(self.layers, self.config.look_ahead, strict=True):
            if look_ahead not in biases:
                near = (distance <= look_ahead) & (distance >= -self.config.left_context)
                biases[look_ahead] = mask_bias((near & same)[:, None])
            x, _ = layer(x, biases[look_ahead], rotation, None)
        logits = self.head(self.norm(x))
        return logits[..., :NUM_MARKS], logits[..., NUM_MARKS:]

    def probabilities(self, features: Tensor, pauses: Tensor, num_units: Tensor) -> tuple[Tensor, Tensor]:
        """The same for N texts of `num_units` (N,) int64 units each, with any padding, as probabilities."""
        segments = length_mask(num_units, features.shape[1]).long()
        marks, cases = self(features, pauses, segments)
        return marks.float().softmax(-1), cases.float().softmax(-1)

    @torch.no_grad()
    def answer_units(self, units: PunctuationUnits) -> Answer:
        marks, cases = self.probabilities(*map(torch.tensor, units.work.inputs.values()))
        return Answer(marks[0].numpy(), cases[0].numpy())
