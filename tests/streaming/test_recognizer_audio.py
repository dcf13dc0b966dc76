"""Audio input, cut in any way, lost or damaged: the text depends only on the samples."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from support.recognition import finals, random_cuts, recognize, shifted

from asr import Recognizer
from asr.runtime.onnx_model import OnnxModel
from asr.streaming import Error, Event, Final


@pytest.mark.slow
def test_text_does_not_depend_on_random_splits(onnx: OnnxModel, conversation: np.ndarray) -> None:
    recognizer = Recognizer(onnx, search="beam")
    audio = conversation[60000:140000]
    expected = recognize(recognizer, audio)
    assert finals(expected)
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert recognize(recognizer, audio, random_cuts(rng, len(audio))) == expected


def test_text_is_equal_for_pushes_of_a_sample(recognizer: Recognizer, conversation: np.ndarray) -> None:
    audio = conversation[4000:40000]
    assert recognize(recognizer, audio, list(range(1, len(audio)))) == recognize(recognizer, audio)


@pytest.mark.slow
def test_a_five_minute_push(onnx: OnnxModel, conversation: np.ndarray) -> None:
    recognizer = Recognizer(onnx, search="greedy")
    audio = np.resize(conversation, 300 * 16000)
    events = recognize(recognizer, audio)
    assert len(finals(events)) > 500
    assert events == recognize(recognizer, audio, list(range(1600, len(audio), 1600)))


def test_int16_float32_and_strided_arrays_give_equal_text(recognizer: Recognizer, sample: np.ndarray) -> None:
    events = recognize(recognizer, sample)
    assert finals(events)
    assert events == recognize(recognizer, sample.astype(np.float32) / 32768)
    assert events == recognize(recognizer, np.repeat(sample, 2)[::2])


def test_streams_in_threads_do_not_disturb_each_other(recognizer: Recognizer, conversation: np.ndarray) -> None:
    audios = [conversation[i * 16000 : 160000] for i in range(4)]
    expected = [recognize(recognizer, audio) for audio in audios]
    found: dict[int, list[Event]] = {}

    def run(i: int) -> None:
        found[i] = recognize(recognizer, audios[i], list(range(0, len(audios[i]), 800)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(4)] == expected


def test_gap_ends_the_utterance_and_keeps_true_times(recognizer: Recognizer, conversation: np.ndarray) -> None:
    before, after = conversation[:36800], conversation[36800:90000]
    stream = recognizer.stream()
    stream.accept_waveform(before)
    assert stream.sample_offset == 36800
    stream.gap(8000)
    assert stream.sample_offset == 44800
    stream.accept_waveform(after)
    stream.finish()
    events = [event.to_dict() for event in stream.events()]
    gap = {"type": "gap", "text": "0.500 s of audio were lost", "start": 2.3, "end": 2.8, "words": []}
    expected = [event.to_dict() for event in recognize(recognizer, before)]
    assert expected[-1]["type"] == "final"
    assert events == [*expected, gap, *shifted(recognize(recognizer, after), 44800 / 16000)]


@pytest.mark.parametrize("bits", [31, 32])
def test_times_stay_true_when_positions_pass_32_bits(
    recognizer: Recognizer, conversation: np.ndarray, bits: int
) -> None:
    """A stream of days that is mostly lost audio; the speech begins seconds before a power of two."""
    audio = conversation[:160000]
    stream = recognizer.stream()
    stream.gap(2**bits - 16000)
    stream.accept_waveform(audio)
    assert stream.sample_offset == 2**bits + 144000
    stream.finish()
    expected = shifted(recognize(recognizer, audio), 2**bits / 16000 - 1)
    assert [event.to_dict() for event in stream.events()[1:]] == expected and len(expected) > 5


def test_nonfinite_samples_are_silence_and_reported_once(recognizer: Recognizer, conversation: np.ndarray) -> None:
    broken, silent = conversation.copy(), conversation.copy()
    broken[5000:5003] = np.nan, np.inf, -np.inf
    broken[90000:95000] = np.nan
    silent[5000:5003] = silent[90000:95000] = 0
    events = recognize(recognizer, broken)
    errors = [event for event in events if isinstance(event, Error)]
    assert len(errors) == 1 and errors[0].text.startswith("3 samples were not finite")
    assert [event for event in events if not isinstance(event, Error)] == recognize(recognizer, silent)
    assert recognize(recognizer, broken, random_cuts(np.random.default_rng(0), len(broken))) == events


@pytest.mark.slow
def test_an_hour_of_silence_takes_no_memory(onnx: OnnxModel) -> None:
    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096 / 1e6

    stream = Recognizer(onnx, chunk_ms=5120, search="beam").stream()
    silence = np.zeros(16000 * 60, np.float32)
    for _ in range(5):
        stream.accept_waveform(silence)
    before = resident()
    for _ in range(55):
        stream.accept_waveform(silence)
    assert resident() - before < 8
    assert stream.events() == []


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.slow
def test_memory_of_an_utterance_is_bounded_without_pauses(
    onnx: OnnxModel, conversation: np.ndarray, second_pass: bool
) -> None:
    recognizer = Recognizer(onnx, max_utterance_s=3, silence_after_speech_s=float("inf"), second_pass=second_pass)
    stream = recognizer.stream()
    speech = conversation[4000:80000]
    for _ in range(10):
        stream.accept_waveform(speech)
        segment = stream._core
        assert segment.num_frames_kept <= (0 if second_pass else 1.5 * 3 / 0.04 + 16)
        context_s = 5 if second_pass else 0  # of the utterance before
        assert segment.num_features_kept <= 100 * (1.5 * 3 + context_s) + 67
    assert sum(isinstance(event, Final) for event in stream.events()) >= 9
