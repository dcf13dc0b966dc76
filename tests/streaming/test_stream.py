"""A stream whose network is run by its owner: the same events, alone and in a batch."""

from __future__ import annotations

import numpy as np
import pytest
from support.recognition import finals, recognize

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Event, Stream
from asr.streaming.segment import compute


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(bundled_model("float32"), lm="bundled", chunk_ms=320)


def together(streams: list[Stream]) -> int:
    """Does all that the streams have in line, those of a kind in one run; the size of the largest batch."""
    largest = 0
    while waiting := [segment for stream in streams if (segment := stream.pending()) is not None]:
        batch = [segment for segment in waiting if segment.kind == waiting[0].kind]
        compute(batch)
        # Those that were left wait still: `pending` would go on without an answer.
        for segment in waiting:
            if segment not in batch:
                compute([segment])
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
    """All but confidences, whose last digits depend on how a matrix product is cut."""
    return [(e.type, e.text, e.start, e.end, [(w.start_s, w.end_s) for w in e.words]) for e in events]


def test_an_utterance_ends_when_it_is_said_to(recognizer: Recognizer, sample: np.ndarray) -> None:
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
