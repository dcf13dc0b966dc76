"""The table of options (csrc/options.h) in Python, the command line, C and the generated files."""

from __future__ import annotations

import argparse
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.c_build import build
from support.c_library import CLibrary, CSettings
from write_options import COMMAND, ROOT, WRITTEN, camel_case

from asr import Recognizer, _core, config, features, tokenizer
from asr.options import OPTIONS, flag
from asr.runtime import metadata
from asr.runtime.search import LmWeights, decode, decode_words
from asr.streaming.server.cli import new_parser as server_parser
from asr.streaming.terminal.options import add_recognition_options


def other_value(name: str) -> Any:
    """A value that is allowed and is not the default."""
    option = OPTIONS[name]
    if option.type == "flag":
        return not option.default
    if option.type == "list":
        return "one\ntwo"
    if option.type == "choice":
        return next(choice for choice in option.choices if choice != option.default)
    step = 40 if option.type == "milliseconds" else 1 if option.type == "integer" else 0.25
    return option.default + step if option.default + step <= option.high else option.default - step


def wrong_values(name: str) -> list[Any]:
    option = OPTIONS[name]
    if option.type == "flag":
        return [1, "true"]
    if option.type == "choice":
        return ["best", "", 0]
    if option.type == "list":
        return [1, True, ["one"]]
    below = math.nextafter(option.low, -math.inf) if option.with_low else option.low
    values: list[Any] = [below, math.nan, "1", True]
    values += [] if math.isinf(option.high) else [option.high * 1.001]
    return values + ([option.default + 0.5] if isinstance(option.default, int) else [])


@pytest.mark.parametrize("name", OPTIONS)
def test_python_takes_an_option(name: str) -> None:
    option, value = OPTIONS[name], other_value(name)
    assert getattr(_core.Options(**{name: value}), name) == value
    assert getattr(_core.Options(**{name: None}), name) == (None if option.of_model else option.default)
    for wrong in wrong_values(name):
        with pytest.raises(ValueError, match=rf"^{name} is .*; it must be {re.escape(option.allowed)}$"):
            _core.Options(**{name: wrong})
    if option.type not in ("flag", "choice", "list"):
        for limit in (option.high, option.low if option.with_low else np.nextafter(option.low, 1)):
            assert getattr(_core.Options(**{name: limit}), name) == limit
    assert f"    {name}: {option.doc}" in (Recognizer.__doc__ or "")


@pytest.mark.parametrize("name", OPTIONS)
def test_the_command_line_takes_an_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser, value = argparse.ArgumentParser(), other_value(name)
    add_recognition_options(parser)
    assert getattr(parser.parse_args([]), name) is None
    written = [flag(name), str(value)]
    if isinstance(value, bool):
        written = [flag(name if value else f"no_{name}")]
    assert getattr(parser.parse_args(written), name) == value
    assert OPTIONS[name].doc in " ".join(parser.format_help().split())
    if OPTIONS[name].type not in ("flag", "choice", "list"):
        with pytest.raises(SystemExit):
            parser.parse_args([flag(name), "-1000"])
        assert f"{flag(name)} is -1000; it must be {OPTIONS[name].allowed}" in capsys.readouterr().err


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.slow
def test_c_library_takes_options_by_name(name: str) -> None:
    library = CLibrary(build() / "libasr_stream.so")
    option, value = OPTIONS[name], other_value(name)
    settings = CSettings(library)
    default = settings.get(name)
    shown = str(option.default).lower() if option.type in ("flag", "choice") else f"{option.default}".removesuffix(".0")
    assert default == (None if option.of_model or option.default is None else shown)
    settings.set(name, value)
    assert settings.get(name) == (str(value).lower() if option.type == "flag" else f"{value}".removesuffix(".0"))
    others = set(OPTIONS) - {name}
    assert {each: settings.get(each) for each in others} == {each: CSettings(library).get(each) for each in others}
    settings.set(name, None)
    assert settings.get(name) == default


