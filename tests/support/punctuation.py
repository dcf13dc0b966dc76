"""Prose with clear rules, from which a small network learns case and punctuation in seconds."""

from __future__ import annotations

import random
from pathlib import Path

from asr.punctuation.config import PunctuatorConfig

SMALL = PunctuatorConfig(feature_dim=16, dim=32, num_heads=2, look_ahead=(2, 1), left_context=6, ff_dim=32)


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences that begin in one of three ways; the end of each determines its punctuation."""
    chance = random.Random(seed)
    names = ["John", "Mary", "Paris", "London", "BBC"]
    verbs = ["saw", "met", "liked", "left"]
    lines = []
    for _ in range(count):
        a, b, verb = chance.choice(names), chance.choice(names), chance.choice(verbs)
        lines.append(
            chance.choice(
                (
                    f"He {verb} {a} yesterday.",
                    f"However, she {verb} {b} yesterday.",
                    f"Why has he seen {a} today?",
                    f"They know that he {verb} {a}, but I {verb} {b} yesterday.",
                )
            )
        )
    return lines


def write_prose(path: Path, count: int = 3000, seed: int = 0) -> Path:
    path.write_text("\n".join(sentences(count, seed)) + "\n", encoding="utf-8")
    return path
