"""No input can harm libasr_stream: it is refused with a status and a sentence, or logged."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support import c_library
from support.export import edited

from asr.export.write import with_checksum
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_model import bundled_model
from asr.runtime.punctuation import bundled_punctuation
from asr.streaming.events import Error, Final

pytestmark = pytest.mark.usefixtures("nothing_printed")
INVALID, UNREADABLE, DAMAGED, UNAVAILABLE, BUSY, FINISHED, FAILED = 1, 2, 3, 4, 6, 7, 8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chunk_ms": 50}, "chunk_ms is 50; it must be a multiple of 40 in [40, 5120]"),
        ({"search": "4"}, "search is '4'; it must be one of greedy, beam, rescore, joint"),
        ({"second_pass": 2}, "second_pass is '2'"),
        ({"beam_size": 1025}, "beam_size is 1025; it must be a whole number in [1, 1024]"),
        ({"max_utterance_s": float("nan")}, "max_utterance_s is 'nan'"),
        ({"search": "greedy"}, "greedy takes no language model"),
        ({"phrases": "R2"}, "phrase 'R2' cannot be written by this model: it has no '2'"),
        ({"hotwords": ""}, "the list of hotwords has no words"),
        ({"phrases": "\n"}, "the list of phrases has no phrase"),
        ({"phrases": "A", "hotwords": "A"}, "phrases are a grammar, which takes no hotwords"),
        ({"sample_rate": 999}, "sample_rate is 999; it must be a whole number of Hz in [1000, 768000]"),
    ],
)
def test_stream_options_outside_their_range(bundled_in_c: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(c_library.LibraryError) as caught:
        bundled_in_c.stream(**options)
    assert caught.value.status == INVALID and words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"num_threads": -1}, INVALID, "num_threads is '-1'; it must be a whole number in [0, 1024]"),
        ({"lm": "/nowhere/x.lm"}, UNREADABLE, "there is no file /nowhere/x.lm"),
        ({"lm": "/tmp"}, UNREADABLE, "/tmp is a folder; name a file in it"),
        ({"lm": "/dev/null"}, UNREADABLE, "/dev/null is a pipe or a device; name a file"),
        ({"lm": b"ASRNGRAM"}, DAMAGED, "ends within its version"),
        ({"lm": b""}, DAMAGED, "the language model is empty"),
        ({"punctuation": "/nowhere/x.onnx"}, UNREADABLE, "there is no file /nowhere/x.onnx"),
        ({"punctuation": b""}, DAMAGED, "the model for punctuation is empty"),
        ({"punctuation": BUNDLED}, DAMAGED, "english.lm: "),
        ({"punctuation": bundled_model()}, DAMAGED, "it is not a model for punctuation"),
        ({"onnxruntime": "/nowhere/libonnxruntime.so"}, UNAVAILABLE, "/nowhere/libonnxruntime.so: cannot open"),
        ({"onnxruntime": "libm.so.6"}, UNAVAILABLE, "libm.so.6 is not ONNX Runtime"),
    ],
)
def test_model_options_outside_their_range(
    library: Any, tiny_onnx: Path, options: dict[str, Any], status: int, words: str
) -> None:
    with pytest.raises(c_library.LibraryError) as caught:
        library.model(tiny_onnx, **options)
    assert caught.value.status == status and words in str(caught.value)


def test_a_newer_file_is_not_called_damaged(library: Any, tiny_onnx: Path, tmp_path: Path) -> None:
    proto = onnx_format.load(tiny_onnx)
    proto.ir_version = 99
    (tmp_path / "new.onnx").write_bytes(with_checksum(proto))
    with pytest.raises(c_library.LibraryError, match=r"new\.onnx needs a newer ONNX Runtime than ONNX R") as caught:
        library.model(tmp_path / "new.onnx")
    assert caught.value.status == UNAVAILABLE


def test_use_is_logged_and_a_second_user_refused(library: Any, tiny_onnx: Path) -> None:
    lines: list[tuple[int, str]] = []
    statuses = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def log(user_data: int, level: int, text: bytes) -> None:
        lines.append((level, text.decode()))
        if "finished" in lines[-1][1]:  # reported while the stream is in use
            statuses.append(library.c.asr_stream_finish(stream.handle))

    model = library.model(tiny_onnx, log=log)
    assert lines[-1][0] == 1 and "opened with ONNX Runtime" in lines[-1][1]
    stream = model.stream()
    stream.finish()
    with pytest.raises(c_library.LibraryError):
        stream.gap(1)
    assert statuses == [BUSY] and lines[-1] == (0, "this stream is finished; take a new one")
    with pytest.raises(c_library.LibraryError):
        library.model(b"", log=log)
    assert lines[-1][0] == 0


@pytest.mark.parametrize("lm", [None, BUNDLED])
def test_phones_without_language_model_are_reported_once(library: Any, lm: Path | None) -> None:
    lines: list[str] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def log(user_data: int, level: int, text: bytes) -> None:
        lines.append(text.decode())

    model = library.model(bundled_model(), log=log, lm=lm)
    assert ["without a language model" in line for line in lines] == ([False] if lm else [True, False])
    spelled = [] if lm else ["the model is used without a language model"]
    warnings = model.stream(hotwords="Theodolite\nR2\n").warnings
    assert [warning.split(":")[0] for warning in warnings] == [*spelled, "hotword line 'R2'"]
    if lm is None:
        assert model.stream(search="greedy").warnings == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("hotwords", "Bertie:nan"),
        ("hotwords", "Star Trek: Voyager"),
        ("hotwords", "R2"),
        ("replace", "no arrow"),
        ("own_commands", "no arrow"),
    ],
)
def test_one_odd_line_never_refuses_a_list(bundled_in_c: Any, name: str, line: str) -> None:
    """Nor does it end a stream that changes its lists."""
    stream = bundled_in_c.stream(**{name: line})
    (warning,) = [text for text in stream.warnings if "language model" not in text]
    assert f"line '{line}'" in warning


def test_unused_punctuation_is_a_warning(library: Any, tiny_onnx: Path, tmp_path: Path) -> None:
    french = edited(tiny_onnx, tmp_path / "french.onnx", language="fr")
    for path, unused in ((french, 1), (tiny_onnx, 0)):
        warnings = library.model(path, punctuation=bundled_punctuation()).stream().warnings
        assert len(warnings) == unused and all("case and punctuation is not used" in each for each in warnings)


def test_a_decoder_that_forgets_hypotheses_fails(library: Any, tiny_onnx: Path, sample: np.ndarray) -> None:
    """Its cache keeps one row, while the search goes on with others."""
    decoder = onnx_format.load(decoder_beside(tiny_onnx))
    node = next(node for node in decoder.graph.node if "new_key_cache" in node.output)
    node.output[list(node.output).index("new_key_cache")] = "all_keys"
    for name, value in (("zero", 0), ("one", 1)):
        decoder.graph.initializer.append(onnx_format.numpy_helper.from_array(np.array([value]), name))
    decoder.graph.node.append(onnx_format.helper.make_node("Slice", ["all_keys", "zero", "one"], ["new_key_cache"]))
    stream = library.model(tiny_onnx, decoder=with_checksum(decoder)).stream(search="joint")
    stream.accept_waveform(sample)
    stream.finish()
    events = stream.events()
    assert isinstance(events[-1], Final) and events[-1].text
    (error,) = [event.text for event in events if isinstance(event, Error)]
    assert error.startswith("the decoder failed, and recognition goes on without it: the network gave a state of")
