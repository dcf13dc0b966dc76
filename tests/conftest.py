"""Fixtures that several test files share: a small exported model, speech-like audio, a virtual microphone."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filelock import FileLock
from support.virtual_microphone import VirtualMicrophone

import asr  # noqa: F401, before tests import ONNX Runtime: disables its telemetry

if TYPE_CHECKING:
    from asr import Recognizer
    from asr.model.model import AsrModel
    from asr.runtime.onnx_model import OnnxModel

# Thread synchronization costs more than it saves in small matrix products. Must be set before PyTorch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Python would look for garbage after each 700 new objects. PyTorch makes a million that stay, and tracing a model many
# more: the search took 9 % of the time of the export tests.
gc.set_threshold(20_000, 20, 50)

# In a background job of a shell, the tests would ignore SIGINT, and under nohup SIGHUP; child processes would inherit
# this.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["support.export"]

SAMPLE = Path(__file__).parent.parent / "asr" / "samples" / "sample.wav"
CONVERSATION = Path(__file__).parent / "support" / "conversation.wav"
TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "'")

SLOW_FIXTURES = {
    *("exported", "exported_int8", "library", "phone_model", "prefix", "tones", "traced"),
    "virtual_microphone",
}
"""Fixtures that export, compile or prepare data. `make check` skips the tests that use them."""


IN_REAL_TIME = "test_speech_recognition.py"
"""Its tests wait minutes for browsers that listen in real time. They come first, so that no process ends with them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != IN_REAL_TIME)
    for item in items:
        if isinstance(item, pytest.Function) and not SLOW_FIXTURES.isdisjoint(item.fixturenames):
            item.add_marker("slow")


@pytest.fixture
def restore_signals() -> Iterator[None]:
    """For tests that call a command's `main`, which sets its own handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all pytest-xdist processes of this run share. Writers must hold a lock."""
    folder = factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def tiny_onnx() -> Path:
    """A small random model. It outputs blanks in silence, and many different words over `conversation`."""
    return Path(__file__).parent / "support" / "tiny.onnx"  # made by support/make_tiny.py


@pytest.fixture(scope="session")
def tiny_model(tiny_onnx: Path) -> AsrModel:
    """The network of `tiny_onnx`."""
    from asr.training.checkpoint import load_pretrained

    return load_pretrained(tiny_onnx).model().eval()


@pytest.fixture(scope="session")
def file_with_defaults(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with defaults of its own: a chunk of 320 ms and a left context of 640 ms."""
    from support.export import edited

    path = tmp_path_factory.mktemp("defaults") / "model.onnx"
    return edited(tiny_onnx, path, default_chunk_size="8", default_left_context="16")


@pytest.fixture(scope="session")
def phone_model(exported_phones: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random model with phones, and a language model that pronounces its words with them."""
    from support.phones import phone_lm

    path = tmp_path_factory.mktemp("phones") / "phones.lm"
    path.write_bytes(phone_lm())
    return exported_phones, path


@pytest.fixture(scope="session")
def onnx(tiny_onnx: Path) -> OnnxModel:
    """The exported model, opened."""
    from asr.runtime.onnx_model import OnnxModel

    return OnnxModel(tiny_onnx)


@pytest.fixture(scope="session")
def recognizer(onnx: OnnxModel) -> Recognizer:
    """A recognizer with the tiny model and otherwise default settings."""
    from asr import Recognizer

    return Recognizer(onnx)


@pytest.fixture(scope="session")
def pairs_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed language model whose vocabulary is all words of two letters."""
    from support.arpa import packed

    path = tmp_path_factory.mktemp("lm") / "pairs.lm"
    path.write_bytes(packed(f"-1.5 {first}{second}" for first in TOKENS[4:30] for second in TOKENS[4:30]))
    return path


@pytest.fixture(scope="session")
def sample() -> np.ndarray:
    """The bundled recording: (num_samples,) int16, 16 kHz."""
    import soundfile

    return soundfile.read(SAMPLE, dtype="int16")[0]


@pytest.fixture(scope="session")
def conversation() -> np.ndarray:
    return three_utterances()


def three_utterances() -> np.ndarray:
    """Three utterances with pauses of 1.5 s, about 14 s: (num_samples,) float32, 16 kHz.

    The recording is the tests' own, not the bundled one, because `tiny_onnx` is fitted to it and tests count its
    words.
    """
    import soundfile

    pause = np.zeros(24000, np.float32)
    speech = soundfile.read(CONVERSATION, dtype="float32")[0]
    return np.concatenate([speech, pause, speech[:40000], pause, 0.3 * speech[20000:60000]])


@pytest.fixture(scope="session")
def audio(conversation: np.ndarray) -> np.ndarray:
    """For the Realtime protocol: `conversation` and 2 s of silence, (num_samples,) int16, 24 kHz."""
    import soxr

    samples = soxr.resample(np.concatenate([conversation, np.zeros(32000, np.float32)]), 16000, 24000)
    return np.clip(32768 * samples, -32768, 32767).astype(np.int16)


@pytest.fixture(scope="session")
def virtual_microphone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualMicrophone]:
    """A private sound server: what it plays is the default microphone of programs started with its `env`."""
    with VirtualMicrophone(tmp_path_factory.mktemp("sound")) as microphone:
        yield microphone


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The toy language's training and validation sets."""
    from support.tones import prepare_tones

    folder = tmp_path_factory.mktemp("tones")
    return prepare_tones(folder, 120, "train"), prepare_tones(folder, 20, "valid", first_seed=1000)


@pytest.fixture
def arguments(tones: tuple[Path, Path], tmp_path: Path) -> list[str]:
    """Arguments of `asr train` for these sets, with the run in `tmp_path / "run"`."""
    from support.tones import RECIPE

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    return [
        "train",
        str(recipe),
        f"data.train={tones[0]}",
        f"data.valid={tones[1]}",
        f"train.output={tmp_path / 'run'}",
    ]


@pytest.fixture
def nothing_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A library never prints."""
    yield
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="session")
def library() -> Any:
    """libasr_stream through ctypes."""
    from support.c_build import build
    from support.c_library import CLibrary

    return CLibrary(build() / "libasr_stream.so")


@pytest.fixture(scope="session")
def bundled_in_c(library: Any) -> Any:
    """The bundled model with its language model, as libasr_stream opens them."""
    from asr.lm.packed import BUNDLED
    from asr.runtime.onnx_model import bundled_model

    return library.model(bundled_model(), lm=BUNDLED)


@pytest.fixture(scope="session")
def captions(sample: np.ndarray) -> str:
    """The expected output of the C examples and the bindings' examples for the bundled recording."""
    from support.recognition import recognize

    from asr import Recognizer
    from asr.streaming import Final

    finals = [event for event in recognize(Recognizer(), sample) if isinstance(event, Final)]
    assert finals
    return "".join(f"{event.start:8.2f} {event.end:8.2f}  {event.text}\n" for event in finals)


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of `make dist-c`, unpacked outside the build folder, as a user gets it."""
    from support.c_build import unpack_archive

    folder = shared_folder(tmp_path_factory) / "prefix"
    with FileLock(folder.with_suffix(".lock")):
        return unpack_archive(folder)
