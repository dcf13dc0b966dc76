"""Metadata of models that are hand-made numbers instead of a network."""

from __future__ import annotations

from collections.abc import Sequence

from asr import _core
from asr.runtime.metadata import ModelMetadata


def toy_metadata(tokens: Sequence[str], phones: Sequence[str] = (), language: str = "") -> _core.ModelMetadata:
    """tokens: spelling of every token id; the first three are special."""
    every = ("<blk>", "<unk>", "<sos/eos>", *tokens[3:])
    return ModelMetadata(tokens=every, num_layers=1, dim=2, phones=tuple(phones), language=language).core
