"""Defaults and ranges are those of csrc/contract.h wherever they are written: Python, command line, C header,
JavaScript types, docs. And so are the sizes that both Python and C++ need before the core is loaded."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from asr import Recognizer, _core, config, features, tokenizer
from asr._core import OPTION_RANGES
from asr.runtime import metadata
from asr.runtime.search import LmWeights, decode, decode_words
from asr.streaming.terminal.arguments import new_parser
from asr.streaming.terminal.options import add_recognition_options

ROOT = Path(__file__).parent.parent
OF_THE_FILE = ("chunk_ms", "left_context_ms", "rescore_ctc_weight")


def interval(name: str) -> str:
    low, with_low, high, _ = OPTION_RANGES[name]
    return f"{'[' if with_low else '('}{low:g}, {high:g}]"


def camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def test_python_has_the_defaults() -> None:
    defaults = {field.name: field.default for field in fields(Recognizer)}
    weights = LmWeights()
    for name, (_, _, _, default) in OPTION_RANGES.items():
        if name in OF_THE_FILE:
            assert defaults.get(name) is None
        elif name.startswith("lm_"):
            assert getattr(weights, name.removeprefix("lm_")) == default, name
        else:
            assert defaults[name] == pytest.approx(default, rel=1e-7), name
    frames = {"chunk_ms": "default_chunk_size", "left_context_ms": "default_left_context"}
    of_file = {field.name: field.default for field in fields(metadata.ModelMetadata)}
    for name, field in frames.items():
        assert of_file[field] * _core.ENCODER_FRAME_MS == OPTION_RANGES[name][3]
    assert of_file["rescore_ctc_weight"] == OPTION_RANGES["rescore_ctc_weight"][3]


@pytest.mark.parametrize("name", OPTION_RANGES)
def test_the_core_keeps_to_the_ranges(name: str) -> None:
    low, with_low, high, default = OPTION_RANGES[name]
    for value in (default, high, low if with_low else np.nextafter(low, 1)):
        _core.check_option(name, value)
    outside = [np.nextafter(low, -np.inf) if with_low else low, np.nan]
    if np.isfinite(high):
        outside.append(high * 1.001)
    for value in outside:
        with pytest.raises(ValueError, match=rf"^{name} is .*; it must be in {re.escape(interval(name))}$"):
            _core.check_option(name, value)


@pytest.mark.parametrize("function", [decode, decode_words])
def test_whole_utterances_are_rescored_with_the_default_weight(function: Callable[..., object]) -> None:
    default = inspect.signature(function).parameters["ctc_weight"].default
    assert default == OPTION_RANGES["rescore_ctc_weight"][3]


def test_the_core_is_called_with_the_same_defaults() -> None:
    stub = (ROOT / "asr" / "_core.pyi").read_text()
    fusion = [(_core.LmFusion, option) for option in OPTION_RANGES if option.startswith("lm_")]
    endpointer = [(_core.Endpointer, option) for option in OPTION_RANGES if option.endswith("_s")]
    for kind, option in (*fusion, *endpointer, (_core.CtcPrefixBeamSearch, "beam_size")):
        name, default = option.removeprefix("lm_"), OPTION_RANGES[option][3]
        declared = stub[stub.index(f"class {kind.__name__}:") :]
        for signature in (kind.__init__.__doc__ or "", declared):
            found = re.search(rf"\b{name}: [^=,]+ = ([-0-9.]+)", signature)
            assert found and float(found[1]) == pytest.approx(default), signature[:500]


def test_the_command_line_has_them() -> None:
    parser = argparse.ArgumentParser()
    add_recognition_options(parser)
    args = parser.parse_args([])
    for name, option, scale in (
        ("beam_size", "beam", 1),
        ("max_utterance_s", "max_utterance_s", 1),
        ("silence_after_speech_s", "endpoint_silence_ms", 1000),
        ("min_silence_after_speech_s", "min_endpoint_silence_ms", 1000),
    ):
        assert getattr(args, option) in (None, OPTION_RANGES[name][3] * scale)
    assert args.chunk_ms is None and args.left_context_ms is None  # the model file's
    text = " ".join(parser.format_help().split())
    for name, option, scale in (
        ("chunk_ms", "--chunk-ms", 1),
        ("left_context_ms", "--left-context-ms", 1),
        ("beam_size", "--beam", 1),
        ("max_utterance_s", "--max-utterance-s", 1),
        ("silence_after_speech_s", "--endpoint-silence-ms", 1000),
        ("min_silence_after_speech_s", "--min-endpoint-silence-ms", 1000),
    ):
        described = text[text.index(f"{option} ", text.index("recognition")) :]
        assert re.search(rf"\b{OPTION_RANGES[name][3] * scale:g}\b", described[: described.index(")") + 1]), option


@pytest.mark.parametrize("name", [name for name in OPTION_RANGES if name != "rescore_ctc_weight"])
def test_the_c_header_has_them(name: str) -> None:
    header = (ROOT / "csrc" / "include" / "asr_stream" / "asr_stream.h").read_text()
    found = re.search(rf"\n  (?:int32_t|float|double) {name};\s+/\*(.*?)\*/", header, re.DOTALL)
    assert found, name
    comment = " ".join(found[1].split())
    low, _, high, default = OPTION_RANGES[name]
    limits = interval(name) if np.isfinite(high) else f"> {low:g}, INFINITY"
    if name == "silence_without_speech_s":
        limits = "the same"
    assert limits in comment
    assert re.search(rf"(?<![\d.-]){re.escape(f'{default:g}')}(?![\d.])", comment), comment


@pytest.mark.parametrize("name", [name for name in OPTION_RANGES if name != "rescore_ctc_weight"])
def test_the_types_of_javascript_have_them(name: str) -> None:
    types = (ROOT / "js" / "src" / "index.d.ts").read_text()
    key = camel_case(name.removeprefix("lm_")) if name.startswith("lm_") else camel_case(name)
    found = re.search(rf"/\*\*((?:(?!\*/).)*)\*/\s+{key}\?: number;", types, re.DOTALL)
    assert found, key
    comment = re.sub(r"\s*\*?\s+", " ", found[1])
    low, _, high, default = OPTION_RANGES[name]
    limits = f"{low:g} to {high:g}" if name.startswith("lm_") else interval(name) if np.isfinite(high) else ""
    assert limits in comment
    assert re.search(rf"(?<![\d.-]){re.escape(f'{default:g}')}(?![\d.]\d)", comment), comment


def test_the_sample_rates_are_the_same_everywhere() -> None:
    limits = f"[{_core.MIN_SAMPLE_RATE}, {_core.MAX_SAMPLE_RATE}]"
    for path in ("csrc/include/asr_stream/asr_stream.h", "js/src/index.d.ts", "streaming/stream.py", "docs/options.md"):
        assert limits in (ROOT / path).read_text(), path
    header = (ROOT / "csrc" / "include" / "asr_stream" / "asr_stream.h").read_text()
    assert f"#define ASR_SAMPLE_RATE {_core.SAMPLE_RATE}\n" in header


def test_the_table_in_the_docs_has_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", (ROOT / "docs" / "options.md").read_text(), re.MULTILINE)
    assert [name for name, _, _ in rows] == list(OPTION_RANGES)
    for name, limits, default in rows:
        assert limits.startswith(interval(name)), name
        of_file = "the model file's, as a rule " if name in OF_THE_FILE else ""
        assert default == f"{of_file}{OPTION_RANGES[name][3]:g}", name


def test_the_table_of_the_command_line_names_its_options() -> None:
    options = set(re.findall(r"^\| `(--[\w-]+)` \|", (ROOT / "docs" / "live.md").read_text(), re.MULTILINE))
    assert len(options) > 10
    assert options <= {name for action in new_parser()._actions for name in action.option_strings}


def test_what_python_states_before_the_core_is_loaded_is_the_same() -> None:
    for name in ("SAMPLE_RATE", "NUM_MEL_BINS", "SUBSAMPLING", "FEATURE_OVERLAP", "ENCODER_FRAME_MS"):
        assert getattr(features, name) == getattr(_core, name), name
    assert metadata.FORMAT_VERSION == _core.FORMAT_VERSION
    assert config.MAX_PHONES == _core.MAX_PHONES
    special = tokenizer.BLANK_ID, tokenizer.UNK_ID, tokenizer.SOS_EOS_ID
    assert special == (_core.BLANK_ID, _core.UNK_ID, _core.SOS_EOS_ID)
