"""The live recognizer: its text, and the time of its events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TOKENS
from support.recognition import ended, finals, recognize
from support.work import answer_step, encoder_step

from asr import Recognizer, _core
from asr._core import END_SILENCE, CtcPrefixBeamSearch
from asr.features import SAMPLE_RATE, fbank, num_frames
from asr.lm.packed import BUNDLED, LmError, load_lm
from asr.model.model import AsrModel
from asr.runtime.onnx_decoder import decoder_of
from asr.runtime.onnx_model import OnnxModel
from asr.streaming import Final, Partial
from asr.text import detokenize


def test_partials_grow_into_finals_one_for_each_utterance(recognizer: Recognizer, conversation: np.ndarray) -> None:
    events = recognize(recognizer, conversation)
    ends = [i for i, event in enumerate(events) if isinstance(event, Final)]
    assert len(ends) == 3
    assert all(isinstance(event, Partial) for i, event in enumerate(events) if i not in ends)
    assert all(isinstance(events[i - 1], Partial) for i in ends)
    for event in events:
        assert event.text == " ".join(word.word for word in event.words) != ""
        assert (event.start, event.end) == (event.words[0].start, event.words[-1].end)
        times = [t for word in event.words for t in (word.start, word.end)]
        assert times == sorted(times)
        assert all(0 < word.confidence <= 1 for word in event.words)
    speech = [(0.2, 5.6), (7.2, 9.8), (11.2, len(conversation) / 16000)]
    for i, (start, end) in zip(ends, speech, strict=True):
        assert start <= events[i].start < events[i].end <= end + 0.2


@pytest.mark.parametrize("chunk_ms", [160, 640, 1280])
def test_equals_the_masked_full_pass_in_pytorch(
    onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray, chunk_ms: int
) -> None:
    """Includes the endpoint and the incomplete last chunk: the encoder keeps its context, and no frame is lost or used
    twice."""
    events = recognize(Recognizer(onnx, search="greedy", second_pass=False, chunk_ms=chunk_ms), conversation)
    features = fbank(conversation)[None]
    with torch.no_grad():
        log_probs = tiny_model(features, torch.tensor([features.shape[1]]), chunk_ms // 40, 64)[0][0]
    best = log_probs.argmax(-1)
    kept = [int(t) for t, before in zip(best, [-1, *best[:-1].tolist()], strict=True) if t != before and t != 0]
    # The end of an utterance ends its last word, even without a word boundary token.
    assert finals(events).replace(" ", "") == detokenize(TOKENS[t] for t in kept).replace(" ", "")


def steps(onnx: OnnxModel, audio: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """log_probs and encoder_out, (num_frames, ...) float32, of each chunk of 16 encoder frames."""
    features, cache = fbank(audio).numpy(), onnx.init_cache(1, 64)
    for start in range(0, len(features) - 3, 64):
        valid = min(67, len(features) - start)
        piece = np.zeros((1, 67, 80), np.float32)
        piece[0, :valid] = features[start : start + 67]
        log_probs, encoder_out, cache, _ = onnx.step(piece, np.array([valid]), cache)
        num_frames = min(valid // 4, 16)
        yield log_probs[0, :num_frames], encoder_out[0, :num_frames]


def test_rescoring_takes_the_best_of_search_and_decoder(onnx: OnnxModel, conversation: np.ndarray) -> None:
    audio = conversation[:80000]  # one utterance
    search, outputs = CtcPrefixBeamSearch(beam_size=8), []
    for log_probs, encoder_out in steps(onnx, audio):
        search.advance(log_probs)
        outputs.append(encoder_out)
    hypotheses = search.hypotheses(8)
    scores = decoder_of(onnx).score([h.tokens for h in hypotheses], np.concatenate(outputs))
    weight = onnx.metadata.rescore_ctc_weight
    best = max(zip(hypotheses, scores, strict=True), key=lambda p: weight * p[0].log_prob + (1 - weight) * p[1])[0]
    assert best.tokens != hypotheses[0].tokens  # otherwise the test proves nothing
    assert finals(recognize(Recognizer(onnx, search="rescore", second_pass=False), audio)) == detokenize(
        TOKENS[t] for t in best.tokens
    )
    beam = detokenize(TOKENS[t] for t in hypotheses[0].tokens)
    assert finals(recognize(Recognizer(onnx, search="beam", second_pass=False), audio)) == beam


@pytest.mark.parametrize("search", ["beam", "rescore"])
def test_the_language_model_takes_part(onnx: OnnxModel, pairs_lm: Path, conversation: np.ndarray, search: str) -> None:
    weights = {"lm_weight": 0.5, "lm_word_bonus": 0.0, "lm_oov_penalty": 30.0}
    plain = finals(recognize(Recognizer(onnx, search=search), conversation)).split()
    pairs = finals(recognize(Recognizer(onnx, search=search, lm=pairs_lm, **weights), conversation))
    assert sum(len(word) == 2 for word in plain) < 0.4 * len(plain)
    assert sum(len(word) == 2 for word in pairs.split()) > 0.6 * len(pairs.split()) > 0
    shared = Recognizer(onnx, search=search, lm=load_lm(pairs_lm), **weights)
    assert finals(recognize(shared, conversation)) == pairs


def test_which_language_model_is_the_default(onnx: OnnxModel, pairs_lm: Path) -> None:
    assert Recognizer(onnx).fusion is None
    assert Recognizer().fusion is not None
    assert Recognizer(lm=None).fusion is None
    for search in ("greedy", "joint"):
        assert Recognizer(search=search).fusion is None
        with pytest.raises(ValueError, match=f"{search} takes no language model"):
            Recognizer(onnx, search=search, lm=pairs_lm)
        with pytest.raises(ValueError, match=f"search {search} takes no language model, hotwords or phrases"):
            Recognizer(onnx, search=search, phrases=["A B"])
    with pytest.raises(LmError, match=r"none\.lm cannot be read"):
        Recognizer(onnx, lm=pairs_lm.with_name("none.lm"))
    with pytest.raises(LmError, match="damaged"):
        Recognizer(onnx, lm=Path(__file__))


def test_bundled_files_have_a_name(pairs_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_default = Recognizer()
    named = by_default.with_options(model="bundled", lm="bundled", neural_lm="bundled")
    assert named.onnx.path == by_default.onnx.path and named.neural_model and by_default.neural_model
    assert by_default.with_options(lm=pairs_lm).neural_model is None
    copy = pairs_lm.with_name("copy.lm")  # as large as one of `asr lm adapt`
    copy.symlink_to(BUNDLED)
    assert by_default.with_options(lm=copy).neural_model is not None
    assert by_default.with_options(lm=copy, neural_lm=None).neural_model is None
    monkeypatch.setattr("asr.streaming.recognizer.bundled_neural_lm", lambda: None)
    with pytest.raises(ValueError, match="neural_lm: this installation has no bundled neural language model"):
        Recognizer(neural_lm="bundled")


def test_the_decoder_gets_each_frame_in_one_utterance(onnx: OnnxModel, conversation: np.ndarray) -> None:
    encoded = []

    def listen(inputs: dict[str, np.ndarray], *arguments: Any) -> Any:
        encoded.append(inputs["encoder_out"][0])
        return run(inputs, *arguments)

    recognizer = Recognizer(OnnxModel(onnx.path), second_pass=False)
    network = recognizer.network("decoder")
    run, network.run = network.run, listen
    recognize(recognizer, conversation)
    assert len(encoded) == 3
    outputs = [encoder_out for _, encoder_out in steps(onnx, ended(conversation))]
    np.testing.assert_allclose(np.concatenate(encoded), np.concatenate(outputs), atol=1e-3)


def test_the_last_words_are_never_cut(onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray) -> None:
    """All frames of the last chunk are decoded, whatever its length."""
    recognizer = Recognizer(onnx, search="greedy", second_pass=False)
    for num_samples in range(30000, 42000, 617):
        features = fbank(ended(conversation[:num_samples]))[None]
        with torch.no_grad():
            best = tiny_model(features, torch.tensor([features.shape[1]]), 16, 64)[0][0].argmax(-1).tolist()
        kept = [TOKENS[t] for t, before in zip(best, [-1, *best[:-1]], strict=True) if t != before and t != 0]
        assert finals(recognize(recognizer, conversation[:num_samples])) == detokenize(kept)


def test_audio_of_any_length_gives_all_frames(onnx: OnnxModel) -> None:
    """One encoder frame for every four feature frames, with those of the silence after the end."""
    recognizer = Recognizer(onnx, search="greedy", chunk_ms=80)
    for num_samples in (*range(0, 3 * 1280, 40), 1, 79, 559, 561):
        stream = recognizer.stream()
        stream.accept_waveform(np.zeros(num_samples, np.int16))
        stream.finish()
        assert stream._core.num_frames == (num_frames(num_samples + END_SILENCE) // 4 if num_samples else 0)


def test_text_comes_early_and_ignores_later_audio(recognizer: Recognizer, conversation: np.ndarray) -> None:
    whole = recognize(recognizer, conversation)
    for seconds in (1.0, 2.5, 6.0, 9.0):
        stream = recognizer.stream()
        stream.accept_waveform(conversation[: int(seconds * 16000)])
        early = stream.events()
        assert early and early == whole[: len(early)]


def test_empty_second_pass_takes_the_partial_back(recognizer: Recognizer) -> None:
    stream = _core.Stream(recognizer.with_options(text="plain", punctuation=None).segment_options)
    blanks, letter = (np.full((16, len(TOKENS)), -20, np.float32) for _ in range(2))
    blanks[:, 0] = letter[:, 0] = 0
    letter[5, [0, TOKENS.index("A")]] = -20, 0
    encoder_out = np.zeros((16, recognizer.onnx.metadata.dim), np.float32)
    stream.accept(np.zeros(16000, np.int16))
    answer_step(stream, letter, encoder_out)
    stream.finish()
    steps = 0
    while (work := stream.work()) is not None:
        step = encoder_step(work)
        num_frames = len(step.features) // 4
        assert step.begins == step.ends == (step.slot > 0)
        answer_step(
            stream,
            np.resize(blanks, (num_frames, len(TOKENS))),
            np.resize(encoder_out, (num_frames, encoder_out.shape[1])),
        )
        steps += 1
    assert steps == 4  # the rest of the second one, and the second pass in three passes
    assert [event[:2] for event in stream.take_events()] == [("partial", "a"), ("partial", "")]


def test_a_variant_shares_what_is_big() -> None:
    recognizer = Recognizer()
    variant = recognizer.with_options(chunk_ms=160, silence_after_speech_s=0.4)
    assert variant.chunk_ms == 160
    assert variant.onnx is recognizer.onnx and variant.language_model is recognizer.language_model is not None
    assert recognizer.with_options(search="greedy").fusion is None
    assert variant.fusion is recognizer.with_options(text="plain").fusion is recognizer.fusion is not None
    assert variant.punctuator is recognizer.punctuator is not None
    assert recognizer.with_options(punctuation=None).punctuator is None
    lighter = recognizer.with_options(lm_weight=0.5)
    assert lighter.language_model is recognizer.language_model and lighter.fusion is not recognizer.fusion
    with pytest.raises(ValueError, match="chunk_ms is 100"):
        recognizer.with_options(chunk_ms=100)


@pytest.mark.parametrize("ending", ["finish", "end_utterance", "gap"])
@pytest.mark.parametrize(
    ("cut_s", "last"), [(0.96, "MAN"), (1.36, "WALKED"), (2.72, "ROAD"), (4.32, "RAN"), (5.12, "HIM")]
)
def test_last_word_before_a_cut_is_whole(sample: np.ndarray, cut_s: float, last: str, ending: str) -> None:
    """The audio ends with the last sound of a word. Without silence after it, each of these words is wrong."""
    stream = Recognizer().stream()
    stream.accept_waveform(sample[: round(cut_s * SAMPLE_RATE)], SAMPLE_RATE)
    if ending == "gap":
        stream.gap(SAMPLE_RATE)
    else:
        getattr(stream, ending)()
    stream.finish()
    (final,) = (event for event in stream.events() if isinstance(event, Final))
    assert final.raw_words[-1].word == last
    assert final.raw_words[-1].end <= final.end <= cut_s
    assert final.endpoint == "end_of_audio"
