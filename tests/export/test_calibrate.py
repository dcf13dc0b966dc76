"""`asr calibrate`: the calibration in a model file, and its effect on recognition."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_format
import pytest
from support.recognition import recognize

from asr import Recognizer
from asr._core import CALIBRATION
from asr.cli import main
from asr.runtime.onnx_model import OnnxModel
from asr.streaming import Final


@pytest.fixture
def copied(tiny_onnx: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(tiny_onnx.read_bytes())
    return path


def confidences(recognizer: Recognizer, samples: np.ndarray) -> list[float]:
    events = recognize(recognizer, samples)
    return [word.confidence for event in events if isinstance(event, Final) for word in event.raw_words]


def test_it_writes_rows_and_leaves_the_rest(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = OnnxModel(copied).metadata
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    options = [
        "--language",
        "de-CH",
        "--endpoint-without-punctuation",
        "0.3,0.1,0,0.3,1.5",
        "--lm-weights=0.5,-1,7,0.2",
    ]
    assert main(["calibrate", str(copied), *options]) == 0
    assert capsys.readouterr().out == f"{copied}: wrote endpoint_without_punctuation, lm_weights, language\n"
    after = OnnxModel(copied).metadata  # its checksum is correct
    assert (after.language, after.lm_weights) == ("de-CH", (0.5, -1.0, 7.0, 0.2))
    assert after.endpoint_without_punctuation == (0.3, 0.1, 0.0, 0.3, 1.5)
    changed = {"language", "lm_weights", "endpoint_without_punctuation"}
    old, new = before.to_properties(), after.to_properties()
    assert {key for key in old if old[key] != new[key]} == changed
    assert onnx_format.load(copied).metadata_props[0].key == "checksum"
    assert list(copied.parent.iterdir()) == [copied] and len(synced) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to write: give --language"),
        (["--language", "German"], "language is 'German', it must be a BCP 47 code, such as 'en' or 'de-CH', or empty"),
        (["--lm-weights", "0.5,0.5"], "lm_weights must be 4 numbers in [-1000, 1000] (lm_weight, lm_word_bonus, "),
        (["--lm-weights", "50,0,0,0"], "lm_weights: lm_weight must be in [0, 10]"),
        (
            ["--confidence-with-lm", "nan,1,1"],
            "confidence_with_lm is 'nan,1.0,1.0', it must be finite numbers separated by commas",
        ),
        (["--confidence-with-lm", "1,1e308,1"], "confidence_with_lm must be 3 numbers in [-1000, 1000] (bias, least, "),
    ],
)
def test_what_cannot_be_written_is_named(
    options: list[str], message: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copied.read_bytes()
    assert main(["calibrate", str(copied), *options]) == 1
    err = capsys.readouterr().err
    assert err.startswith("asr calibrate: ") and message in err and "get the file again" not in err
    assert copied.read_bytes() == data


def test_confidences_are_the_files(copied: Path, conversation: np.ndarray, library: Any) -> None:
    options: dict[str, Any] = {"search": "greedy", "text": "plain", "second_pass": False}
    before = confidences(Recognizer(copied, **options), conversation)
    assert len(before) > 10 and len(set(before)) > 1
    assert main(["calibrate", str(copied), "--confidence-without-lm", "1.5,0,0"]) == 0
    after = confidences(Recognizer(copied, **options), conversation)
    assert after == [pytest.approx(1 / (1 + math.exp(-1.5)))] * len(before)
    stream = library.model(copied).stream(**options)
    stream.accept_waveform(conversation)
    stream.finish()
    events = stream.events()
    assert [w.confidence for e in events if isinstance(e, Final) for w in e.raw_words] == after


def test_endpoints_and_weights_are_the_files(copied: Path, conversation: np.ndarray) -> None:
    def silences() -> list[float]:
        recognizer = Recognizer(copied, search="greedy", second_pass=False, punctuation=None)
        return [event.end for event in recognize(recognizer, conversation) if isinstance(event, Final)]

    before = silences()
    assert Recognizer(copied).lm_weight == CALIBRATION["lm_weights"]["lm_weight"]
    patient = ["--endpoint-without-punctuation", "1.9,0,0,0,0", "--lm-weights", "0.25,0,0,0"]
    assert main(["calibrate", str(copied), *patient]) == 0
    assert len(silences()) < len(before)  # pauses of 1.5 s no longer end an utterance
    assert Recognizer(copied).lm_weight == 0.25
    assert Recognizer(copied, lm_weight=0.5).lm_weight == 0.5


def test_new_files_have_the_bundled_numbers(copied: Path) -> None:
    for key, numbers in CALIBRATION.items():
        assert getattr(OnnxModel(copied).metadata, key) == tuple(numbers.values())
