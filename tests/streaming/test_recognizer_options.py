"""The interface of the recognizer: its options, its errors, its events as dictionaries, and what it imports."""

from __future__ import annotations

import copy
import io
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.export import edited
from support.recognition import finals, recognize, with_metadata

from asr import Recognizer
from asr.options import OPTIONS
from asr.runtime.onnx_decoder import decoder_beside
from asr.runtime.onnx_model import ModelError, OnnxModel, bundled_model
from asr.runtime.punctuation import bundled_punctuation


def test_events_as_dictionaries(recognizer: Recognizer, conversation: np.ndarray) -> None:
    for event in recognize(recognizer, conversation):
        plain = event.to_dict()
        more = {"partial": ["num_stable"], "final": ["endpoint"]}
        raw = ["raw", "raw_words"] if event.raw != event.text else []
        assert list(plain) == ["type", "text", "start", "end", "words", *raw, *more[event.type]]
        assert all(list(word) == ["word", "start", "end", "confidence"] for word in plain["words"])
        assert json.loads(json.dumps(plain)) == plain
        assert all(word["start"] == round(word["start"], 3) for word in plain["words"])


@pytest.mark.parametrize(
    "options", [{"chunk_ms": 40, "left_context_ms": 0}, {"chunk_ms": 5120, "left_context_ms": 20480}]
)
def test_options_at_their_limits(onnx: OnnxModel, conversation: np.ndarray, options: dict[str, int]) -> None:
    assert recognize(Recognizer(onnx, **options), conversation)


def test_a_model_with_other_features_is_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    other = edited(tiny_onnx, tmp_path / "other.onnx", window="hamming")
    with pytest.raises(ModelError, match=r"other\.onnx: metadata key window is 'hamming', it must be 'povey'"):
        Recognizer(other)


def test_a_punctuation_model_without_rules_is_named(onnx: OnnxModel) -> None:
    french = with_metadata(onnx, language="fr")
    (warning,) = Recognizer(french, punctuation=bundled_punctuation()).warnings
    assert warning.startswith("the model for case and punctuation is not used") and "'fr'" in warning
    assert Recognizer(french).warnings == Recognizer(onnx, punctuation=bundled_punctuation()).warnings == ()


