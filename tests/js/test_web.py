"""The npm package and the page: their text equals Python's. Node and headless Chromium run them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import SAMPLE
from support import js_build
from support.c_build import MODELS, ROOT
from support.c_library import LibraryError
from support.recognition import recognize
from support.synth import speech, write_audio
from support.traced import trespasses

from asr import Recognizer
from asr.export.write import with_checksum
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model
from asr.streaming import StreamFailed

_, _, PUNCTUATION, NEURAL_LM = MODELS
JS = js_build.JS
PAUSE = np.zeros(24000, np.float32)


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(list(map(str, command)), cwd=JS, capture_output=True, text=True, timeout=600)
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module", autouse=True)
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page; builds the package and the page."""
    return js_build.page(tmp_path_factory.mktemp("web") / "page")


def transcribe(model: Path, wav: Path, *options: str | Path, lm: Path = BUNDLED) -> list[dict[str, Any]]:
    """Events printed by the example. As in Python, the bundled neural language model is used with the bundled language
    model."""
    models = ["--model", model, "--lm", lm, "--punctuation", PUNCTUATION]
    models += ["--neural-lm", NEURAL_LM] if lm == BUNDLED else []
    # To optimize ONNX Runtime's WebAssembly takes longer than some seconds of audio; it does not change a result.
    result = run("node", "--liftoff-only", "examples/transcribe.mjs", *models, "--json", *options, wav)
    return [json.loads(line) for line in result.stdout.splitlines()]


def spans(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The events without the confidences of words."""

    def times(item: dict[str, Any]) -> tuple[float, float]:
        return round(item["start"], 3), round(item["end"], 3)

    def more(event: dict[str, Any]) -> tuple[Any, ...]:
        return event.get("num_stable", event.get("numStable")), event.get("endpoint")

    return [(e["type"], e["text"], times(e), more(e), [(w["word"], times(w)) for w in e["words"]]) for e in events]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three synthetic utterances, as a WAV file."""
    first = speech("the old man walked slowly down the road")
    second = speech("she walked to the sea", voice="en-gb")
    audio = np.concatenate([first, PAUSE, second, PAUSE, 0.5 * first])
    return write_audio(tmp_path_factory.mktemp("speech") / "spoken.wav", audio)


def read(wav: Path) -> np.ndarray:
    import soundfile

    return soundfile.read(wav, dtype="int16")[0]


def test_node_gives_the_same_events_as_python(spoken: Path) -> None:
    # In float32, because every kind of processor rounds int8 products differently.
    model = bundled_model("float32")
    events = recognize(Recognizer(model, lm=BUNDLED, chunk_ms=320), read(spoken))
    expected = [event.to_dict() for event in events]
    found = transcribe(model, spoken, "--chunk-ms", "320")
    assert spans(found) == spans(expected)
    assert found[-1]["text"].endswith(".") and found[-1]["text"] != found[-1]["raw"]
    for event, wanted in zip(found, expected, strict=True):
        confidences = [word["confidence"] for word in event["words"]]
        assert confidences == pytest.approx([word["confidence"] for word in wanted["words"]], abs=2e-3)


def test_node_searches_over_phones_as_python_does(
    phone_model: tuple[Path, Path], conversation: np.ndarray, tmp_path: Path
) -> None:
    model, lm = phone_model
    wav = write_audio(tmp_path / "audio.wav", conversation)
    recognizer = Recognizer(model, lm=lm)
    assert recognizer.fusion is not None and recognizer.fusion.over_phones
    expected = [event.to_dict() for event in recognize(recognizer, read(wav))]
    assert any(event["words"] for event in expected)
    assert spans(transcribe(model, wav, lm=lm)) == spans(expected)


def test_node_resamples_and_takes_defaults_as_python_does(
    file_with_defaults: Path, conversation: np.ndarray, tmp_path: Path
) -> None:
    wav = write_audio(tmp_path / "audio.wav", conversation[:150_000], 44100)
    recognizer = Recognizer(file_with_defaults, lm=BUNDLED)
    expected = [event.to_dict() for event in recognize(recognizer, read(wav), rate=44100)]
    assert len(expected) > 3
    assert spans(transcribe(file_with_defaults, wav)) == spans(expected)


def failing_on_noise(model: Path, path: Path, limit: float) -> Path:
    """`model` with NaN log-probabilities for every chunk with a feature above `limit`."""
    proto = onnx.load(model)
    x, log_probs = proto.graph.input[0].name, proto.graph.output[0].name
    for node in proto.graph.node:
        node.output[:] = ["right" if name == log_probs else name for name in node.output]
        node.input[:] = ["right" if name == log_probs else name for name in node.input]
    for name, value in (("limit", limit), ("nothing", 0.0)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), name))
    proto.graph.node.extend(
        onnx.helper.make_node(kind, inputs, [output])
        for kind, inputs, output in (
            ("ReduceMax", [x], "loudest"),
            ("Sub", ["limit", "loudest"], "room"),
            ("Sqrt", ["room"], "root"),
            ("Mul", ["root", "nothing"], "mistake"),
            ("Add", ["right", "mistake"], log_probs),
        )
    )
    path.write_bytes(with_checksum(proto))
    return path


