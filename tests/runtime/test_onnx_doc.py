"""docs/reference/onnx.md: its recognizer writes the same words as ours, and its tables match the code."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile
from conftest import SAMPLE
from support.recognition import recognize
from support.synth import hum, speech

from asr import Recognizer
from asr._core import (
    DECODER_INPUTS,
    DECODER_OUTPUTS,
    DECODER_STEP_INPUT,
    DECODER_STEP_OUTPUT,
    ENCODER_INPUTS,
    ENCODER_OUTPUTS,
    PHONE_OUTPUT,
    Fbank,
)
from asr.export.graph import decoder_rows
from asr.model.model import AsrModel
from asr.runtime.metadata import FRONT_END, ModelMetadata
from asr.runtime.onnx_decoder import decoder_of, decoder_signature
from asr.runtime.onnx_model import OnnxModel, bundled_model, step_signature
from asr.streaming import Final

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "onnx.md").read_text(encoding="utf-8")
TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "tuple[str, ...]": "list of strings",
    "tuple[float, ...]": "list of numbers",
    "dict[str, Any]": "JSON object",
    "bytes": "base64",
}


def program() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return code


@pytest.fixture(scope="module")
def page() -> ModuleType:
    module = ModuleType("page")
    exec(program(), module.__dict__)
    return module


def features(samples: np.ndarray) -> np.ndarray:
    """Our features of float32 samples in ±1: (num_frames, 80) float32."""
    fbank = Fbank()
    fbank.accept_waveform(np.ascontiguousarray(samples, np.float32))
    fbank.input_finished()
    return fbank.get_frames(0, fbank.num_frames_ready)


def tables(header: str) -> list[list[list[str]]]:
    """Rows of cells of each table whose first heading is `header`."""
    found = re.findall(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [
        [[cell.strip(" `") for cell in row.strip("|").split(" | ")] for row in table.splitlines()] for table in found
    ]


def test_its_program_imports_nothing_of_ours() -> None:
    assert set(re.findall(r"^(?:import|from) (\w+)", program(), re.MULTILINE)) == {
        "os", "sys", "wave", "numpy", "onnxruntime"
    }  # fmt: skip


# In int8, a difference in the sixth digit of a feature can change the first digit of a log-probability and flip a near
# tie. So both get the same features.
@pytest.mark.parametrize("name", ["float32", "int8"])
def test_its_program_writes_our_words(
    name: str, page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "int8":
        monkeypatch.setattr(page, "fbank", features)
    recognizer = Recognizer(bundled_model(name), search="greedy", second_pass=False)
    pause = np.zeros(20000, np.float32)
    spoken = np.concatenate([speech("yes " * 30), pause, speech("good morning to all of you")])
    soundfile.write(tmp_path / "spoken.wav", spoken, 16000, subtype="PCM_16")
    for wav in (SAMPLE, tmp_path / "spoken.wav"):
        events = recognize(recognizer, soundfile.read(wav, dtype="int16")[0])
        text = " ".join(event.raw for event in events if isinstance(event, Final))
        assert len(text) > 30
        assert page.transcribe(str(bundled_model(name)), str(wav)) == text


def test_its_program_runs_as_documented() -> None:
    command = [sys.executable, "-c", program(), str(bundled_model()), str(SAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert len(done.stdout.split()) > 3 and done.stderr == ""


@pytest.mark.parametrize("num_samples", [0, 79, 80, 399, 16000, 50001])
def test_its_features_are_ours(num_samples: int, page: ModuleType) -> None:
    for samples in (hum(4.0)[:num_samples], np.zeros(num_samples, np.float32), speech("features")[:num_samples]):
        np.testing.assert_allclose(page.fbank(samples), features(samples), rtol=0, atol=1e-3)


def test_tables_of_inputs_and_outputs_match_the_code() -> None:
    model = OnnxModel(bundled_model())
    meta = replace(model.metadata, phones=("AA", "B", "K"))
    named = ("num_layers", "dim", "num_mel_bins", "vocab_size")
    sizes = {str(getattr(meta, name)): name for name in named}
    sizes[str(meta.num_phone_tokens)] = "1 + 2 x phones"
    assert len(sizes) == 5
    nodes = (step_signature(meta), decoder_signature(decoder_of(model).metadata))
    names = (
        (ENCODER_INPUTS, (*ENCODER_OUTPUTS, PHONE_OUTPUT)),
        ((*DECODER_INPUTS, DECODER_STEP_INPUT), (*DECODER_OUTPUTS, DECODER_STEP_OUTPUT)),
    )
    for direction, header in enumerate(("input", "output")):
        for number, table in enumerate(tables(header)):
            expected = []
            for name in names[number][direction]:
                kind, shape = nodes[number][direction][name]
                expected.append([name, kind[7:-1], ", ".join(sizes.get(str(size), str(size)) for size in shape)])
            assert [row[:3] for row in table if not row[0].endswith(("state_*", "state"))] == expected
        assert number == 1


def test_its_states_are_those_of_a_new_file(tiny_onnx: Path, tiny_model: AsrModel) -> None:
    meta = OnnxModel(tiny_onnx).metadata
    num_heads = tiny_model.config.num_heads
    listed = "\n".join(meta.states).replace(f" N,{meta.num_layers * 2 * num_heads},", " N,num_layers * 2 * num_heads,")
    listed = listed.replace(f",{meta.dim // num_heads}\n", ",dim / num_heads\n")
    assert f"```\n{listed}\n```" in PAGE
    listed = "\n".join(decoder_rows(tiny_model))
    layers = tiny_model.config.decoder_layers
    listed = listed.replace(f",{layers},", ",decoder_layers,").replace(f",{meta.dim}", ",dim")
    assert f"```\n{listed}\n```" in PAGE


def test_program_keeps_the_states_of_new_files(tiny_onnx: Path, page: ModuleType) -> None:
    recognizer = Recognizer(tiny_onnx, search="greedy", second_pass=False, punctuation=None, text="plain")
    events = recognize(recognizer, soundfile.read(SAMPLE, dtype="int16")[0])
    assert page.transcribe(str(tiny_onnx), str(SAMPLE)) == " ".join(e.raw for e in events if isinstance(e, Final))


def test_its_table_of_metadata_is_the_codes() -> None:
    properties = OnnxModel(bundled_model()).metadata.to_properties()
    (table,) = tables("key")
    kinds = {"model_type": "string", "format_version": "integer"} | {
        f.name: TYPES[str(f.type)] for f in fields(ModelMetadata)
    }
    kinds["checksum"] = "string"  # a field of the file, not of the metadata class
    assert [row[:2] for row in table] == [[key, kinds[key]] for key in (*properties, "checksum")]
    for key, _, value in table:
        if key in (*FRONT_END, "model_type", "format_version"):
            assert value.replace("`", "").split(",")[0] == properties[key], key