def test_without_a_decoder_finals_come_from_the_beam(onnx: OnnxModel, conversation: np.ndarray, tmp_path: Path) -> None:
    audio = conversation[:80000]  # one utterance, whose final the decoder changes
    alone = shutil.copy(onnx.path, tmp_path / "alone.onnx")
    with pytest.raises(ValueError, match=r"search joint needs the decoder: give the file NAME\.decoder\.onnx"):
        Recognizer(alone, search="joint")
    fast = {"second_pass": False}
    of_beam = recognize(Recognizer(alone, search="beam", **fast), audio)
    without = (Recognizer(alone, **fast), Recognizer(onnx, decoder=None, **fast))
    assert all(recognize(each, audio) == of_beam for each in without)
    beside = decoder_beside(onnx.path)
    rescored = recognize(Recognizer(alone, decoder=beside, **fast), audio)
    assert rescored == recognize(Recognizer(onnx, **fast), audio)
    assert finals(rescored) != finals(of_beam)
    with pytest.raises(ValueError, match="the decoder belongs to another model"):
        Recognizer(bundled_model(), decoder=beside)
    with pytest.raises(ValueError, match=r"decoder: none\.onnx cannot be read: No such file"):
        Recognizer(alone, decoder="none.onnx")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (b"1234", r"samples have the type bytes; expected .*: use numpy\.frombuffer\(samples, numpy\.int16\) for"),
        ([0, 1], r"dtype int64; expected float32 in ±1 or int16: pass numpy\.asarray\(samples, numpy\.int16\)"),
        ([[0.0], [0.1, 0.2]], "samples are a list of lists of different lengths"),
        (np.zeros(10, ">i4"), r"dtype int32; .*: pass \(samples"),
        ("a.wav", r"type str; for a file, pass the blocks of asr\.streaming\.read_blocks"),
        (Path("a.wav"), r"asr\.streaming\.read_blocks"),
        (io.BytesIO(), r"asr\.streaming\.read_blocks"),
        (["a"], "dtype <U1; expected float32 in ±1 or int16$"),
        (np.zeros(10, np.int32), r"dtype int32; .*: pass \(samples / 2\*\*31\)\.astype\(numpy\.float32\)"),
        (np.zeros(10, np.uint8), r"dtype uint8; .*: pass \(samples\.astype\(numpy\.float32\) - 128\) / 128"),
        (
            np.zeros((2, 100), np.float32),
            r"shape \(2, 100\); expected \(num_samples,\), or \(num_samples, num_channels.*: pass samples\.T$",
        ),
        (np.zeros((10, 2), np.int32), "dtype int32"),
        (np.zeros((10, 2, 1), np.float32), r"shape \(10, 2, 1\)"),
    ],
)
def test_samples_of_another_kind(recognizer: Recognizer, samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recognizer.stream().accept_waveform(samples)


@pytest.mark.parametrize("convert", [np.float64, np.float16, np.longdouble, lambda x: x.tolist(), tuple])
def test_other_floats_are_converted(recognizer: Recognizer, conversation: np.ndarray, convert: Any) -> None:
    audio = conversation[:48000].astype(np.float16).astype(np.float32)
    streams = recognizer.stream(), recognizer.stream()
    for stream, samples in zip(streams, (audio, convert(audio)), strict=True):
        stream.accept_waveform(samples)
        stream.finish()
    expected, found = (stream.events() for stream in streams)
    assert found == expected and expected


@pytest.mark.parametrize("dtype", [">i2", "<i2", ">f4", ">f8"])
def test_samples_of_any_byte_order(recognizer: Recognizer, sample: np.ndarray, dtype: str) -> None:
    """As scipy reads RIFX, or numpy AIFF."""
    audio = sample[:48000]
    other = audio.astype(dtype) if dtype.endswith("i2") else (audio / np.float32(32768)).astype(dtype)
    assert recognize(recognizer, other) == recognize(recognizer, audio)


@pytest.mark.filterwarnings("error")
def test_floats_beyond_float32_are_not_finite(recognizer: Recognizer) -> None:
    stream = recognizer.stream()
    stream.accept_waveform(np.full(16000, 1e300))
    stream.accept_waveform(np.full((16000, 2), 3e38, np.float32))
    stream.finish()
    (error,) = stream.events()
    assert error.type == "error" and "samples were not finite" in error.text


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_channels_are_averaged(recognizer: Recognizer, conversation: np.ndarray, dtype: type) -> None:
    audio = conversation[:60000] if dtype == np.float32 else (conversation[:60000] * 32000).astype(np.int16)
    expected = recognize(recognizer, audio)
    stereo = np.stack([audio, np.zeros_like(audio)], axis=1)
    assert recognize(recognizer, audio[:, None]) == recognize(recognizer, np.stack([audio, audio], axis=1)) == expected
    assert recognize(recognizer, stereo) == recognize(
        recognizer, np.float32(0.5 if dtype == np.float32 else 0.5 / 32768) * audio
    )
    assert any(event.text for event in expected)


@pytest.mark.parametrize("rate", [0, -16000, 999, 768001, 22050.5, "16000", True])
def test_sample_rates_out_of_range(recognizer: Recognizer, rate: int) -> None:
    with pytest.raises(ValueError, match=r"sample_rate is .* whole number of Hz in \[1000, 768000\]"):
        recognizer.stream().accept_waveform(np.zeros(10, np.float32), rate)
    with pytest.raises(ValueError, match="sample_rate"):
        recognizer.stream().gap(10, rate)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "be\0am"}, r"search is 'be\?am'; it must be one of greedy"),
        ({"text": "plain\0"}, r"text is 'plain\?'; it must be"),
        *(({name: "a\0b"}, rf"{name} is 'a\\x00b'; the path") for name in ("model", "lm", "neural_lm", "punctuation")),
        *(({name: "a\0b"}, rf"{name} is 'a\\x00b'; the path") for name in ("hotwords", "phrases", "mask")),
    ],
)
def test_a_nul_cuts_no_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recognizer(**options)


