"""The arena of caches: a stream's numbers are those of a cache of its own, whoever shares its batches and rows.

On the CPU the same graphs run bound to memory as on a GPU; only where that memory lies differs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.recognition import finals, recognize

from asr import Recognizer
from asr.runtime.cache_arena import FIRST_ROWS, CacheArena, Row, _gather_graph, _num_rows, _scatter_graph
from asr.runtime.onnx_model import Cache, ModelError, OnnxModel, bundled_model
from asr.streaming.stream import Stream
from asr.streaming.work import compute

CHUNK, LEFT_CONTEXT = 4, 9
NUM_FEATURES = 4 * CHUNK + 3


@pytest.fixture
def model(tiny_onnx: Path) -> OnnxModel:
    return OnnxModel(tiny_onnx, arena=True)


def _chunks(rng: np.random.Generator, number: int) -> np.ndarray:
    return rng.normal(-9, 3, (number, NUM_FEATURES, 80)).astype(np.float32)


def _arena(model: OnnxModel) -> CacheArena:
    row = model.begin(LEFT_CONTEXT)
    assert isinstance(row, Row)
    return row.arena


def test_streams_that_come_and_go_are_as_if_each_were_alone(model: OnnxModel) -> None:
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    caches: list[Cache] = []
    num_seen = 0
    for _ in range(60):
        for _ in range(rng.integers(0, 3)):  # beyond FIRST_ROWS, so that the arena grows with streams under way
            row = model.begin(LEFT_CONTEXT)
            assert isinstance(row, Row)
            rows.append(row)
            caches.append(model.init_cache(1, LEFT_CONTEXT))
        num_seen = max(num_seen, len(rows))
        if rows and rng.random() < 0.3:
            gone = rng.integers(len(rows))
            del rows[gone], caches[gone]
        chosen = rng.permutation(len(rows))[: rng.integers(0, len(rows) + 1)]
        if not len(chosen):
            continue
        features = _chunks(rng, len(chosen))
        num_valid = np.full(len(chosen), NUM_FEATURES)
        log_probs, encoder_out, after, _ = model.step_streams(features, num_valid, [rows[i] for i in chosen])
        for place, index in enumerate(chosen):
            alone, encoded, caches[index], _ = model.step(features[place : place + 1], num_valid[:1], caches[index])
            np.testing.assert_allclose(log_probs[place], alone[0], atol=1e-5)
            np.testing.assert_allclose(encoder_out[place], encoded[0], atol=1e-5)
            assert after[place] is rows[index] and rows[index].num_frames == caches[index].num_frames[0]
    assert num_seen > FIRST_ROWS


def test_a_row_is_free_when_its_stream_is_gone(model: OnnxModel) -> None:
    arena = _arena(model)
    for _ in range(10):
        rows = [arena.begin() for _ in range(3 * FIRST_ROWS)]
        assert len({row.index for row in rows}) == len(rows) and 0 not in {row.index for row in rows}
        arena.step(_chunks(np.random.default_rng(0), len(rows)), np.full(len(rows), NUM_FEATURES), rows)
        del rows
    assert _num_rows(arena._rows) == 4 * FIRST_ROWS and len(arena._free) == 4 * FIRST_ROWS - 1


def test_a_write_touches_no_other_row(model: OnnxModel) -> None:
    arena = _arena(model)
    rows = [arena.begin() for _ in range(4)]
    features = _chunks(np.random.default_rng(0), 4)
    arena.step(features, np.full(4, NUM_FEATURES), rows)
    place = arena._rows[0].data_ptr()
    before = arena._rows[0].numpy().copy()
    arena.step(features[:2], np.full(2, NUM_FEATURES), rows[1:3])
    after = arena._rows[0].numpy()
    changed = {index for index in range(FIRST_ROWS) if before[index].tobytes() != after[index].tobytes()}
    assert changed == {rows[1].index, rows[2].index} and arena._rows[0].data_ptr() == place


def test_threads_share_an_arena(model: OnnxModel, onnx: OnnxModel) -> None:
    def run(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        past, cache = model.begin(LEFT_CONTEXT), onnx.init_cache(1, LEFT_CONTEXT)
        same = []
        for _ in range(20):
            features, num_valid = _chunks(rng, 1), np.array([NUM_FEATURES])
            found, _, (past,), _ = model.step_streams(features, num_valid, [past])
            wanted, _, cache, _ = onnx.step(features, num_valid, cache)
            same.append(np.allclose(found, wanted, atol=1e-5))
        return all(same)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(24)))


def run_together(streams: list[Stream]) -> None:
    while waiting := [segment for stream in streams if (segment := stream.pending())]:
        for kind in {segment.kind for segment in waiting}:
            compute([segment for segment in waiting if segment.kind == kind])


def test_second_passes_of_utterances_of_different_lengths_are_one_run(
    tiny_onnx: Path, conversation: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = OnnxModel(tiny_onnx, arena=True)
    options: dict[str, Any] = {"search": "greedy", "max_utterance_s": 60.0, "silence_after_speech_s": float("inf")}
    recognizer = Recognizer(model, **options)
    long = np.tile(conversation, -(-16000 * 40 // len(conversation)))
    audio = [conversation[: 16000 * 3], conversation[: 16000 * 3 + 9000], long[: 16000 * 33], long[: 16000 * 33 + 3000]]
    alone = Recognizer(OnnxModel(tiny_onnx), **options)
    runs: list[list[int]] = []
    step = model.step_streams

    def counted(features: np.ndarray, num_valid: np.ndarray, pasts: list[Row]) -> Any:
        if features.shape[1] > 67:
            runs.append([features.shape[1], *num_valid.tolist()])
        return step(features, num_valid, pasts)

    monkeypatch.setattr(model, "step_streams", counted)
    streams = [Stream(recognizer, deferred=True) for _ in audio]
    for stream, samples in zip(streams, audio, strict=True):
        stream.accept_waveform(samples)
    run_together(streams)
    for stream in streams:
        stream.finish()
    run_together(streams)
    for stream, samples in zip(streams, audio, strict=True):
        found, wanted = finals(stream.events()), finals(recognize(alone, samples))
        assert found == wanted != ""
    assert all((run[0] - 3) % 200 == 0 for run in runs) and any(len(run) == 3 and run[1] != run[2] for run in runs)
    assert [3003, 3003, 3003] in runs  # 30 s of two utterances, more of which follows


def test_in_int8_what_is_filled_up_does_not_count(sample: np.ndarray) -> None:
    found, wanted = (recognize(Recognizer(OnnxModel(bundled_model(), arena=arena)), sample) for arena in (True, False))
    assert found == wanted and finals(wanted) != ""


@pytest.mark.parametrize("left_context_ms", [2560, 0])
def test_text_does_not_depend_on_where_caches_lie(
    tiny_onnx: Path, conversation: np.ndarray, left_context_ms: int
) -> None:
    found, wanted = (
        recognize(Recognizer(OnnxModel(tiny_onnx, arena=arena), left_context_ms=left_context_ms), conversation)
        for arena in (True, False)
    )
    assert found == wanted and len(wanted) > 10


def test_a_failure_is_an_error_of_the_model(model: OnnxModel, monkeypatch: pytest.MonkeyPatch) -> None:
    row = model.begin(LEFT_CONTEXT)
    features = _chunks(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="num_valid"):
        model.step_streams(features, np.array([NUM_FEATURES + 1]), [row])

    def fail(*_: object) -> None:
        raise RuntimeError("CUDA failure 2: out of memory ; GPU=0")

    monkeypatch.setattr("asr.runtime.cache_arena._run", fail)
    with pytest.raises(ModelError, match="GPU cannot be used: CUDA failure 2: out of memory; "):
        model.step_streams(features, np.array([NUM_FEATURES]), [row])


def test_the_graphs_are_valid_onnx() -> None:
    for graph, operator in ((_gather_graph(), "Gather"), (_scatter_graph(), "ScatterND")):
        model = onnx.load_from_string(graph)
        onnx.checker.check_model(model, full_check=True)
        assert [node.op_type for node in model.graph.node] == [operator, operator]
