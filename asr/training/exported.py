"""Trained weights from an exported float32 model and its decoder, which contain them without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from asr._core import CALIBRATION
from asr.recipe import network_config
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_session import ModelError, read_properties
from asr.tokenizer import Tokenizer
from asr.training.pretrained import CheckpointError, Pretrained

BUNDLED = Path(__file__).parents[1] / "models" / "tiny.onnx"
"""The bundled encoder."""
SETTINGS = ("default_chunk_size", "default_left_context", "rescore_ctc_weight", "language", *CALIBRATION)
"""Fields of the metadata that do not follow from the weights."""


def load_exported(path: Path) -> Pretrained:
    """The weights of the float32 .onnx file at `path` and of the decoder beside it, as `asr export` writes them.

    Raises CheckpointError with the name of the file if one is damaged, missing or quantized, or if the tokens need more
    than their spelling.
    """
    beside = decoder_beside(path)
    try:
        data, decoder = path.read_bytes(), beside.read_bytes()
        metadata = ModelMetadata.from_properties(read_properties(data, str(path)))
        read_properties(decoder, str(beside))
    except OSError as error:
        raise CheckpointError(f"cannot read weights {error.filename}: {error.strerror or error}") from error
    except (ModelError, MetadataError) as error:
        raise CheckpointError(f"{path} is not an asr-stream model, or it is damaged: {error}") from error
    if metadata.quantization != "none":
        raise CheckpointError(
            f"{path} has weights in {metadata.quantization}, which are only for inference: take the float32 file, the "
            ".safetensors file or the checkpoint that it was exported from"
        )
    try:
        config = network_config(metadata.config)
        tokenizer = Tokenizer(config.tokenizer.kind, metadata.tokens)
        weights = _tensors(onnx.load_from_string(data), "model.") | _tensors(onnx.load_from_string(decoder), "")
        loaded = Pretrained(config, tokenizer, weights, metadata.training, metadata.license)
        loaded.check()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} has no weights for training: {error}; take the .safetensors file or the checkpoint that it was "
            "exported from"
        ) from error
    return loaded


def kept_settings(source: str | Path) -> dict[str, Any]:
    """The `SETTINGS` of an .onnx file of `load_exported`, or of "bundled"; empty for other weights, which have none.

    Raises OSError, ModelError or MetadataError if the file cannot be read.
    """
    path = BUNDLED if str(source) == "bundled" else Path(source)
    if path.suffix != ".onnx" or path.is_dir():
        return {}
    metadata = ModelMetadata.from_properties(read_properties(path.read_bytes(), str(path)))
    return {name: getattr(metadata, name) for name in SETTINGS}


def _tensors(model: onnx.ModelProto, prefix: str) -> dict[str, Tensor]:
    """The weights of a graph under their PyTorch names.

    The export adds `prefix`, `.T` where it transposes a matrix, and `_half` where it stores float16. Other constants of
    the graph have no such names.
    """
    found = {}
    for constant in model.graph.initializer:
        name = constant.name.removesuffix("_half")
        if not name.startswith(prefix) or "." not in name:
            continue
        value = torch.from_numpy(numpy_helper.to_array(constant).copy()).float()
        found[name.removeprefix(prefix).removesuffix(".T")] = value.T.contiguous() if name.endswith(".T") else value
    return found