def test_lines_with_a_nul_are_skipped_and_named(recognizer: Recognizer) -> None:
    lists = {"hotwords": ["Abbey\0Road"], "mask": ["da\0mn"], "replace": ["x -> y\0z"], "own_commands": ["go\0 -> x"]}
    assert sorted(recognizer.with_options(**lists).skipped_lines) == [
        f"{line} has a control character; remove it"
        for line in (
            "command line 'go? -> x'",
            "hotword line 'Abbey?Road'",
            "mask line 'da?mn'",
            "replacement line 'x -> y?z'",
        )
    ]


def test_a_recognizer_is_pickled_by_its_options(tiny_onnx: Path, sample: np.ndarray) -> None:
    recognizer = Recognizer(tiny_onnx, search="beam", mask=["old"])
    again = pickle.loads(pickle.dumps(recognizer))
    assert repr(again) == repr(recognizer) and recognize(again, sample) == recognize(recognizer, sample)
    assert copy.copy(recognizer) is copy.deepcopy(recognizer) is recognizer
    with pytest.raises(TypeError, match="with an open model cannot be pickled: give the path of the file"):
        pickle.dumps(Recognizer(recognizer.onnx))
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a Stream cannot be copied or pickled: it belongs to one source of audio"):
            act(recognizer.stream())


def test_after_finish_nothing_more_is_taken(recognizer: Recognizer) -> None:
    stream = recognizer.stream()
    with pytest.raises(ValueError, match="num_samples is -1; it must be in "):
        stream.gap(-1)
    stream.finish()
    stream.finish()
    with pytest.raises(ValueError, match="finished"):
        stream.accept_waveform(np.zeros(10, np.float32))
    with pytest.raises(ValueError, match="finished"):
        stream.gap(10)


def test_recognition_never_imports_torch(tiny_onnx: Path) -> None:
    code = f"""
import sys
import asr
assert "numpy" not in sys.modules and "onnxruntime" not in sys.modules, "import asr is not cheap"
from asr import Recognizer
from asr.options import OPTIONS
import asr.streaming.terminal.captions, asr.streaming.terminal.cli
import asr.streaming.audio.microphone, asr.streaming.audio.audio_file
from asr.streaming import *
import numpy as np
stream = Recognizer({str(tiny_onnx)!r}).stream()
stream.accept_waveform(np.random.default_rng(0).standard_normal(48000).astype(np.float32) * 0.1)
stream.accept_waveform(np.zeros(48000, np.int16), 48000)
stream.finish()
heavy = ("torch", "torchaudio", "lhotse")
print(sorted(m for m in sys.modules if m.split(".")[0] in heavy or m == "asr.export"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_unknown_names_are_attribute_errors() -> None:
    import asr
    import asr.streaming

    for module in (asr, asr.streaming):
        assert all(hasattr(module, name) for name in module.__all__)
        with pytest.raises(AttributeError, match="Recognzer"):
            _ = module.Recognzer


# ---- variants ----


def test_a_stream_may_leave_out_the_language_models(tiny_onnx: Path, pairs_lm: Path, conversation: np.ndarray) -> None:
    """As if there were none; another variant uses the open ones again."""
    recognizer = Recognizer(tiny_onnx, lm=pairs_lm, search="beam", phrases=["AB"])
    bare = recognizer.with_options(use_lm=False, search="greedy", phrases=None)
    assert bare.language_model is None and bare.fusion is None and bare.lm == pairs_lm
    assert bare.with_options(use_lm=True, search="beam").language_model is recognizer.language_model
    without = recognizer.with_options(lm=None)
    for options in ({"phrases": None}, {}):
        events = recognize(recognizer.with_options(use_lm=False, **options), conversation)
        assert events == recognize(without.with_options(**options), conversation)


VALUES: dict[str, tuple[object, ...]] = {
    "search": ("greedy", "beam"),
    "lm": ("auto", None, "pairs"),
    "chunk_ms": (320,),
    "left_context_ms": (1280,),
    "second_pass": (False,),
    "hotwords": (["AB CD"],),
    "phrases": (["AB", "CD"],),
    "beam_size": (7,),
    "use_lm": (False,),
}


def state(make: Callable[[], Recognizer]) -> object:
    """All values that affect recognition, or the error."""
    try:
        recognizer = make()
    except ValueError as error:
        return str(error)
    lm = recognizer.language_model
    own = [getattr(recognizer, name) for name in ("lm", "hotwords", "phrases", *OPTIONS)]
    return own, lm and lm.num_ngrams, recognizer.fusion is None


@pytest.mark.parametrize("former", [{}, {"search": "greedy"}, {"lm": None}, {"lm": "pairs", "chunk_ms": 160}])
@pytest.mark.slow
def test_variant_equals_a_new_recognizer_with_those_options(
    former: dict[str, object], tiny_onnx: Path, pairs_lm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair of options, beginning with the bundled model, for which small files stand in."""
    monkeypatch.setattr("asr.streaming.recognizer.bundled_model", lambda *_: tiny_onnx)
    monkeypatch.setattr("asr.lm.packed.BUNDLED", pairs_lm)
    monkeypatch.setattr(Recognizer, "_warm_up", lambda self: None)
    choices = [{name: value} for name, values in VALUES.items() for value in values]
    known = {"pairs": pairs_lm}

    def named(options: dict[str, object]) -> dict[str, object]:
        return {name: known.get(value, value) if name == "lm" else value for name, value in options.items()}  # type: ignore[call-overload]

    recognizer = Recognizer(**named(former))
    onnx = recognizer.onnx
    for first, second in combinations_with_replacement(choices, 2):
        changes = named(first | second)
        fresh = state(lambda changes=changes: Recognizer(**named(former) | changes))  # type: ignore[misc]
        assert state(lambda changes=changes: recognizer.with_options(**changes)) == fresh, changes  # type: ignore[misc]
    assert recognizer.with_options(chunk_ms=320).onnx is onnx
    again = recognizer.with_options(search="greedy") if former != {"lm": "pairs", "chunk_ms": 160} else recognizer
    assert (again.with_options(search="beam").language_model is None) == (former == {"lm": None})


