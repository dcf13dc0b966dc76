"""Metadata of models that are hand-made numbers instead of a network."""

from __future__ import annotations

from collections.abc import Sequence

from asr import _core
from asr.runtime.metadata import ModelMetadata


def toy_metadata(tokens: Sequence[str], phones: Sequence[str] = (), language: str = "") -> _core.ModelMetadata:
    """tokens: spelling of every token id; the first three are special."""
    return ModelMetadata(tokens=_every(tokens), num_layers=1, dim=2, phones=tuple(phones), language=language).core


def toy_decoder(tokens: Sequence[str]) -> _core.DecoderMetadata:
    """The decoder of a model with `toy_metadata`."""
    properties = {"model_type": _core.DECODER_TYPE, "format_version": str(_core.DECODER_VERSION), "dim": "2"}
    return _core.DecoderMetadata({**properties, "states": "", "tokens": "\n".join(_every(tokens))})


def _every(tokens: Sequence[str]) -> tuple[str, ...]:
    return ("<blk>", "<unk>", "<sos/eos>", *tokens[3:])
