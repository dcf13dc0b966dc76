"""Writes a model file: graphs, metadata, parity gate, and an atomic replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch

from asr._core import DECODER_TYPE, DECODER_VERSION, checksum
from asr.config import Config
from asr.export.graph import ExportError, decoder_graph, decoder_rows, output_path, state_rows, step_graph
from asr.export.parity import CASES, Case, FloatArray, ParityReport, check_parity, step_through, whole_lengths
from asr.export.quantize import SMALLEST, halve, quantize
from asr.export.ranges import ranges_in_layers
from asr.files import replacing
from asr.model.model import AsrModel
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_decoder import OnnxDecoder, decoder_beside
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.onnx_session import ModelError
from asr.training.pretrained import Pretrained


@dataclass(frozen=True)
class ExportReport:
    """The written file and its difference from PyTorch."""

    path: Path
    size: int
    """Bytes of the file."""
    decoder_path: Path
    decoder_size: int
    num_nodes: int
    """Nodes of the step graph."""
    parity: ParityReport


def export_model(
    pretrained: Pretrained,
    path: str | Path,
    *,
    int8: bool = False,
    chunk_size: int | None = None,
    left_context: int | None = None,
    rescore_ctc_weight: float | None = None,
    license: str = "",
    language: str = "",
    kept: Mapping[str, Any] = MappingProxyType({}),
    on_progress: Callable[[str], object] = lambda stage: None,
) -> ExportReport:
    """Writes `pretrained` as one .onnx file with everything an app needs, and its attention decoder beside it as
    NAME.decoder.onnx, which some searches use.

    Args:
        path: replaced atomically, like the decoder, and only if both new files pass the parity gate.
        int8: quantize the matrix products (see asr.export.quantize).
        chunk_size, left_context: defaults of the file, in encoder frames; other values work at run time.
        rescore_ctc_weight: see asr.runtime.metadata.ModelMetadata.
        license: of the weights, SPDX; that of `pretrained` if empty.
        language: language of the model, a BCP 47 code such as "en"; empty: not stated.
        kept: fields of ModelMetadata, for what the arguments before do not state: see
            asr.training.exported.kept_settings.
        on_progress: called with a description of the next stage.
    Raises ExportError if the model cannot be exported or differs from PyTorch; OSError from writing.
    """
    output: Path = output_path(path)
    model = in_half_precision(pretrained.model())
    stated = {
        "default_chunk_size": chunk_size,
        "default_left_context": left_context,
        "rescore_ctc_weight": rescore_ctc_weight,
        "language": language or None,
    }
    settings = {**kept, **{name: value for name, value in stated.items() if value is not None}}
    metadata = describe(pretrained, states=state_rows(model), license=license or pretrained.license, **settings)
    on_progress("tracing the encoder")
    graph = step_graph(model)
    on_progress("tracing the decoder")
    decoder = decoder_graph(model)
    decoder_output = decoder_beside(output)
    with replacing(decoder_output, durable=True) as decoder_part, replacing(output, durable=True) as part:
        on_progress("comparing the float32 file with PyTorch")
        # The float graph is checked first, because int8 rounding hides small faults of a graph.
        parity = _write_and_check(model, metadata, (graph, part), (decoder, decoder_part))
        if int8:
            on_progress("quantizing, and comparing the int8 file with PyTorch")
            ranges = ranges_in_layers(graph, model, partial(_run, model), CASES[0])
            graph, metadata = quantize(graph, ranges, smallest=SMALLEST), replace(metadata, quantization="int8")
            parity = _write_and_check(model, metadata, (graph, part), (quantize(decoder), decoder_part))
        sizes = part.stat().st_size, decoder_part.stat().st_size
        return ExportReport(output, sizes[0], decoder_output, sizes[1], len(graph.graph.node), parity)


def _run(model: AsrModel, session: Any, features: FloatArray, case: Case) -> None:
    """Steps a session of the step graph of `model` through features (N, T, 80)."""

    names = [value.name for value in session.get_inputs()]

    def step(chunk: FloatArray, num_valid: npt.NDArray[np.int64], cache: Sequence[npt.NDArray]) -> Sequence[Any]:
        inputs = dict(zip(names, (chunk, num_valid, *cache), strict=True))
        log_probs, encoder_out, *rest = session.run(None, inputs)
        return log_probs, encoder_out, rest[: len(cache)], None

    cache = [tensor.numpy() for tensor in model.encoder.init_cache(len(features), case.left_context)]
    step_through(step, cache, features, whole_lengths(features), case)


def _write_and_check(
    model: AsrModel,
    metadata: ModelMetadata,
    encoder: tuple[onnx.ModelProto, Path],
    decoder: tuple[onnx.ModelProto, Path],
) -> ParityReport:
    """Writes both graphs and opens the files as an app would."""
    of_decoder = {
        "model_type": DECODER_TYPE,
        "format_version": str(DECODER_VERSION),
        "tokens": "\n".join(metadata.tokens),
        "dim": str(metadata.dim),
        "states": "\n".join(decoder_rows(model)),
        "license": metadata.license,
    }
    _write(*encoder, metadata.to_properties())
    _write(*decoder, of_decoder)
    try:
        return check_parity(model, OnnxModel(encoder[1]), OnnxDecoder(decoder[1]))
    except (ModelError, MetadataError) as error:
        raise ExportError(f"the exported file cannot be used: {error}") from error


def _write(graph: onnx.ModelProto, path: Path, properties: dict[str, str]) -> None:
    halved = halve(graph)
    onnx.helper.set_model_props(halved, properties)
    path.write_bytes(with_checksum(halved))


def with_checksum(model: onnx.ModelProto) -> bytes:
    """The bytes of a model file: the checksum, followed by the data that it covers."""
    without = onnx.ModelProto()
    without.CopyFrom(model)
    kept = [entry for entry in model.metadata_props if entry.key != "checksum"]
    del without.metadata_props[:]
    without.metadata_props.extend(kept)
    data = without.SerializeToString(deterministic=True)
    first = onnx.StringStringEntryProto(key="checksum", value=f"{checksum(data):016x}")
    return onnx.ModelProto(metadata_props=[first]).SerializeToString() + data


@torch.no_grad()
def in_half_precision(model: AsrModel) -> AsrModel:
    """Rounds the matrices of `model` to float16 values, so that storing them as float16 is lossless."""

    for parameter in model.parameters():
        half = parameter.half().float()
        if parameter.dim() >= 2 and half.isfinite().all():
            parameter.copy_(half)
    return model


def without_folders(config: Config) -> Config:
    """The configuration with file names instead of paths, because the folders of the training machine are irrelevant to
    users."""
    data, train = config.data, config.train
    train_sets, valid_sets, noise = (
        tuple(Path(path).name for path in paths) for paths in (data.train, data.valid, data.noise)
    )
    rooms, lexicon = Path(data.rooms).name, Path(data.lexicon).name
    return replace(
        config,
        data=replace(data, train=train_sets, valid=valid_sets, noise=noise, rooms=rooms, lexicon=lexicon),
        train=replace(train, output=Path(train.output).name, init=Path(train.init).name),
    )


def describe(pretrained: Pretrained, **settings: Any) -> ModelMetadata:
    """The metadata of a model file; `settings` are fields of ModelMetadata."""
    model_config = pretrained.model_config
    return ModelMetadata(
        tokens=tuple(pretrained.tokenizer.tokens),
        phones=model_config.phones,
        num_layers=model_config.encoder_layers,
        dim=model_config.dim,
        cmvn_mean=tuple(pretrained.weights["encoder.mean"].tolist()),
        cmvn_std=tuple((1.0 / pretrained.weights["encoder.inverse_std"]).tolist()),
        config=without_folders(pretrained.config).to_dict(),
        training=pretrained.training,
        **settings,
    )