def test_bundled_language_model_is_for_english_capitals(onnx: OnnxModel) -> None:
    Recognizer(onnx, lm="bundled")
    german = with_metadata(onnx, tokens=(*onnx.metadata.tokens[:-2], "Ä", "ß"))
    with pytest.raises(ValueError, match=r"this model also writes 'ÄßÄ?': make a language model of its words"):
        Recognizer(german, lm="bundled")
    assert Recognizer(german, decoder=None).language_model is None


def test_neural_lm_is_used_if_it_fits(phone_model: tuple[Path, Path], onnx: OnnxModel, pairs_lm: Path) -> None:
    model, lm = phone_model
    recognizer = Recognizer(model, lm=lm)
    assert recognizer.neural_model is None  # for general English only, unless it is given
    fitting: list[dict[str, Any]] = [
        {},
        {"lm": None},
        {"lm": pairs_lm},
        {"model": onnx, "lm": None},
        {"lm": None, "search": "joint"},
    ]
    for options in fitting:
        assert recognizer.with_options(**options).neural_model is None
        assert recognizer.with_options(**options, neural_lm="bundled").neural_model is not None
    assert Recognizer(onnx, lm="bundled").neural_model is not None
    assert Recognizer(lm=None).neural_model is None


def test_neural_lm_without_effect_is_refused(onnx: OnnxModel) -> None:
    for without in ({"phrases": ["A"]}, {"search": "greedy"}):
        assert Recognizer(onnx, **without).neural_model is None
        with pytest.raises(
            ValueError, match=r"neural_lm is 'no\.onnx', but it compares .* leave neural_lm out, or use"
        ):
            Recognizer(onnx, **without, neural_lm="no.onnx")
    german = with_metadata(onnx, tokens=tuple(token.lower() for token in onnx.metadata.tokens))
    with pytest.raises(ValueError, match=r"the neural language model can spell .* train it on text in their case"):
        Recognizer(german, neural_lm="bundled", decoder=None)


