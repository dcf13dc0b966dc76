"""Fixtures for export tests: a small random checkpoint, its graphs, and the files exported from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from conftest import TOKENS, shared_folder
from filelock import FileLock

from asr.config import Config, DataConfig, ModelConfig, TokenizerConfig
from support.phones import PHONES

if TYPE_CHECKING:
    import onnx

    from asr.training.checkpoint import Checkpoint

TRACED = ("step_graph", "decoder_graph")
"""The functions of asr.export.write that trace a model, which takes 10 s each."""
SMALL = ModelConfig(
    dim=32,
    num_heads=2,
    encoder_layers=2,
    encoder_ff_dim=64,
    decoder_layers=2,
    decoder_ff_dim=64,
    subsampling_channels=4,
    vocab_size=len(TOKENS),
    phones=PHONES,
)


def make_checkpoint(config: ModelConfig = SMALL) -> Checkpoint:
    """A seeded random model; all weights that are initialized to zero or one are changed."""
    import torch

    from asr.model.model import AsrModel
    from asr.tokenizer import Tokenizer
    from asr.training.checkpoint import Checkpoint

    torch.manual_seed(5)
    model = AsrModel(config)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.encoder.set_cmvn(torch.linspace(-11, -7, 80), torch.linspace(2, 4, 80))
    average = model.state_dict()
    weights = {name: torch.zeros_like(value) for name, value in average.items()}  # must not be exported
    training = {
        "step": 7,
        "audio_hours": 1.25,
        "history": [{"step": 5, "name": "PER", "values": {"full": 0.5, "640ms": 0.625}}],
    }
    everything = Config(model=config, tokenizer=TokenizerConfig("char"), data=DataConfig(train=("data/some",)))
    return Checkpoint(everything, Tokenizer("char", TOKENS), weights, average, training)


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    return make_checkpoint()


@pytest.fixture(scope="session")
def traced(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], onnx.ModelProto]:
    """Fresh copies of the graphs of `checkpoint`, by the name of the function that makes them. Tracing takes seconds,
    so it is done once for all pytest-xdist processes."""
    import onnx
    import torch

    from asr.export.graph import decoder_graph, step_graph
    from asr.export.write import in_half_precision

    folder = shared_folder(tmp_path_factory) / "traced"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            model, part = in_half_precision(checkpoint.pretrained().model()), tmp_path_factory.mktemp("traced")
            with patch.object(torch.export, "export", wraps=torch.export.export) as trace:
                for make in (step_graph, decoder_graph):
                    onnx.save(make(model), part / make.__name__)
            assert trace.call_count == 2  # if one way to trace fails, the exporter silently tries the next one
            part.rename(folder)
    return lambda name: onnx.load(folder / name)


@pytest.fixture
def quick(traced: Callable[[str], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    reuse(traced, monkeypatch)


def reuse(traced: Callable[[str], onnx.ModelProto], patch: pytest.MonkeyPatch) -> None:
    """Lets `export_model` take the graphs that were traced already: for the same weights of those parts."""
    from asr.export import write

    for name in TRACED:
        patch.setattr(write, name, lambda model, name=name: traced(name))


def write(checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], path: Path, **options: Any) -> Path:
    """Exports `checkpoint` with traced graphs."""
    from asr.export.write import export_model

    with pytest.MonkeyPatch.context() as patch:
        reuse(traced, patch)
        export_model(checkpoint.pretrained(), path, **options)
    return path


@pytest.fixture(scope="session")
def exported(
    checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    options = {"chunk_size": 8, "left_context": 32, "rescore_ctc_weight": 0.25, "license": "CC-BY-4.0"}
    return write(checkpoint, traced, tmp_path_factory.mktemp("export") / "model.onnx", **options)


@pytest.fixture(scope="session")
def exported_phones(
    checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """With the defaults of `asr export`."""
    return write(checkpoint, traced, tmp_path_factory.mktemp("phones") / "phones.onnx", language="en")


@pytest.fixture(scope="session")
def exported_int8(
    checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return write(checkpoint, traced, tmp_path_factory.mktemp("int8") / "model.int8.onnx", int8=True)


def edited(source: Path, path: Path, **properties: str) -> Path:
    """`source` with other metadata."""
    import onnx

    from asr.export.write import with_checksum

    graph = onnx.load(source)
    for entry in graph.metadata_props:
        entry.value = properties.get(entry.key, entry.value)
    path.write_bytes(with_checksum(graph))
    return path
