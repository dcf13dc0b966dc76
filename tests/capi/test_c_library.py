"""The results of libasr_stream are bit-identical to Python's."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support import c_library
from support.c_build import ROOT, build, run
from support.commas import write_punctuation
from support.recognition import random_cuts

from asr import Recognizer
from asr.export.write import with_checksum
from asr.lm.packed import BUNDLED
from asr.runtime.neural_lm import bundled_neural_lm
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import Word
from asr.streaming.events import Alternative, Error, Event, Final, Partial

pytestmark = pytest.mark.usefixtures("nothing_printed")

Script = list[Any]
"""The input of a stream: arrays of samples, and numbers of lost samples."""


def play(stream: Any, script: Script) -> list[Event]:
    events = []
    for step in script:
        if isinstance(step, int):
            stream.gap(step)
        else:
            stream.accept_waveform(step)
        events += stream.events()
    stream.finish()
    return events + stream.events()


def in_pieces(samples: np.ndarray, seed: int) -> Script:
    return list(np.split(samples, random_cuts(np.random.default_rng(seed), len(samples))))


# search, language model, second pass, chunk_ms
WAYS = [
    ("greedy", False, False, 160),
    ("beam", True, True, 640),
    ("rescore", True, False, 160),
    ("rescore", True, True, 640),
    ("joint", False, True, 640),
]


@pytest.mark.parametrize(("search", "use_lm", "second_pass", "chunk_ms"), WAYS)
def test_events_are_those_of_python(
    bundled_in_c: Any, conversation: np.ndarray, search: str, use_lm: bool, second_pass: bool, chunk_ms: int
) -> None:
    odd = conversation.copy()
    odd[70_000:70_003] = (np.nan, np.inf, -np.inf)
    integers = (conversation * 32767).astype(np.int16)
    seed = WAYS.index((search, use_lm, second_pass, chunk_ms))
    script = [
        *in_pieces(integers[:120_001], seed),
        4001,
        *in_pieces(odd[60_000:], seed + 100),
        1_000_000,
        np.zeros(8000, np.float32),
        *in_pieces(conversation[:50_000], seed + 200),
    ]
    options = {"search": search, "second_pass": second_pass, "chunk_ms": chunk_ms}
    recognizer = Recognizer(bundled_model(), lm=BUNDLED if use_lm else None, **options)
    stream, expected = bundled_in_c.stream(use_lm=use_lm, **options), recognizer.stream()
    events = play(stream, script)
    assert events == play(expected, script)
    assert stream.sample_offset == expected.sample_offset == sum(s if isinstance(s, int) else len(s) for s in script)
    assert {event.type for event in events} == {"partial", "final", "gap", "error"}
    assert sum(len(event.words) for event in events if isinstance(event, Final)) > 30


@pytest.mark.parametrize(
    "script",
    [
        [],
        [np.zeros(0, np.float32), np.zeros(0, np.int16)],
        [np.ones(1, np.float32)],
        [np.zeros(96_000, np.int16)],
        [0, 1, 1, np.full(300, 20_000, np.int16), 15_999, 8],
        [np.full(700, np.nan, np.float32), 5, np.full(16_000, np.inf, np.float32)],
    ],
    ids=["nothing", "empty", "one sample", "silence", "gaps", "not finite"],
)
def test_odd_audio_is_taken_as_in_python(bundled_in_c: Any, script: Script) -> None:
    expected = Recognizer(bundled_model(), lm=BUNDLED)
    assert play(bundled_in_c.stream(), script) == play(expected.stream(), script)


def test_an_event_is_also_json(bundled_in_c: Any, sample: np.ndarray) -> None:
    """With the same numbers as in Python, and text of any bytes."""
    settings = {"max_alternatives": 2, "replace": ['old -> "\\\\\\n\u20ac', "children -> scratch that"]}
    stream, expected = bundled_in_c.stream(**settings), Recognizer(lm=BUNDLED, **settings).stream()
    taken = []
    for each in (stream, expected):
        each.accept_waveform(sample)
        each.gap(1000)
        each.accept_waveform(np.full(100, np.nan, np.float32))
        each.finish()
    texts, events = stream.json_events(), expected.events()
    assert {event.type for event in events} == {"partial", "final", "gap", "error"}
    for text, event in zip(texts, events, strict=True):
        assert "\n" not in text
        taken.append(json.loads(text, parse_constant=pytest.fail))
        found = {name: value for name, value in taken[-1].items() if name not in ("words", "raw_words", "alternatives")}
        wanted = {"type": event.type, "text": event.text, "start": event.start, "end": event.end}
        if isinstance(event, Partial | Final):
            wanted["raw"] = event.raw
            assert words_of(taken[-1]["raw_words"]) == event.raw_words
        if isinstance(event, Partial):
            wanted["num_stable"] = event.num_stable
        if isinstance(event, Final):
            wanted["endpoint"] = event.endpoint
            others = [Alternative(o["text"], words_of(o["words"]), o["confidence"]) for o in taken[-1]["alternatives"]]
            assert tuple(others) == event.alternatives
        assert found == wanted
        assert words_of(taken[-1]["words"]) == event.words
    assert any('"\\\n\u20ac' in event["text"] for event in taken)
    assert any(event.get("alternatives") for event in taken)
    assert stream.json_events() == [] and not stream.events()


def words_of(rows: list[dict[str, Any]]) -> tuple[Word, ...]:
    return tuple(Word(**row) for row in rows)


@pytest.mark.parametrize("hotwords", [None, "Back\t3\nAb\n"])
def test_a_search_over_phones_is_that_of_python(
    library: Any, phone_model: tuple[Path, Path], conversation: np.ndarray, hotwords: str | None
) -> None:
    path, lm = phone_model
    recognizer = Recognizer(path, lm=lm, search="beam", hotwords=hotwords.splitlines() if hotwords else None)
    assert recognizer.fusion is not None and recognizer.fusion.over_phones
    model = library.model(path, lm=lm)
    given = {"hotwords": hotwords} if hotwords else {}
    events = play(model.stream(search="beam", **given), in_pieces(conversation, 7))
    assert events == play(recognizer.stream(), [conversation])
    words = {word.word.strip(",.?").upper() for event in events for word in event.words}
    assert words & {"A", "AB", "BACK", "B"}
    letters = play(model.stream(search="beam", use_lm=False), [conversation])
    assert letters == play(Recognizer(path, search="beam").stream(), [conversation]) != events


def test_defaults_of_a_model_file_hold_without_options(
    library: Any, file_with_defaults: Path, conversation: np.ndarray
) -> None:
    model, recognizer = library.model(file_with_defaults), Recognizer(file_with_defaults)
    events = play(model.stream(), [conversation])
    assert events == play(recognizer.stream(), [conversation])
    assert events == play(model.stream(chunk_ms=320, left_context_ms=640), [conversation])
    assert events != play(model.stream(chunk_ms=640, left_context_ms=2560), [conversation])


def test_model_and_language_model_are_read_from_memory(bundled_in_c: Any, sample: np.ndarray) -> None:
    path = bundled_neural_lm()
    assert path
    files = {"lm": BUNDLED.read_bytes(), "neural_lm": path.read_bytes()}
    again = bundled_in_c.library.model(bundled_model().read_bytes(), **files)
    assert play(again.stream(), [sample]) == play(bundled_in_c.stream(), [sample])


def test_spelled_finals_are_rescored_as_in_python(library: Any, sample: np.ndarray) -> None:
    model, rescored = library.model(bundled_model(), neural_lm=bundled_neural_lm()), []
    for search in ("beam", "joint"):
        recognizer = Recognizer(lm=None, neural_lm="bundled", search=search)
        events = play(model.stream(search=search), [sample])
        assert events == play(recognizer.stream(), [sample])
        others = play(model.stream(search=search, use_lm=False), [sample])
        assert others == play(recognizer.with_options(neural_lm=None).stream(), [sample])
        partials, former = ([e for e in found if e.type == "partial"] for found in (events, others))
        assert partials == former
        rescored.append(events != others)
    assert any(rescored)
    with pytest.raises(c_library.LibraryError, match="search greedy takes no neural language model"):
        model.stream(search="greedy")


def test_threads_share_a_model(bundled_in_c: Any, conversation: np.ndarray) -> None:
    expected = play(bundled_in_c.stream(chunk_ms=160), [conversation])
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(play, bundled_in_c.stream(chunk_ms=160), in_pieces(conversation, seed)) for seed in range(4)
        ]
    assert all(
        [e for e in run.result() if e.type == "final"] == [e for e in expected if e.type == "final"] for run in runs
    )


def test_only_the_api_is_exported() -> None:
    listed = (ROOT / "csrc/api/symbols.txt").read_text().split()
    header = (ROOT / "csrc/include/asr_stream/asr_stream.h").read_text()
    assert listed == sorted(re.findall(r"^ASR_API .*?(asr_\w+)\(", header, re.M))
    defined = run("nm", "-D", "--defined-only", str(build() / "libasr_stream.so"))
    assert [line.split()[2] for line in defined.splitlines()] == listed


def test_failing_punctuation_leaves_words_and_warns_once(library: Any, sample: np.ndarray, tmp_path: Path) -> None:
    """The network runs when it is opened but fails for other words, because of an index outside its table."""
    proto = onnx_format.load(str(write_punctuation(tmp_path / "commas.onnx")))
    ones = onnx_format.numpy_helper.from_array(np.zeros((3, 1), np.float32), "three")  # units of "so", no more, no less
    proto.graph.initializer.append(ones)
    node = next(node for node in proto.graph.node if node.output[0] == "mark_probs")
    node.output[0] = "all_mark_probs"
    proto.graph.node.append(onnx_format.helper.make_node("Add", ["all_mark_probs", "three"], ["mark_probs"]))
    data = with_checksum(proto)
    options = {"punctuation": data, "lm": BUNDLED}
    events = play(library.model(bundled_model(), **options).stream(), [sample])
    errors = [event.text for event in events if isinstance(event, Error)]
    assert len(errors) == 1 and "the network for case and punctuation failed, and recognition goes on" in errors[0]
    assert isinstance(events[-1], Final) and events[-1].text == events[-1].raw.lower() != ""