def test_a_list_without_end_is_refused(onnx: OnnxModel) -> None:
    with pytest.raises(ValueError, match="the list hotwords has more than 1048576 bytes"):
        Recognizer(onnx, hotwords="/dev/zero")
    with pytest.raises(ValueError, match="the list phrases has more than 1048576 bytes"):
        Recognizer(onnx, phrases=["AB CD"] * 200_000)


def test_a_source_folder_is_no_installation(tmp_path: Path) -> None:
    (tmp_path / "asr").symlink_to(Path(__file__).parents[2] / "asr")
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'ditable' not in repr(f)]; from asr import Recognizer"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert "ImportError: asr-stream is not installed in this Python" in done.stderr
    assert "make stream" in done.stderr


def test_defaults_of_a_model_file_hold_without_options(file_with_defaults: Path, conversation: np.ndarray) -> None:
    recognizer = Recognizer(file_with_defaults)
    assert (recognizer.chunk_ms, recognizer.left_context_ms) == (320, 640)
    events = recognize(recognizer, conversation)
    assert events == recognize(Recognizer(file_with_defaults, chunk_ms=320, left_context_ms=640), conversation)
    assert events != recognize(Recognizer(file_with_defaults, chunk_ms=640, left_context_ms=2560), conversation)
    variant = recognizer.with_options(chunk_ms=160)
    assert (variant.chunk_ms, variant.left_context_ms) == (160, 640)


@pytest.mark.parametrize(("provider", "name"), [("cpu", "tiny.int8.onnx"), ("cuda", "tiny.onnx")])
def test_bundled_model_is_float32_only_on_a_gpu(provider: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Opened:
        def __init__(self, path: Path, **_: object) -> None:
            raise RuntimeError(path.name)

    monkeypatch.setattr("asr.streaming.recognizer.OnnxModel", Opened)
    with pytest.raises(RuntimeError, match=f"^{name}$"):
        Recognizer(provider=provider)


@pytest.mark.parametrize(("name", "value"), [("provider", "nonsense"), ("num_threads", -3)])
def test_wrong_session_options_with_an_open_model(onnx: OnnxModel, name: str, value: Any) -> None:
    with pytest.raises(ModelError, match=f"{name} '?{value}'? "):
        Recognizer(onnx, **{name: value})


def test_variant_with_another_model_has_its_defaults(onnx: OnnxModel, file_with_defaults: Path) -> None:
    recognizer = Recognizer(onnx, beam_size=7)
    variant = recognizer.with_options(model=file_with_defaults)
    assert (recognizer.chunk_ms, recognizer.left_context_ms) == (640, 2560)
    assert (variant.chunk_ms, variant.left_context_ms, variant.beam_size) == (320, 640, 7)
    assert variant.with_options(model=onnx).chunk_ms == 640


def test_a_variant_of_a_variant_shares_too(pairs_lm: Path, onnx: OnnxModel) -> None:
    recognizer = Recognizer(onnx, lm=pairs_lm)
    back = recognizer.with_options(phrases=["AB"]).with_options(phrases=None, text="plain")
    assert back.language_model is recognizer.language_model is not None and back.fusion is recognizer.fusion
    listed = ["AB CD"]
    hot = recognizer.with_options(hotwords=listed)
    assert hot.fusion is not recognizer.fusion and hot.with_options(mask=["CD"]).fusion is hot.fusion
    listed.append("EF")
    assert hot.with_options(hotwords=listed).fusion is not hot.fusion


def test_options_are_attributes_that_cannot_be_set(onnx: OnnxModel) -> None:
    recognizer = Recognizer(onnx, search="beam", hotwords=["AB"])
    assert recognizer.search == "beam" and list(recognizer.hotwords) == ["AB"]
    with pytest.raises(AttributeError):
        recognizer.search = "greedy"
    with pytest.raises(AttributeError, match="'Recognizer' object has no attribute 'serch'"):
        _ = recognizer.serch
    with pytest.raises(TypeError, match=r"there is no option 'serch'; the options are chunk_ms, .*, own_commands$"):
        Recognizer(onnx, serch="beam")