FAILING = """
import { Recognizer } from "asr-stream";
import { readWav } from "asr-stream/wav";
import { readFile } from "node:fs/promises";
const [model, lm, wav] = process.argv.slice(1);
const { samples } = readWav(await readFile(wav));
const stream = (await Recognizer.load({ model, lm, chunkMs: 320, text: "plain" })).stream();
const events = [], errors = [];
for (let begin = 0; begin < samples.length; begin += 1600) {
  try {
    events.push(...(await stream.accept(samples.subarray(begin, begin + 1600))));
  } catch (error) {
    events.push(...error.events);
    errors.push([begin, error.message]);
  }
}
console.log(JSON.stringify({ events, errors }));
"""


def test_a_failure_is_the_same_in_three_languages(
    library: Any, tiny_onnx: Path, conversation: np.ndarray, tmp_path: Path
) -> None:
    model = failing_on_noise(tiny_onnx, tmp_path / "model.onnx", limit=7.0)
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, 8000).astype(np.float32)
    wav = write_audio(tmp_path / "audio.wav", np.concatenate([0.3 * conversation[:140_000], noise, PAUSE]))
    script = run("node", "--input-type=module", "-e", FAILING, model, BUNDLED, wav)
    found = json.loads(script.stdout)
    options = {"chunk_ms": 320}
    streams = (
        Recognizer(model, lm=BUNDLED, neural_lm=None, text="plain", punctuation=None, **options).stream(),
        library.model(model, lm=BUNDLED, neural_lm=None, punctuation=None).stream(text="plain", **options),
    )
    for stream in streams:
        events, errors = [], []
        for begin in range(0, len(read(wav)), 1600):
            try:
                stream.accept_waveform(read(wav)[begin : begin + 1600])
            except (StreamFailed, LibraryError) as error:
                errors.append([begin, str(error)])
            events += stream.events()
        assert spans([event.to_dict() for event in events]) == spans(found["events"])
        assert {event.type for event in events} == {"partial", "final"}
        assert [begin for begin, _ in errors] == [begin for begin, _ in found["errors"]] and errors
        for (_, text), (_, wanted) in zip(errors, found["errors"], strict=True):
            cause = r"not log-probabilities.* to logits"  # each language adds its own advice
            assert re.search(cause, text)[0] == re.search(cause, wanted)[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], r"^usage: node transcribe.mjs --model"),
        (["--model", bundled_model(), SAMPLE], r"^usage: .* --lm FILE.lm \["),
        (["--model", bundled_model(), "--lm", BUNDLED, "nowhere.wav"], r"^nowhere.wav cannot be read: ENOENT"),
        (
            ["--model", bundled_model(), "--lm", BUNDLED, SAMPLE.with_suffix(".txt")],
            r"sample.txt cannot be read: it is not a WAV file$",
        ),
        (["--model", BUNDLED, "--lm", BUNDLED, SAMPLE], r"^the model is not an ONNX file, or it is damaged: "),
    ],
)
def test_the_example_reports_errors_in_a_line(arguments: list[str | Path], complaint: str) -> None:
    result = run("node", "examples/transcribe.mjs", *arguments, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    assert re.search(complaint, result.stderr.strip())
    assert len(result.stderr.splitlines()) == 1


def test_nothing_leaves_the_machine_from_node(tmp_path: Path) -> None:
    models = ("--model", bundled_model(), "--lm", BUNDLED, "--punctuation", PUNCTUATION, "--neural-lm", NEURAL_LM)
    example = JS / "examples" / "transcribe.mjs"
    assert trespasses(tmp_path, "node", "--liftoff-only", example, *map(str, models), SAMPLE) == []


def test_package_passes_its_tests_and_has_types() -> None:
    run("npm", "test")
    run("npm", "run", "types")


def test_package_contains_its_license() -> None:
    (package,) = json.loads(run("npm", "pack", "--dry-run", "--json").stdout)
    assert "LICENSE" in {file["path"] for file in package["files"]}


def test_the_guide_says_how_much_the_page_loads(page: Path) -> None:
    guide = " ".join((ROOT / "docs" / "guides" / "web.md").read_text().split())
    (stated,) = re.findall(r"The page loads .*? `neuralLm`\), it loads \d+ MB", guide)
    sizes = {path.name: path.stat().st_size / 1e6 for path in page.rglob("*") if path.is_file()}
    files = ("ort-wasm-simd-threaded.wasm", "language.lm", "model.onnx", "neural.onnx", "punctuation.onnx")
    total = sum(sizes.values())
    without = total - sizes["language.lm"] - sizes["neural.onnx"]
    models_and_runtime = [sizes[name] for name in files]
    expected = [total, *models_and_runtime, total - sum(models_and_runtime), without]
    assert list(map(int, re.findall(r"(\d+) MB", stated))) == [round(size) for size in expected]


def test_a_build_deletes_no_files_of_others(tmp_path: Path) -> None:
    site, model = tmp_path / "site", tmp_path / "site" / "my.onnx"
    site.mkdir()
    model.write_text("mine")
    for options, message in (
        ([], "has other files than a page built here"),
        (["--model", model], "my.onnx would be deleted"),
        (["--model", tmp_path / "absent.onnx"], "there is no"),
    ):
        result = run("node", "web/build.mjs", *options, "--output", site, check=False)
        assert result.returncode == 1 and message in result.stderr and "node:internal" not in result.stderr
        assert model.read_text() == "mine"


def test_page_recognizes_as_python_also_without_a_server(tmp_path: Path) -> None:
    # In float32, where rounding cannot change a word.
    model = bundled_model("float32")
    js_build.page(tmp_path / "page", "--model", model)
    audio = np.concatenate([read(SAMPLE) / 32768.0, PAUSE]).astype(np.float32)
    wav = write_audio(tmp_path / "microphone.wav", audio)
    result = run("node", "tests/browser.mjs", "captions", tmp_path / "page", wav, len(audio) / 16000, tmp_path)
    seen = json.loads(result.stdout)
    assert seen["foreign"] == seen["complaints"] == []  # no request leaves the origin
    shares = [share for status, share in seen["bar"] if status.startswith("Loading") and share is not None]
    assert shares == sorted(shares) and 0 < shares[0] < shares[-1] <= 1
    assert [share for status, share in seen["bar"] if status.startswith("Opening")] == [None]
    assert seen["bar"][-1] == ["Ready.", "hidden"]
    # The second time, the server is not running, and the browser does not support 16 kHz.
    assert seen["online"]["sampleRate"] == 16000 != seen["offline"]["sampleRate"]
    recognizer = Recognizer(model, lm=BUNDLED)
    for name in ("online", "offline"):
        visit = seen[name]
        samples = np.fromfile(tmp_path / f"{name}.f32", np.float32)
        events = recognize(recognizer, samples, rate=visit["sampleRate"])
        expected = " ".join(event.text for event in events if event.type == "final")
        assert len(expected.split()) >= 8
        assert " ".join(visit["finals"]) == expected
        assert visit["partial"] == visit["error"] == ""
        # Browsers process the sound unless asked not to; Firefox disables gain control only for this constraint.
        processing = ("echoCancellation", "noiseSuppression", "autoGainControl")
        assert visit["constraints"] == {"channelCount": 1} | dict.fromkeys(processing, False)
        assert 0.0 < float(visit["rtf"]) < 5.0
        assert re.fullmatch(r"\d+ ms", visit["latency"])
        assert 50 < int(visit["memory"].removesuffix(" MB")) < 250


def test_the_page_reports_errors_in_a_sentence(page: Path) -> None:
    said = json.loads(run("node", "tests/browser.mjs", "errors", page).stdout)
    assert re.fullmatch(
        r"The model http://\S+/model.onnx cannot be loaded: the server answers 404\.", said.pop("no model")
    )
    truncated = "The model is not an ONNX file, or it is damaged: it ends "
    assert said.pop("truncated model").startswith(truncated)
    assert said == {
        "no WebAssembly": "This browser has no WebAssembly, which recognition needs: use a newer one, or allow it.",
        "truncated language model": "The language model: not a language model of asr-stream, or a damaged one: it ends "
        "within its version; write it again with `asr lm`.",
        "no microphone": "There is no microphone: plug one in, and start again.",
        "permission refused": "The microphone is blocked: allow it for this page in the browser's settings, "
        "and start again.",
        "disconnected": "The microphone was disconnected: plug it in again, and start again.",
    }
