"""Model files for libasr_stream: damaged, hostile or unsupported files are rejected with one line."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support.c_library import LibraryError

from asr.export.write import with_checksum
from asr.runtime.onnx_decoder import decoder_beside

pytestmark = pytest.mark.usefixtures("nothing_printed")
INVALID, DAMAGED = 1, 3


def expect_damaged(library: Any, data: bytes, words: str = "") -> None:
    with pytest.raises(LibraryError) as caught:
        library.model(data)
    assert caught.value.status == DAMAGED and words in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) > 30


def edited(path: Path, **properties: str | None) -> bytes:
    """The file with other metadata; None removes a key."""
    proto = onnx_format.load(path)
    kept = {p.key: p.value for p in proto.metadata_props} | properties
    onnx_format.helper.set_model_props(proto, {key: value for key, value in kept.items() if value is not None})
    return with_checksum(proto)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"model_type": None}, "model_type is missing"),
        ({"format_version": "5"}, "format_version is '5'; this release reads 1"),
        ({"dim": None}, "key dim is missing"),
        ({"dim": "128"}, "another size of encoder_out than its metadata"),
        (
            {"states": "state_keys_values float32 N,25,C,16\nstate_num_frames int64 N"},
            "another size of state_keys_values",
        ),
        ({"states": "key_cache float32 N,C"}, "its graph takes x, num_valid, state_keys_values"),
        ({"lm_weights": "11,0,0,0"}, "it must be a calibration: lm_weights: lm_weight must be in [0, 10]"),
        ({"tokens": "a\nb\nc\nd"}, "another size of log_probs than its metadata"),
        ({"window": "hann\x01\xff"}, "key window is 'hann"),
    ],
)
def test_damaged_metadata_is_named(library: Any, tiny_onnx: Path, properties: dict[str, Any], words: str) -> None:
    expect_damaged(library, edited(tiny_onnx, **properties), words)


def test_a_damaged_decoder_is_named(library: Any, tiny_onnx: Path) -> None:
    for decoder, words in (
        (b"AAAA", "the decoder: it ends 5 bytes early, or is damaged"),
        (edited(decoder_beside(tiny_onnx), states="key_cache float32 N,N"), "at most one of them N"),
        (edited(decoder_beside(tiny_onnx), states=""), "the decoder is not an asr-stream model: its graph takes"),
    ):
        with pytest.raises(LibraryError, match=words) as caught:
            library.model(tiny_onnx, decoder=decoder)
        assert caught.value.status == DAMAGED


def test_states_of_another_type_end_the_search_with_the_decoder(
    library: Any, tiny_onnx: Path, sample: np.ndarray
) -> None:
    """The search takes rows of them before the graph sees them again."""
    proto = onnx_format.load(decoder_beside(tiny_onnx))
    for output in proto.graph.output:
        if output.name.startswith("new_"):
            before = f"{output.name}_before"
            for node in proto.graph.node:
                for names in (node.input, node.output):
                    names[:] = [before if name == output.name else name for name in names]
            to = onnx_format.TensorProto.INT8
            proto.graph.node.append(onnx_format.helper.make_node("Cast", [before], [output.name], to=to))
            output.type.tensor_type.elem_type = to
    finals = {}
    for search in ("joint", "beam"):
        stream = library.model(tiny_onnx, decoder=with_checksum(proto)).stream(search=search)
        stream.accept_waveform(np.tile(sample, 2))
        stream.finish()
        finals[search] = [event.text for event in stream.events() if event.type == "final"]
    assert finals["joint"] == finals["beam"] and finals["beam"]


def test_a_model_without_decoder_does_not_rescore(library: Any, tiny_onnx: Path, sample: np.ndarray) -> None:
    model = library.model(tiny_onnx, decoder=None)
    with pytest.raises(LibraryError, match=r"search joint needs the decoder: .*\.decoder\.onnx") as caught:
        model.stream(search="joint")
    assert caught.value.status == INVALID
    texts = set()
    for search in ("rescore", "beam"):
        stream = model.stream(search=search)
        stream.accept_waveform(sample)
        stream.finish()
        texts.add(tuple(event.text for event in stream.events()))
    assert len(texts) == 1
    other = edited(decoder_beside(tiny_onnx), tokens="\n".join(map(chr, range(65, 92))))
    with pytest.raises(LibraryError, match=r"the decoder belongs to another model: it has 27 tokens") as caught:
        library.model(tiny_onnx, decoder=other).stream()
    assert caught.value.status == INVALID


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def test_another_graph_is_refused_and_its_session_released(library: Any, tiny_onnx: Path) -> None:
    proto = onnx_format.load(tiny_onnx)
    proto.graph.input[0].name = "audio"
    for node in proto.graph.node:
        node.input[:] = ["audio" if name == "x" else name for name in node.input]
    data, before = with_checksum(proto), 0.0
    for i in range(26):  # each one is a session of ONNX Runtime with 2 MB
        expect_damaged(library, data, "is not an asr-stream model: its graph takes audio, num_valid,")
        before = before if i > 5 else resident_mb()
    assert resident_mb() - before < 15
    proto = onnx_format.load(tiny_onnx)
    proto.opset_import[0].version = 9999
    expect_damaged(
        library, with_checksum(proto), "its opset is 9999, and that of this format is 18; get the file again"
    )


def test_weights_in_another_file_are_refused(library: Any, tiny_onnx: Path, tmp_path: Path) -> None:
    target = tmp_path / "external.onnx"
    onnx_format.save(onnx_format.load(tiny_onnx), target, save_as_external_data=True, size_threshold=0)
    with pytest.raises(LibraryError, match="its weights lie in another file") as caught:
        library.model(target)
    assert caught.value.status == DAMAGED