@pytest.mark.parametrize("name", OPTIONS)
def test_the_types_of_javascript_have_an_option(name: str) -> None:
    """js/tests/recognizer.test.mjs tests that the core in JavaScript accepts it."""
    types = (ROOT / "js" / "src" / "index.d.ts").read_text()
    kind = {"flag": "boolean", "choice": ".*", "list": r"string\[\]"}.get(OPTIONS[name].type, "number")
    assert re.search(rf"^  {camel_case(name)}\?: {kind};$", types, re.MULTILINE)


@pytest.mark.parametrize("name", WRITTEN)
def test_files_written_from_the_table_are_current(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert WRITTEN[name](text) == text, f"run {COMMAND}"


def test_what_is_written_depends_on_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"name": "beam_size", "doc": "other", "type": "number", "allowed": "in (0, 1]", "choices": ()}
    monkeypatch.setitem(OPTIONS, "beam_size", SimpleNamespace(**words, default=0.5, of_model=False))  # type: ignore[arg-type]
    for name, update in WRITTEN.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert update(text) != text, name


def test_file_without_defaults_has_those_of_the_table() -> None:
    of_file = {field.name: field.default for field in fields(metadata.ModelMetadata)}
    assert of_file["default_chunk_size"] * _core.ENCODER_FRAME_MS == OPTIONS["chunk_ms"].default
    assert of_file["default_left_context"] * _core.ENCODER_FRAME_MS == OPTIONS["left_context_ms"].default
    assert of_file["rescore_ctc_weight"] == OPTIONS["rescore_ctc_weight"].default
    named = _core.CALIBRATION["lm_weights"]
    assert of_file["lm_weights"] == tuple(OPTIONS[name].default for name in named)
    of_model = {"chunk_ms", "left_context_ms", "rescore_ctc_weight", *named}
    assert {name for name, option in OPTIONS.items() if option.of_model} == of_model


@pytest.mark.parametrize("function", [decode, decode_words])
def test_whole_utterances_are_decoded_with_the_defaults(function: Callable[..., object]) -> None:
    parameters = inspect.signature(function).parameters
    assert parameters["ctc_weight"].default == OPTIONS["rescore_ctc_weight"].default
    assert parameters["beam_size"].default == OPTIONS["beam_size"].default
    for name, default in vars(LmWeights()).items():
        assert default == OPTIONS[f"lm_{name}"].default


def test_the_sample_rates_are_the_same_everywhere() -> None:
    limits = f"[{_core.MIN_SAMPLE_RATE}, {_core.MAX_SAMPLE_RATE}]"
    for path in (
        "csrc/include/asr_stream/asr_stream.h",
        "js/src/index.d.ts",
        "streaming/stream.py",
        "docs/reference/options.md",
    ):
        assert limits in (ROOT / path).read_text(), path
    header = (ROOT / "csrc" / "include" / "asr_stream" / "asr_stream.h").read_text()
    assert f"#define ASR_SAMPLE_RATE {_core.SAMPLE_RATE}\n" in header


def test_constants_of_python_equal_those_of_the_core() -> None:
    for name in ("SAMPLE_RATE", "NUM_MEL_BINS", "SUBSAMPLING", "FEATURE_OVERLAP", "ENCODER_FRAME_MS"):
        assert getattr(features, name) == getattr(_core, name), name
    assert metadata.FORMAT_VERSION == _core.FORMAT_VERSION
    assert config.MAX_PHONES == _core.MAX_PHONES
    special = tokenizer.BLANK_ID, tokenizer.UNK_ID, tokenizer.SOS_EOS_ID
    assert special == (_core.BLANK_ID, _core.UNK_ID, _core.SOS_EOS_ID)


def test_a_server_has_no_alternatives_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Clients that show them ask for them."""
    with pytest.raises(SystemExit):
        server_parser().parse_args(["--max-alternatives", "2"])
    assert "unrecognized arguments: --max-alternatives" in capsys.readouterr().err
    assert server_parser().parse_args([]).max_alternatives is None
