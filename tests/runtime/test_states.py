"""The states of the encoder are opaque: a block with its own state runs in every runtime without changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import TOKENS
from onnx import load
from support.export import edited
from support.recognition import recognize
from torch import Tensor, nn

from asr import Recognizer
from asr._core import StateTensor
from asr.config import Config, TokenizerConfig
from asr.export import write
from asr.export.graph import ExportError, state_rows
from asr.export.parity import Case, speech_like, step_onnx, step_torch
from asr.export.sherpa import export_sherpa, zipformer_graph
from asr.export.write import export_model
from asr.features import FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.model.encoder import Encoder, EncoderCache
from asr.model.masks import length_mask
from asr.model.model import AsrModel
from asr.runtime.inspect import summary
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_model import ModelError, OnnxModel
from asr.streaming import Final
from asr.tokenizer import Tokenizer
from asr.training.pretrained import Pretrained


class MeanCache(NamedTuple):
    """The cache of the encoder, and the mean of the features so far."""

    keys_values: Tensor
    num_frames: Tensor
    mean: Tensor
    """(80, N) float32: the batch is not its first axis"""
    count: Tensor
    """(N,) int64, number of feature frames in the mean"""


class MeanEncoder(Encoder):
    """Subtracts a fraction of the mean of all features up to the end of the chunk."""

    def init_cache(self, batch_size: int, left_context: int) -> Any:
        cache = super().init_cache(batch_size, left_context)
        return MeanCache(*cache, torch.zeros(NUM_MEL_BINS, batch_size), torch.zeros(batch_size, dtype=torch.int64))

    def step(self, head: nn.Module, features: Tensor, num_valid: Tensor, cache: Any) -> tuple[Tensor, list[Tensor]]:
        num_new = features.shape[1] - FEATURE_OVERLAP  # the next chunk begins with the others
        valid = length_mask(num_valid.clamp(max=num_new), features.shape[1])[:, :, None]
        mean = cache.mean.transpose(0, 1)
        count = cache.count + valid.sum((1, 2))
        change = torch.where(valid, features - mean[:, None], 0.0).sum(1)
        mean = mean + change / count.clamp(min=1)[:, None]
        rows, qkv = super().step(head, features - 0.1 * mean[:, None], num_valid, cache)
        return rows, [*qkv, mean, count]

    def next_cache(self, cache: Any, num_valid: Tensor, qkv: Sequence[Tensor]) -> Any:
        *qkv, mean, count = qkv
        past = EncoderCache(cache.keys_values, cache.num_frames)
        return MeanCache(*super().next_cache(past, num_valid, qkv), mean.transpose(0, 1), count)


class MeanPretrained(Pretrained):
    """Weights of a model whose encoder is a `MeanEncoder`."""

    def model(self) -> AsrModel:
        model = super().model()
        model.encoder.__class__ = MeanEncoder
        return model


@pytest.fixture(scope="module")
def pretrained(tiny_model: AsrModel) -> Pretrained:
    config = Config(model=tiny_model.config, tokenizer=TokenizerConfig(kind="char"))
    return MeanPretrained(config, Tokenizer("char", TOKENS), tiny_model.state_dict())


@pytest.fixture(scope="module")
def exported(pretrained: Pretrained, onnx: OnnxModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mean") / "mean.onnx"
    decoder = load(decoder_beside(onnx.path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "decoder_graph", lambda _: decoder)
        report = export_model(pretrained, path)  # through the parity gate
    assert report.parity.max_error < 1e-3
    return path


def test_a_new_state_is_declared(exported: Path) -> None:
    model = OnnxModel(exported)
    rows = ("state_keys_values float32 N,24,C,16", "state_num_frames int64 N")
    assert model.metadata.states == (*rows, "state_mean float32 80,N", "state_count int64 N")
    assert "state_mean (80, N) float" in summary(model, None)
    assert [array.shape for array in model.init_cache(5, 7)] == [(5, 24, 7, 16), (5,), (80, 5), (5,)]


def test_new_state_is_carried_between_steps(exported: Path, pretrained: Pretrained) -> None:
    model, case = OnnxModel(exported), Case(3, 4, 9, 50)
    features, num_frames = speech_like(pretrained.model(), case, seed=8)
    expected, cache = step_torch(pretrained.model(), features, num_frames, case)
    found, onnx_cache = step_onnx(model, features, num_frames, case)
    assert expected[0][0].shape == found[0][0].shape
    np.testing.assert_allclose(onnx_cache[2], cache[2], rtol=0, atol=1e-3)
    assert onnx_cache[3].tolist() == cache[3].tolist() == [min(n, SUBSAMPLING * 4 * 50) for n in num_frames]
    assert abs(onnx_cache[3]).min() > 1
    # Without it, the next step gives a different result.
    chunk, num_valid = features[:, :19], np.full(3, 19)
    forgotten = (*onnx_cache[:2], *model.init_cache(3, 9)[2:])
    a, b = (model.step(chunk, num_valid, each).log_probs for each in (onnx_cache, forgotten))
    assert abs(a - b).max() > 1e-3


def test_streams_of_a_batch_keep_their_own_state(exported: Path) -> None:
    """Gathers and scatters the states as the server does."""
    model, random = OnnxModel(exported), np.random.default_rng(3)
    streams, alone = [model.init_cache(1, 8) for _ in range(3)], [model.init_cache(1, 8) for _ in range(3)]
    for _ in range(5):
        x = random.normal(-9, 3, (3, 35, 80)).astype(np.float32)
        order = random.permutation(3)
        together = model.step(x[order], np.full(3, 35), model.encoder.stacked([streams[stream] for stream in order]))
        for place, cache in enumerate(model.encoder.split(together.cache, 3)):
            streams[order[place]] = cache
        for stream in range(3):
            alone[stream] = model.step(x[stream : stream + 1], np.array([35]), alone[stream]).cache
    for one, other in zip(streams, alone, strict=True):
        assert [array.shape for array in one] == [array.shape for array in other]
        for a, b in zip(one, other, strict=True):
            assert a.base is None
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


def test_python_and_c_recognize_with_a_new_state(
    exported: Path, tiny_onnx: Path, conversation: np.ndarray, library: Any
) -> None:
    for second_pass in (False, True):
        options = {"chunk_ms": 320, "search": "greedy", "second_pass": second_pass, "text": "plain"}
        expected = recognize(Recognizer(exported, punctuation=None, **options), conversation)
        assert sum(len(event.words) for event in expected if isinstance(event, Final)) > 10
        assert expected != recognize(Recognizer(tiny_onnx, punctuation=None, **options), conversation)
        stream = library.model(exported, punctuation=None).stream(**options)
        stream.accept_waveform(conversation)
        stream.finish()
        assert stream.events() == expected


def test_contract_with_fixed_states_refuses_a_new_one(pretrained: Pretrained) -> None:
    with pytest.raises(
        ExportError, match="has the states keys_values, num_frames, mean, count; sherpa-onnx carries only"
    ):
        zipformer_graph(pretrained.model(), 4, 8)


def test_sherpa_onnx_carries_a_running_mean(tiny_model: AsrModel, tmp_path: Path) -> None:
    """The export compares fifty chunks with PyTorch."""
    torch.manual_seed(5)
    model = AsrModel(replace(tiny_model.config, encoder_layers=1, running_mean=True)).eval()
    for weight in (model.encoder.speaker.to_features.weight, model.encoder.speaker.to_layers.weight):
        weight.data = 0.02 * torch.randn(weight.shape)
    (file,) = export_sherpa(model, TOKENS, tmp_path / "sherpa")
    assert file.max_error < 1e-3


def test_states_that_no_file_can_hold_are_refused(pretrained: Pretrained) -> None:
    class Odd(NamedTuple):
        flags: Tensor

    model = pretrained.model()
    for make, words in (
        (lambda n: torch.zeros(n, dtype=torch.bool), "state flags .*float32 or int64"),
        (lambda n: torch.zeros(3), "no batch axis"),
    ):
        model.encoder.init_cache = lambda n, left, make=make: Odd(make(n))  # type: ignore[assignment]
        with pytest.raises(ExportError, match=words):
            state_rows(model)


def test_a_row_of_states_is_read() -> None:
    state = StateTensor("state_keys float32 N,6,C,192")
    assert (state.name, state.dtype, state.sizes, state.batch_axis) == ("state_keys", "float32", ["N", 6, "C", 192], 0)
    assert state.shape(3, 64) == (3, 6, 64, 192)
    assert StateTensor("count int64 2,N").batch_axis == 1
    sizes = ("N,N", "N,-1", "N,0", "N,", "N,T", "N,2000000")
    for row in ("", "a float32", "a float16 N", "é int64 N", *(f"a float32 {each}" for each in sizes)):
        with pytest.raises(ValueError, match="is not a state: it must be a name, float32 or int64"):
            StateTensor(row)
    with pytest.raises(ValueError, match="up to eight sizes"):
        StateTensor("a float32 N" + ",2" * 8)


def test_states_that_contradict_the_graph_are_refused(exported: Path, tmp_path: Path) -> None:
    states = "\n".join(OnnxModel(exported).metadata.states).replace("80,N", "81,N")
    with pytest.raises(ModelError, match=r"odd\.onnx is damaged: its state_mean .*\[81, "):
        OnnxModel(edited(exported, tmp_path / "odd.onnx", states=states))
