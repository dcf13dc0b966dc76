"""The live recogniser: the text depends on the audio alone, times stay true, nothing at the end is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soxr
import torch
from conftest import TOKENS

from asr import Recognizer
from asr._core import CtcPrefixBeamSearch
from asr.features import fbank, num_frames
from asr.lm import LmError, load_lm
from asr.model import AsrModel
from asr.onnx_model import ModelError, OnnxModel
from asr.search import LmWeights
from asr.streaming import Error, Event, Final, Gap, Partial
from asr.text import detokenize


@pytest.fixture(scope="session")
def onnx(tiny_onnx: Path) -> OnnxModel:
    return OnnxModel(tiny_onnx)


@pytest.fixture(scope="session")
def recognizer(onnx: OnnxModel) -> Recognizer:
    return Recognizer(onnx)


def recognize(
    recognizer: Recognizer, samples: np.ndarray, cuts: list[int] | None = None, rate: int = 16000
) -> list[Event]:
    """Events of `samples`, pushed in pieces that end at `cuts`."""
    stream = recognizer.stream()
    events = []
    for piece in np.split(samples, cuts or []):
        stream.accept_waveform(piece, rate)
        events += stream.events()
    stream.finish()
    return events + stream.events()


def finals(events: list[Event]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Final))


def random_cuts(rng: np.random.Generator, length: int) -> list[int]:
    return sorted(rng.integers(0, length, rng.integers(1, 60)).tolist())


# ---- what is recognised ----


def test_partials_grow_into_finals_one_for_each_utterance(recognizer: Recognizer, conversation: np.ndarray) -> None:
    events = recognize(recognizer, conversation)
    ends = [i for i, event in enumerate(events) if isinstance(event, Final)]
    assert len(ends) == 3
    assert all(isinstance(event, Partial) for i, event in enumerate(events) if i not in ends)
    assert all(isinstance(events[i - 1], Partial) for i in ends)
    for event in events:
        assert event.text == " ".join(word.word for word in event.words) != ""
        assert (event.start, event.end) == (event.words[0].start_s, event.words[-1].end_s)
        times = [t for word in event.words for t in (word.start_s, word.end_s)]
        assert times == sorted(times)
        assert all(0 < word.confidence <= 1 for word in event.words)
    speech = [(0.2, 5.6), (7.2, 9.8), (11.2, len(conversation) / 16000)]
    for i, (start, end) in zip(ends, speech, strict=True):
        assert start <= events[i].start < events[i].end <= end + 0.2


@pytest.mark.parametrize("chunk_ms", [160, 640, 1280])
def test_equals_the_masked_full_pass_in_pytorch(
    onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray, chunk_ms: int
) -> None:
    """Endpoints and ragged tail included: the encoder keeps its context, no frame is lost or used twice."""
    events = recognize(Recognizer(onnx, search="greedy", chunk_ms=chunk_ms), conversation)
    features = fbank(conversation)[None]
    with torch.no_grad():
        log_probs = tiny_model(features, torch.tensor([features.shape[1]]), chunk_ms // 40, 64)[0][0]
    best = log_probs.argmax(-1)
    kept = [int(t) for t, before in zip(best, [-1, *best[:-1].tolist()], strict=True) if t != before and t != 0]
    # An utterance that ends is a word that ends, whether or not the model wrote a boundary.
    assert finals(events).replace(" ", "") == detokenize(TOKENS[t] for t in kept).replace(" ", "")


def test_rescoring_takes_the_hypothesis_that_search_and_decoder_like_best(
    onnx: OnnxModel, conversation: np.ndarray
) -> None:
    audio = conversation[:80000]  # one utterance
    features = fbank(audio).numpy()
    search, outputs, cache = CtcPrefixBeamSearch(beam_size=8), [], onnx.init_cache(1, 64)
    for start in range(0, len(features) - 3, 64):
        valid = min(67, len(features) - start)
        piece = np.zeros((1, 67, 80), np.float32)
        piece[0, :valid] = features[start : start + 67]
        log_probs, encoder_out, cache = onnx.step(piece, np.array([valid]), cache)
        search.advance(log_probs[0, : min(valid // 4, 16)])
        outputs.append(encoder_out[0, : min(valid // 4, 16)])
    hypotheses = search.hypotheses(8)
    scores = onnx.score([h.tokens for h in hypotheses], np.concatenate(outputs))
    weight = onnx.metadata.rescore_ctc_weight
    best = max(zip(hypotheses, scores, strict=True), key=lambda p: weight * p[0].log_prob + (1 - weight) * p[1])[0]
    assert best.tokens != hypotheses[0].tokens  # or this test could not tell
    assert finals(recognize(Recognizer(onnx, search="rescore"), audio)) == detokenize(TOKENS[t] for t in best.tokens)
    beam = detokenize(TOKENS[t] for t in hypotheses[0].tokens)
    assert finals(recognize(Recognizer(onnx, search="beam"), audio)) == beam


@pytest.mark.parametrize("search", ["beam", "rescore"])
def test_the_language_model_takes_part(onnx: OnnxModel, pairs_lm: Path, conversation: np.ndarray, search: str) -> None:
    weights = LmWeights(weight=0.5, word_bonus=0.0, oov_penalty=30.0)
    plain = finals(recognize(Recognizer(onnx, search=search), conversation)).split()
    pairs = finals(recognize(Recognizer(onnx, search=search, lm=pairs_lm, lm_weights=weights), conversation))
    assert sum(len(word) == 2 for word in plain) < 0.4 * len(plain)
    assert sum(len(word) == 2 for word in pairs.split()) > 0.6 * len(pairs.split()) > 0
    shared = Recognizer(onnx, search=search, lm=load_lm(pairs_lm), lm_weights=weights)
    assert finals(recognize(shared, conversation)) == pairs


def test_which_language_model_is_the_default(onnx: OnnxModel, pairs_lm: Path) -> None:
    assert Recognizer(onnx).fusion is None
    assert Recognizer().fusion is not None
    assert Recognizer(lm=None).fusion is None and Recognizer(search="greedy").fusion is None
    with pytest.raises(ValueError, match="greedy takes no language model"):
        Recognizer(onnx, search="greedy", lm=pairs_lm)
    with pytest.raises(LmError, match=r"none\.lm cannot be read"):
        Recognizer(onnx, lm=pairs_lm.with_name("none.lm"))
    with pytest.raises(LmError, match="damaged"):
        Recognizer(onnx, lm=Path(__file__))


def test_the_decoder_hears_each_frame_in_one_utterance(onnx: OnnxModel, conversation: np.ndarray) -> None:
    heard = []

    class Listening(OnnxModel):
        def score(self, tokens: Sequence[Sequence[int]], encoder_out: np.ndarray) -> np.ndarray:
            heard.append(encoder_out)
            return super().score(tokens, encoder_out)

    recognizer = Recognizer(Listening(onnx.path))
    heard.clear()
    recognize(recognizer, conversation)
    assert len(heard) == 3
    features = fbank(conversation).numpy()
    outputs, cache = [], onnx.init_cache(1, 64)
    for start in range(0, len(features) - 3, 64):
        valid = min(67, len(features) - start)
        piece = np.zeros((1, 67, 80), np.float32)
        piece[0, :valid] = features[start : start + 67]
        _, encoder_out, cache = onnx.step(piece, np.array([valid]), cache)
        outputs.append(encoder_out[0, : min(valid // 4, 16)])
    np.testing.assert_allclose(np.concatenate(heard), np.concatenate(outputs), atol=1e-3)


def test_the_last_words_are_never_cut(onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray) -> None:
    """Whatever the length of the tail, all of its frames are decoded."""
    recognizer = Recognizer(onnx, search="greedy")
    for num_samples in range(30000, 42000, 617):
        features = fbank(conversation[:num_samples])[None]
        with torch.no_grad():
            best = tiny_model(features, torch.tensor([features.shape[1]]), 16, 64)[0][0].argmax(-1).tolist()
        kept = [TOKENS[t] for t, before in zip(best, [-1, *best[:-1]], strict=True) if t != before and t != 0]
        assert finals(recognize(recognizer, conversation[:num_samples])) == detokenize(kept)


def test_every_length_of_audio_gives_every_frame_it_has(onnx: OnnxModel) -> None:
    """One encoder frame for every four feature frames, also where the last ones overflow a chunk."""
    recognizer = Recognizer(onnx, search="greedy", chunk_ms=80)
    for num_samples in range(0, 3 * 1280, 40):
        stream = recognizer.stream()
        stream.accept_waveform(np.zeros(num_samples, np.int16))
        stream.finish()
        assert stream._segment._num_frames == num_frames(num_samples) // 4


@pytest.mark.parametrize("num_samples", [0, 1, 79, 80, 400, 559, 560, 561, 640])
def test_very_short_audio(recognizer: Recognizer, conversation: np.ndarray, num_samples: int) -> None:
    recognize(recognizer, conversation[8000 : 8000 + num_samples])


def test_text_is_there_before_the_audio_ends_and_knows_nothing_of_what_follows(
    recognizer: Recognizer, conversation: np.ndarray
) -> None:
    whole = recognize(recognizer, conversation)
    for seconds in (1.0, 2.5, 6.0, 9.0):
        stream = recognizer.stream()
        stream.accept_waveform(conversation[: int(seconds * 16000)])
        early = stream.events()
        assert early and early == whole[: len(early)]


def test_a_search_that_finds_nothing_more_takes_the_partial_back(recognizer: Recognizer) -> None:
    stream = recognizer.stream()
    stream._segment._partial_text = "HM"  # as if the search had meant to hear something
    stream.finish()
    assert [(event.type, event.text) for event in stream.events()] == [("partial", "")]


# ---- how the audio is cut ----


def test_text_does_not_depend_on_200_random_splits(onnx: OnnxModel, conversation: np.ndarray) -> None:
    recognizer = Recognizer(onnx, search="beam")
    audio = conversation[60000:140000]
    expected = recognize(recognizer, audio)
    assert finals(expected)
    rng = np.random.default_rng(1)
    for _ in range(200):
        assert recognize(recognizer, audio, random_cuts(rng, len(audio))) == expected


def test_text_does_not_depend_on_pushes_of_one_sample(recognizer: Recognizer, conversation: np.ndarray) -> None:
    audio = conversation[4000:40000]
    assert recognize(recognizer, audio, list(range(1, len(audio)))) == recognize(recognizer, audio)


def test_a_ten_minute_push(onnx: OnnxModel, conversation: np.ndarray) -> None:
    recognizer = Recognizer(onnx, search="greedy")
    audio = np.resize(conversation, 600 * 16000)
    events = recognize(recognizer, audio)
    assert len(finals(events)) > 1000
    assert events == recognize(recognizer, audio, list(range(1600, len(audio), 1600)))


@pytest.mark.parametrize("rate", [22050, 44100, 48000])
def test_any_sample_rate_in_any_split(recognizer: Recognizer, conversation: np.ndarray, rate: int) -> None:
    audio = soxr.resample(conversation[:100000], 16000, rate)
    events = recognize(recognizer, audio, rate=rate)
    expected = recognize(recognizer, conversation[:100000])[-1]
    assert events[-1].end == pytest.approx(expected.end, abs=0.3) and expected.end > 4
    assert len(events[-1].text) > 0.7 * len(expected.text)
    rng = np.random.default_rng(rate)
    for _ in range(10):
        assert recognize(recognizer, audio, random_cuts(rng, len(audio)), rate) == events


@pytest.mark.parametrize("rate", [8000, 11025, 48000])
def test_the_resampler_keeps_nothing_back_at_the_end(recognizer: Recognizer, rate: int) -> None:
    stream = recognizer.stream()
    for _ in range(100):
        stream.accept_waveform(np.zeros(rate // 100, np.float32), rate)
    stream.finish()
    assert stream._segment._fbank.num_samples == round(100 * (rate // 100) * 16000 / rate)


def test_int16_and_float32_and_strided_arrays_give_the_same(recognizer: Recognizer, sample: np.ndarray) -> None:
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


# ---- lost and broken audio ----


def shifted(events: list[Event], seconds: float) -> list[dict[str, object]]:
    """As dictionaries, `seconds` later."""
    moved = []
    for event in events:
        words = tuple(w._replace(start_s=w.start_s + seconds, end_s=w.end_s + seconds) for w in event.words)
        moved.append(type(event)(event.text, event.start + seconds, event.end + seconds, words).to_dict())
    return moved


def test_a_gap_ends_the_utterance_and_what_follows_is_as_new_at_its_true_time(
    recognizer: Recognizer, conversation: np.ndarray
) -> None:
    before, after = conversation[:37000], conversation[37000:90000]
    stream = recognizer.stream()
    stream.accept_waveform(before)
    assert stream.sample_offset == 37000
    stream.gap(8000)
    assert stream.sample_offset == 45000
    stream.accept_waveform(after)
    stream.finish()
    events = [event.to_dict() for event in stream.events()]
    gap = {"type": "gap", "text": "0.500 s of audio were lost", "start": 2.312, "end": 2.812, "words": []}
    expected = [event.to_dict() for event in recognize(recognizer, before)]
    assert expected[-1]["type"] == "final"
    assert events == [*expected, gap, *shifted(recognize(recognizer, after), 45000 / 16000)]


def test_gaps_and_changes_of_the_sample_rate_keep_the_clock_true(
    recognizer: Recognizer, conversation: np.ndarray
) -> None:
    stream = recognizer.stream()
    stream.accept_waveform(soxr.resample(conversation[:44100], 16000, 44100), 44100)
    stream.gap(44100, 44100)
    stream.gap(44101, 44100)
    stream.accept_waveform(np.zeros(48001, np.float32), 48000)
    stream.accept_waveform(np.zeros(16000, np.float32))
    seconds = len(soxr.resample(conversation[:44100], 16000, 44100)) / 44100 + 1 + 44101 / 44100 + 48001 / 48000 + 1
    assert stream.sample_offset == round(seconds * 16000)
    gaps = [event for event in stream.events() if isinstance(event, Gap)]
    assert gaps[0].end == gaps[1].start == pytest.approx(gaps[0].start + 1)


def test_samples_that_are_not_finite_are_silence_and_reported_once(
    recognizer: Recognizer, conversation: np.ndarray
) -> None:
    broken, silent = conversation.copy(), conversation.copy()
    broken[5000:5003] = np.nan, np.inf, -np.inf
    broken[90000:95000] = np.nan
    silent[5000:5003] = silent[90000:95000] = 0
    events = recognize(recognizer, broken)
    errors = [event for event in events if isinstance(event, Error)]
    assert len(errors) == 1 and errors[0].text.startswith("3 samples were not finite")
    assert [event for event in events if not isinstance(event, Error)] == recognize(recognizer, silent)
    assert recognize(recognizer, broken, random_cuts(np.random.default_rng(0), len(broken))) == events


def test_one_nan_does_not_spoil_resampled_audio(recognizer: Recognizer, conversation: np.ndarray) -> None:
    broken, silent = (soxr.resample(conversation[:90000], 16000, 48000) for _ in range(2))
    broken[20000], silent[20000] = np.nan, 0
    events = recognize(recognizer, broken, rate=48000)
    assert [event.text[:24] for event in events if isinstance(event, Error)] == ["1 sample was not finite "]
    assert finals(events) == finals(recognize(recognizer, silent, rate=48000)) != ""


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


def test_what_is_kept_for_rescoring_is_bounded_without_any_pause(onnx: OnnxModel, conversation: np.ndarray) -> None:
    stream = Recognizer(onnx, max_utterance_s=3, silence_after_speech_s=float("inf")).stream()
    speech = conversation[4000:80000]
    for _ in range(10):
        stream.accept_waveform(speech)
        kept = sum(len(frames) for frames in stream._segment._encoder_out)
        assert kept <= 1.5 * 3 / 0.04 + 16
    assert sum(isinstance(event, Final) for event in stream.events()) >= 9


# ---- the doors ----


def test_events_as_dictionaries(recognizer: Recognizer, conversation: np.ndarray) -> None:
    for event in recognize(recognizer, conversation):
        plain = event.to_dict()
        assert list(plain) == ["type", "text", "start", "end", "words"]
        assert all(list(word) == ["word", "start", "end", "confidence"] for word in plain["words"])
        assert json.loads(json.dumps(plain)) == plain
        assert all(word["start"] == round(word["start"], 3) for word in plain["words"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_ms": 0}, r"chunk_ms is 0; it must be a multiple of 40 in \[40, 5120\]"),
        ({"chunk_ms": 100}, "chunk_ms is 100"),
        ({"chunk_ms": 5160}, "chunk_ms is 5160"),
        ({"chunk_ms": 640.0}, "chunk_ms is 640.0"),
        ({"left_context_ms": -40}, r"left_context_ms is -40; it must be a multiple of 40 in \[0, 20480\]"),
        ({"left_context_ms": 20520}, "left_context_ms is 20520"),
        ({"search": "best"}, "search 'best' is not known: choose one of greedy, beam, rescore"),
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 1025}, "beam_size"),
        ({"max_utterance_s": 121}, r"max_utterance_s is 121; it must be in \(0, 120\]"),
        ({"max_utterance_s": float("nan")}, "max_utterance_s is nan"),
        ({"silence_after_speech_s": 0}, "silence_after_speech_s"),
    ],
)
def test_options_out_of_range(onnx: OnnxModel, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recognizer(onnx, **options)


@pytest.mark.parametrize(
    "options", [{"chunk_ms": 40, "left_context_ms": 0}, {"chunk_ms": 5120, "left_context_ms": 20480}]
)
def test_options_at_their_limits(onnx: OnnxModel, conversation: np.ndarray, options: dict[str, int]) -> None:
    assert recognize(Recognizer(onnx, **options), conversation)


def test_a_model_with_other_features_is_refused(onnx: OnnxModel) -> None:
    import copy
    import dataclasses

    other = copy.copy(onnx)
    other.metadata = dataclasses.replace(onnx.metadata, window="hamming")
    with pytest.raises(ModelError, match="window = 'hamming'"):
        Recognizer(other)


def test_a_model_without_decoder_can_do_beam_search_only(onnx: OnnxModel) -> None:
    import copy
    import dataclasses

    other = copy.copy(onnx)
    other.metadata = dataclasses.replace(onnx.metadata, decoder_onnx=b"")
    with pytest.raises(ValueError, match="search='beam'"):
        Recognizer(other)
    Recognizer(other, search="beam")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([0.0, 0.1], "samples are a list; expected a NumPy array"),
        (np.zeros(10), "dtype float64; expected float32 in ±1 or int16"),
        (np.zeros(10, np.int32), "dtype int32"),
        (np.zeros((10, 2), np.float32), r"shape \(10, 2\); expected \(num_samples,\)"),
    ],
)
def test_samples_of_another_kind(recognizer: Recognizer, samples: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recognizer.stream().accept_waveform(samples)


@pytest.mark.parametrize("rate", [0, -16000, 3999, 384001, 22050.5, "16000", True])
def test_sample_rates_out_of_range(recognizer: Recognizer, rate: int) -> None:
    with pytest.raises(ValueError, match=r"sample_rate is .* whole number of Hz in \[4000, 384000\]"):
        recognizer.stream().accept_waveform(np.zeros(10, np.float32), rate)
    with pytest.raises(ValueError, match="sample_rate"):
        recognizer.stream().gap(10, rate)


def test_after_finish_nothing_more_is_taken(recognizer: Recognizer) -> None:
    stream = recognizer.stream()
    with pytest.raises(ValueError, match="num_samples is -1; it must be at least 0"):
        stream.gap(-1)
    stream.finish()
    stream.finish()
    with pytest.raises(ValueError, match="finished"):
        stream.accept_waveform(np.zeros(10, np.float32))
    with pytest.raises(ValueError, match="finished"):
        stream.gap(10)


# ---- what is imported ----


def test_recognition_never_imports_torch(tiny_onnx: Path) -> None:
    code = f"""
import sys
import asr
assert "numpy" not in sys.modules and "onnxruntime" not in sys.modules, "import asr is not cheap"
from asr import Recognizer
import asr.streaming.captions, asr.streaming.cli, asr.streaming.microphone, asr.streaming.audio_file
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
        with pytest.raises(AttributeError, match="Recogniser"):
            _ = module.Recogniser
