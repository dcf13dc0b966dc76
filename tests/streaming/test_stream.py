"""A stream whose caller runs the network: the same events alone and in a batch."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from support.recognition import finals, recognize

from asr import Recognizer
from asr.runtime.network import Network
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.streaming import Event, Stream, StreamFailed
from asr.streaming.work import compute


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(bundled_model("float32"), lm="bundled", chunk_ms=320)


def together(streams: list[Stream]) -> int:
    """Runs all pending work of the streams, with work of one kind batched; returns the size of the largest batch."""
    largest = 0
    while waiting := [work for stream in streams if (work := stream.pending()) is not None]:
        batch = [work for work in waiting if work.kind == waiting[0].kind]
        compute(batch)
        largest = max(largest, len(batch))
    return largest


def test_in_a_batch_as_alone(recognizer: Recognizer, sample: np.ndarray) -> None:
    audio = [sample, sample[8000:], np.zeros(40000, np.float32), sample[::-1].copy()]
    streams = [Stream(recognizer, deferred=True) for _ in audio]
    for stream, samples in zip(streams, audio, strict=True):
        for piece in np.array_split(samples, 7):
            stream.accept_waveform(piece)
        stream.finish()
        assert stream.events() == []
    assert together(streams) == len(audio)
    for stream, samples in zip(streams, audio, strict=True):
        assert shown(stream.events()) == shown(recognize(recognizer, samples))


def shown(events: list[Event]) -> list[tuple[object, ...]]:
    """All fields except confidences, whose last digits depend on how a matrix product is split."""
    return [(e.type, e.text, e.start, e.end, [(w.start, w.end) for w in e.words]) for e in events]


def test_an_utterance_ends_on_request(recognizer: Recognizer, sample: np.ndarray) -> None:
    stream = recognizer.stream()
    middle = len(sample) // 2
    stream.accept_waveform(sample[:middle])
    stream.end_utterance()
    first = stream.events()
    assert first[-1].type == "final"
    stream.accept_waveform(sample[middle:])
    stream.finish()
    rest = stream.events()
    assert not any(event.type == "gap" for event in first + rest)
    assert finals(first) == finals(recognize(recognizer, sample[:middle]))
    assert finals(rest) == finals(recognize(recognizer, sample[middle:]))
    assert min(event.start for event in rest) >= middle / 16000
    with pytest.raises(ValueError, match="finished"):
        stream.end_utterance()
    with pytest.raises(ValueError, match="finished"):
        stream.accept_waveform(np.zeros(0, np.float32))


class Unreliable:
    """Fails from a certain run of a network on."""

    runs = 1 << 30

    def __init__(self, network: Network) -> None:
        self._run = network.run
        network.run = self.run  # type: ignore[method-assign]

    def run(self, *arguments: Any) -> Any:
        self.runs -= 1
        if self.runs < 0:
            raise OSError("the device is gone")
        return self._run(*arguments)


def refused(stream: Stream) -> None:
    """Every call reports the failure."""
    for call in (
        lambda: stream.accept_waveform(np.zeros(100, np.float32)),
        lambda: stream.gap(100),
        lambda: stream.end_utterance(),
        lambda: stream.finish(),
        lambda: stream.finish(),
    ):
        with pytest.raises(StreamFailed, match=r"OSError: the device is gone") as failure:
            call()
        assert isinstance(failure.value.__cause__, OSError)


def test_failure_within_accept_keeps_earlier_events(sample: np.ndarray) -> None:
    recognizer = Recognizer(bundled_model("float32"), chunk_ms=320, search="greedy", second_pass=False)
    expected = recognize(recognizer, sample)
    Unreliable(recognizer.network("encoder")).runs = 5
    stream = recognizer.stream()
    with pytest.raises(StreamFailed, match="the device is gone"):
        stream.accept_waveform(sample)
    events = stream.events()
    assert events and events == expected[: len(events)]
    refused(stream)
    assert stream.events() == []


def test_a_rejected_change_changes_nothing(recognizer: Recognizer, sample: np.ndarray) -> None:
    """After the end. Before, its recognizer would have been used at the next change."""
    stream = recognizer.stream()
    stream.finish()
    for _ in range(2):
        with pytest.raises(ValueError, match="finished"):
            stream.change(recognizer.with_options(chunk_ms=640))
    assert list(stream._recognizers) == [recognizer]


def test_windows_of_a_gpu_are_of_one_length(onnx: OnnxModel, conversation: np.ndarray) -> None:
    on_gpu = copy.copy(onnx)
    on_gpu.provider = "cuda"
    clips = [conversation[:length] for length in (45000, 55000)]
    kinds: list[set[Hashable]] = []
    for model in (onnx, on_gpu):
        recognizer = Recognizer(model, search="greedy", punctuation=None)
        streams = [Stream(recognizer, deferred=True) for _ in clips]
        for stream, clip in zip(streams, clips, strict=True):
            stream.accept_waveform(clip)
            stream.finish()
        found = set()
        while work := [work for stream in streams if (work := stream.pending()) is not None]:
            found |= {each.kind for each in work if each.work.state.slot}
            for batch in [[each for each in work if each.kind == kind] for kind in {each.kind for each in work}]:
                compute(batch)
        kinds.append(found)
        expected = [finals(recognize(Recognizer(onnx, search="greedy", punctuation=None), clip)) for clip in clips]
        assert [finals(stream.events()) for stream in streams] == expected
    assert [len(found) for found in kinds] == [2, 1]


def test_failing_stream_of_a_batch_spares_the_others(recognizer: Recognizer, sample: np.ndarray) -> None:
    streams = [Stream(recognizer, deferred=True) for _ in range(3)]
    for stream in streams:
        stream.accept_waveform(sample)
        stream.finish()
    compute([work for stream in streams if (work := stream.pending()) is not None])
    streams[1].answer([np.zeros((1, 3, 3), np.float32)] * 2)
    with pytest.raises(StreamFailed, match="expected"):
        streams[1].pending()
    together([streams[0], streams[2]])
    for stream in (streams[0], streams[2]):
        assert finals(stream.events()) == finals(recognize(recognizer, sample))
