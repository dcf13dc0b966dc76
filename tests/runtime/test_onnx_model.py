"""The model file as used by apps: metadata, hostile files, wrong arrays, threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.export import edited

from asr._core import CALIBRATION, checksum
from asr.cores import num_cores
from asr.export.write import with_checksum
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_decoder import OnnxDecoder, decoder_beside, decoder_of
from asr.runtime.onnx_model import ModelError, OnnxModel, bundled_model
from asr.runtime.onnx_session import open_session

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
metadata = st.builds(
    ModelMetadata,
    tokens=st.lists(names, min_size=4, max_size=12, unique=True).map(tuple),
    num_layers=st.integers(1, 99),
    dim=st.integers(1, 4096),
    default_chunk_size=st.integers(1, 128),
    default_left_context=st.integers(0, 512),
    rescore_ctc_weight=st.floats(0, 1),
    quantization=st.sampled_from(["none", "int8"]),
    license=st.text(max_size=12),
    cmvn_mean=st.just(()) | st.lists(finite, min_size=80, max_size=80).map(tuple),
    cmvn_std=st.just(()) | st.lists(finite, min_size=80, max_size=80).map(tuple),
    config=st.dictionaries(st.text(max_size=5), json_values, max_size=4),
    training=st.dictionaries(st.text(max_size=5), json_values, max_size=4),
)
CHECKSUM_SIZE = 30
"""Bytes of a file before those that its checksum covers; its digits are the last 16."""
PLAIN = ModelMetadata(tokens=("<blk>", "<unk>", "<sos/eos>", "A"), num_layers=2, dim=8)


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> OnnxModel:
    return OnnxModel(tiny_onnx)


def test_a_session_does_not_keep_the_file(tiny_onnx: Path) -> None:
    data = tiny_onnx.read_bytes()
    before = sys.getrefcount(data)
    session = open_session(data, "it", "cpu", 1)
    assert session.get_inputs() and sys.getrefcount(data) == before


@given(metadata)
def test_metadata_survives_the_file(meta: ModelMetadata) -> None:
    properties = meta.to_properties()
    assert all(type(key) is str and type(value) is str for key, value in properties.items())
    assert ModelMetadata.from_properties(properties | {"another tool's key": "left alone"}) == meta


@pytest.mark.parametrize("key", sorted(PLAIN.to_properties().keys() - set(CALIBRATION)))
def test_a_missing_key_is_named(key: str) -> None:
    properties = PLAIN.to_properties()
    del properties[key]
    with pytest.raises(MetadataError, match=rf"{key}.*asr export"):
        ModelMetadata.from_properties(properties)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "zipformer2"),
        ("format_version", "5"),
        ("dim", "wide"),
        ("dim", "0"),
        ("states", "state_keys"),
        ("language", "English"),
        ("language", "e"),
        ("confidence_with_lm", "1,2"),
        ("confidence_with_lm", "1,2,1001"),
        ("lm_weights", "0.9;0;0;0"),
        ("lm_weights", "11,0,0,0"),
        ("states", "state_keys float64 N,2,C,8"),
        ("states", "state_keys float32 2,C,8"),
        ("states", "state_keys float32 N,0"),
        ("states", "state_keys float32 N,2\nstate_keys float32 N,3"),
        ("num_layers", ""),
        ("snip_edges", "False"),
        ("dither", "nan"),
        ("tokens", ""),
        ("tokens", "<blk>\n<unk>\n<sos/eos>\nA\nA"),
        ("tokens", "<blk>\n<unk>\n<sos/eos>\nA\n"),
        ("cmvn_mean", "1.0,2.0"),
        ("cmvn_std", "1.0;2.0"),
        ("config", "[]"),
        ("config", "{"),
        ("config", "[" * 100_000),
        ("quantization", "int3"),
        ("rescore_ctc_weight", "1.5"),
        ("default_left_context", "-1"),
        ("default_left_context", "513"),
        ("default_chunk_size", "129"),
    ],
)
def test_a_damaged_key_is_named(key: str, value: str) -> None:
    with pytest.raises(MetadataError, match=rf"{key}.*(asr export|update)"):
        ModelMetadata.from_properties(PLAIN.to_properties() | {key: value})


def test_a_foreign_graph_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "foreign", [value], [out])
    foreign = tmp_path / "foreign.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    foreign.write_bytes(with_checksum(model))
    with pytest.raises(
        ModelError, match=r"foreign\.onnx: metadata key model_type is None.* is not an asr-stream model"
    ):
        OnnxModel(foreign)
    helper.set_model_props(model, OnnxModel(tiny_onnx).metadata.to_properties())
    foreign.write_bytes(with_checksum(model))
    with pytest.raises(ModelError, match=r"foreign\.onnx is not an asr-stream model: its graph takes x and gives y"):
        OnnxModel(foreign)


def test_output_unknown_to_the_format_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.onnx"
    model = onnx.load(tiny_onnx)
    assert not OnnxModel(tiny_onnx).metadata.phones
    model.graph.node.append(helper.make_node("Identity", ["log_probs"], ["phone_log_probs"]))
    model.graph.output.append(helper.make_tensor_value_info("phone_log_probs", onnx.TensorProto.FLOAT, ["N", "T", "V"]))
    odd.write_bytes(with_checksum(model))
    with pytest.raises(
        ModelError, match=r"odd\.onnx is not an asr-stream model: .* gives .*, phone_log_probs; expected"
    ):
        OnnxModel(odd)


def test_metadata_that_contradicts_the_graph_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"odd\.onnx is damaged: its encoder_out .* 9"):
        OnnxModel(edited(tiny_onnx, tmp_path / "odd.onnx", dim="9"))


def test_a_missing_damaged_or_other_decoder_is_named(tiny_onnx: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copy(tiny_onnx, tmp_path / "odd.onnx"))
    with pytest.raises(ModelError, match=r"there is no decoder .*odd\.decoder\.onnx"):
        decoder_of(OnnxModel(copied))
    whole, beside = decoder_beside(tiny_onnx), decoder_beside(copied)
    beside.write_bytes(whole.read_bytes()[:-9])
    with pytest.raises(ModelError, match=r"odd\.decoder\.onnx is damaged"):
        decoder_of(OnnxModel(copied))
    for changes in ({"dim": "9"}, {"tokens": "A\nB\nC\nD"}):
        edited(whole, beside, **changes)
        with pytest.raises(ModelError):
            decoder_of(OnnxModel(copied))
    with pytest.raises(MetadataError, match=r"odd\.onnx: it is not a decoder"):
        OnnxDecoder(copied)


def test_missing_files_folders_and_options_are_named(tiny_onnx: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="aaa cannot be read: File name too long"):
        OnnxModel(300 * "a")
    with pytest.raises(ModelError, match=r"no model file .*none\.onnx"):
        OnnxModel(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="no model file"):
        OnnxModel(tmp_path)
    with pytest.raises(ModelError, match=r"'tpu'.*cpu, cuda"):
        OnnxModel(tiny_onnx, provider="tpu")
    with pytest.raises(ModelError, match="num_threads -1"):
        OnnxModel(tiny_onnx, num_threads=-1)
    with pytest.raises(ModelError, match=r"'huge'.*int8, float32"):
        bundled_model("huge")


def test_threads_are_not_pinned_to_cores() -> None:
    """A container may not use the cores that the library would choose."""
    allowed = os.sched_getaffinity(0)
    before = set(os.listdir("/proc/self/task"))
    model = OnnxModel(bundled_model("int8"), num_threads=0)
    started = set(os.listdir("/proc/self/task")) - before
    assert len(started) == num_cores() - 1 and model is not None
    assert all(os.sched_getaffinity(int(thread)) == allowed for thread in started)


def test_names_that_are_no_text_are_damage(tiny_onnx: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.onnx"
    data = tiny_onnx.read_bytes()
    content = data[CHECKSUM_SIZE:].replace(b"num_valid", b"num_val\xff\xfe")
    odd.write_bytes(data[: CHECKSUM_SIZE - 16] + f"{checksum(content):016x}".encode() + content)
    with pytest.raises(ModelError, match=r"odd\.onnx is damaged: .*can't decode byte 0xff"):
        OnnxModel(odd)


def test_a_missing_cuda_provider_names_what_to_install(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ModelError, match="pip install --force-reinstall --no-deps onnxruntime-gpu "):
        OnnxModel(tiny_onnx, provider="cuda")


def test_cuda_failure_does_not_fall_back_silently(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda *args, **_: start(*args, providers=["CPUExecutionProvider"])
    )
    with pytest.raises(ModelError, match="cuDNN"):
        OnnxModel(tiny_onnx, provider="cuda")


def test_cuda_libraries_of_pip_are_found_without_output(
    tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[str] = []

    def preload() -> None:
        print("Failed to load libcudnn.so.9")
        loaded.append("cuda")

    def start(*_: object, **__: object) -> None:
        loaded.append("session")
        raise RuntimeError("CUDA failure 100: no CUDA-capable device is detected ; GPU=-1")

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", preload)
    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    with pytest.raises(ModelError, match="no CUDA-capable device"):
        OnnxModel(tiny_onnx, provider="cuda")
    assert loaded == ["cuda", "session"] and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("said", ["std::bad_alloc", "Failed to allocate memory for requested buffer of size 1"])
def test_too_little_memory_is_not_blamed_on_the_file(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", Mock(side_effect=RuntimeError(f"Node x: {said}")))
    with pytest.raises(MemoryError, match="there is not enough memory for the network"):
        OnnxModel(bundled_model("int8"))


def test_an_old_runtime_is_not_blamed_on_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "model.cc:179 Model(Proto&&) Unsupported model IR version: 10, max supported IR version: 9"
    monkeypatch.setattr(onnxruntime, "InferenceSession", Mock(side_effect=RuntimeError(said)))
    monkeypatch.setattr(onnxruntime, "__version__", "1.17.3")
    with pytest.raises(ModelError, match=r"onnx needs a newer ONNX Runtime than 1\.17\.3: pip install -U onnxru"):
        OnnxModel(bundled_model("int8"))


def test_gpu_failure_is_not_blamed_on_the_file(tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "/onnxruntime_src/cuda_call.cc:154 void onnxruntime::CudaCall(int) [with ERRTYPE = cudaError] "
        "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=vm ; "
        "file=/onnxruntime_src/cuda_execution_provider.cc ; line=355 ; expr=cudaSetDevice(info_.device_id); "
    )

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    with pytest.raises(ModelError) as raised:
        OnnxModel(tiny_onnx, provider="cuda")
    assert str(raised.value) == (
        "the GPU cannot be used: CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version; "
        "see nvidia-smi, or use provider cpu"
    )


def _chunk(model: OnnxModel, num_frames: int = 19, seed: int = 0, batch_size: int = 1) -> np.ndarray:
    shape = (batch_size, num_frames, model.metadata.num_mel_bins)
    return np.random.default_rng(seed).normal(-9, 3, shape).astype(np.float32)


def test_step_returns_the_documented_shapes(model: OnnxModel) -> None:
    meta = model.metadata
    for batch_size, chunk, left_context in ((1, 1, 0), (2, 4, 9), (3, 16, 64)):
        cache = model.init_cache(batch_size, left_context)
        features = _chunk(model, 4 * chunk + 3, batch_size=batch_size)
        num_valid = np.full(batch_size, 4 * chunk + 3)
        log_probs, encoder_out, new, _ = model.step(features, num_valid, cache)
        assert log_probs.shape == (batch_size, chunk, meta.vocab_size) and log_probs.dtype == np.float32
        assert encoder_out.shape == (batch_size, chunk, meta.dim)
        assert [a.shape for a in new] == [a.shape for a in cache] and [a.dtype for a in new] == [a.dtype for a in cache]
        assert new[1].tolist() == [chunk] * batch_size
        np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, atol=1e-5)
        assert cache[1].tolist() == [0] * batch_size, "the old cache is a value and stays as it was"


def test_what_lies_beyond_num_valid_does_not_matter(model: OnnxModel) -> None:
    features, cache = _chunk(model), model.init_cache(1, 8)
    for number in (0, 3, 11):
        other = features.copy()
        other[0, number:] = np.nan
        a = model.step(features, np.array([number]), cache)
        b = model.step(other, np.array([number]), cache)
        assert a.cache[1].tolist() == [number // 4]
        assert np.array_equal(a[0][0, : number // 4], b[0][0, : number // 4])


def test_threads_share_one_model(model: OnnxModel) -> None:
    decoder = decoder_of(model)

    def stream(seed: int) -> np.ndarray:
        cache, out = model.init_cache(1, 16), []
        for index in range(10):
            log_probs, _, cache, _ = model.step(_chunk(model, seed=100 * seed + index), np.array([19]), cache)
            out.append(log_probs)
        scores = decoder.score([[4, 5], [6]], np.full((4, model.metadata.dim), seed / 8, np.float32))
        return np.concatenate([*(o.ravel() for o in out), scores])

    alone = [stream(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(stream, range(6)))
    for a, b in zip(alone, together, strict=True):
        assert np.array_equal(a, b)


def _wrong_calls() -> list[tuple[str, dict[str, object]]]:
    keys = np.zeros((1, 24, 8, 16), np.float32)
    count = np.zeros(1, np.int64)
    return [
        ("features are float64", {"features": np.zeros((1, 19, 80))}),
        (r"features are float32 of shape \(19, 80\)", {"features": np.zeros((19, 80), np.float32)}),
        (r"\(1, 18, 80\).*4c \+ 3", {"features": np.zeros((1, 18, 80), np.float32)}),
        (r"\(1, 3, 80\).*at least 1", {"features": np.zeros((1, 3, 80), np.float32)}),
        (r"\(N, 4c \+ 3, 80\)", {"features": np.zeros((1, 19, 40), np.float32)}),
        ("num_valid is int32", {"num_valid": np.array([19], np.int32)}),
        (r"num_valid is int64 of shape \(2,\)", {"num_valid": np.array([19, 19])}),
        (r"num_valid is \[20\]; expected 0 to 19", {"num_valid": np.array([20])}),
        (r"num_valid is \[-1\]", {"num_valid": np.array([-1])}),
        ("cache has shapes.*init_cache", {"cache": (keys[:, :2], count)}),
        ("cache has shapes", {"cache": (keys, np.zeros(2, np.int64))}),
        ("cache has shapes", {"cache": (keys[0], count)}),
        ("cache has shapes", {"cache": (keys, keys)}),
        ("cache has dtypes float64", {"cache": (keys.astype(np.float64), count)}),
    ]


@pytest.mark.parametrize(("message", "changes"), _wrong_calls())
def test_step_names_the_wrong_array(model: OnnxModel, message: str, changes: dict[str, object]) -> None:
    arguments = {"features": _chunk(model), "num_valid": np.array([19]), "cache": model.init_cache(1, 8)}
    model.step(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        model.step(**(arguments | changes))  # type: ignore[arg-type]


def test_score_checks_what_it_is_given(model: OnnxModel) -> None:
    decoder = decoder_of(model)
    dim = model.metadata.dim
    encoder_out = np.zeros((5, dim), np.float32)
    assert decoder.score([], encoder_out).shape == (0,)
    assert np.isfinite(decoder.score([[], [4]], encoder_out[:0])).all(), "an empty utterance has scores"
    assert decoder.score([[], []], encoder_out).tolist() == [decoder.score([[]], encoder_out)[0]] * 2
    with pytest.raises(ValueError, match=f"token id {model.metadata.vocab_size} is outside"):
        decoder.score([[4, model.metadata.vocab_size]], encoder_out)
    with pytest.raises(ValueError, match="token id -1"):
        decoder.score([[-1]], encoder_out)
    for wrong in (encoder_out[None], encoder_out[:, 1:], encoder_out.astype(np.float64)):
        with pytest.raises(ValueError, match=rf"expected float32 \(T, {dim}\)"):
            decoder.score([[4]], wrong)


def test_padding_of_hypotheses_does_not_change_their_scores(model: OnnxModel) -> None:
    decoder = decoder_of(model)
    encoder_out = np.random.default_rng(4).standard_normal((9, model.metadata.dim)).astype(np.float32)
    tokens = [[4], [5, 6, 7], list(range(4, 24)), []]
    together = decoder.score(tokens, encoder_out)
    alone = [float(decoder.score([row], encoder_out)[0]) for row in tokens]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4)


def test_init_cache_names_the_wrong_size(model: OnnxModel) -> None:
    for arguments in ((0, 4), (1, -1)):
        with pytest.raises(ValueError, match=f"batch_size {arguments[0]}.*left_context {arguments[1]}"):
            model.init_cache(*arguments)


def test_imports_nothing_heavy_before_a_model_opens() -> None:
    program = (
        "import sys, asr.runtime.onnx_model, asr.runtime.search\n"
        "heavy = {'torch', 'onnxruntime', 'onnx', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
