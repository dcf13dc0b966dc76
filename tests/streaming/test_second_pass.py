"""The second pass: the final is what the model makes of the whole utterance, whatever the chunks were."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from support.arpa import packed
from support.recognition import finals, recognize

from asr import Recognizer, _core
from asr._core import EncoderStep, NgramLm, SegmentOptions, Stream
from asr.features import fbank
from asr.model.model import AsrModel
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.search import LmWeights, decode, text
from asr.streaming import Final, Partial


def second_looks(recognizer: Recognizer, audio: np.ndarray) -> tuple[list[np.ndarray], int]:
    """The features of every second pass over `audio`, without padding; and the number of finals."""
    stream, cache = Stream(recognizer.segment_options), {}
    found: list[np.ndarray] = []

    def work() -> None:
        while (step := stream.work()) is not None:
            assert isinstance(step, EncoderStep)
            if step.begins:
                cache[step.second_pass] = recognizer.onnx.init_cache(1, recognizer.left_context)
            if step.second_pass:
                found.append(step.features[: step.num_valid])
            log_probs, encoder_out, cache[step.second_pass], _ = recognizer.onnx.step(
                step.features[None], np.array([step.num_valid]), cache[step.second_pass]
            )
            stream.stepped(log_probs[0], encoder_out[0])

    stream.accept(audio)
    stream.finish()
    work()
    return found, sum(event[0] == "final" for event in stream.take_events())


@pytest.mark.parametrize("search", ["greedy", "beam", "rescore"])
def test_a_final_is_what_pytorch_makes_of_the_whole_utterance(
    onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray, search: str
) -> None:
    audio = conversation[:80000]  # one utterance
    features = fbank(audio)[None]
    with torch.no_grad():
        log_probs, encoder_out, _ = tiny_model(features, torch.tensor([features.shape[1]]), 0, 0)
    best = decode(
        log_probs[0].numpy(),
        search,
        score=lambda tokens: onnx.score(tokens, encoder_out[0].numpy()),
        ctc_weight=onnx.metadata.rescore_ctc_weight,
    )
    recognizer = Recognizer(onnx, search=search)
    for chunk_ms in (160, 640):
        events = recognize(replace(recognizer, chunk_ms=chunk_ms), audio)
        assert finals(events) == text(best, onnx.tokens)
    assert finals(events) != finals(recognize(replace(recognizer, second_pass=False), audio))  # or it is no test


def test_each_utterance_is_encoded_from_its_first_frame_to_its_last(onnx: OnnxModel, conversation: np.ndarray) -> None:
    looks, num_finals = second_looks(Recognizer(onnx, search="greedy", text="plain", punctuation=None), conversation)
    assert len(looks) == num_finals == 3
    features, end = fbank(conversation).numpy(), 0
    for seen in looks:
        # Before it, what was said just before; three frames more are what the subsampling looks ahead.
        spans = [features[start : start + len(seen)] for start in range(max(end - 500, 0), end + 1, 4)]
        same = [len(span) == len(seen) and np.allclose(seen, span, atol=1e-3) for span in spans]
        assert same.count(True) == 1
        end = max(end - 500, 0) + 4 * same.index(True) + len(seen) // 4 * 4
    assert end == len(features) // 4 * 4
    assert [len(seen) % 4 for seen in looks[:-1]] == [3, 3]


def test_the_text_of_one_pass_is_a_partial_before_it(recognizer: Recognizer, conversation: np.ndarray) -> None:
    def texts(recognizer: Recognizer, *types: type) -> list[str]:
        return [event.raw for event in recognize(recognizer, conversation) if isinstance(event, types)]

    recognizer = replace(recognizer, search="beam")  # without rescoring
    one_pass = replace(recognizer, second_pass=False)
    alone = texts(one_pass, Partial, Final)
    expected = [text for i, text in enumerate(alone) if not i or text != alone[i - 1]]
    assert texts(recognizer, Partial) == expected
    assert len(expected) > len(texts(one_pass, Partial))


def test_silence_is_encoded_once(onnx: OnnxModel) -> None:
    assert second_looks(Recognizer(onnx, search="beam"), np.zeros(16000 * 12, np.float32)) == ([], 0)


def test_long_utterances_are_taken_in_chunks(
    onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = conversation[:80000]
    recognizer = Recognizer(onnx, search="greedy", left_context_ms=400)
    whole = finals(recognize(recognizer, audio))
    shorter = partial(_core.SegmentOptions, max_full_context=50)
    monkeypatch.setattr("asr.streaming.recognizer.SegmentOptions", shorter)
    recognizer = replace(recognizer)
    features = fbank(audio)[None]
    with torch.no_grad():
        log_probs = tiny_model(features, torch.tensor([features.shape[1]]), 50, 10)[0]
    chunked = finals(recognize(recognizer, audio))
    assert chunked == text(decode(log_probs[0].numpy(), "greedy"), onnx.tokens) != whole


def test_what_only_the_end_of_a_sentence_brings_up_gets_a_second_look() -> None:
    # The word under way counts as much as it does alone; finished, it is likely at the beginning of a sentence.
    tokens = ["", "<unk>", "", "▁A"]
    lm = NgramLm(np.frombuffer(packed(["-99 <s> 0", "-1 </s>", "-3 A 0"], ["-0.01 <s> A"]), np.uint8))
    options = SegmentOptions(
        tokens=tokens,
        chunk_size=16,
        second_pass=True,
        search="rescore",
        beam_size=8,
        fusion=LmWeights(word_bonus=2.0).fusion(lm, tokens),
        rescore_ctc_weight=0.5,
        silence_after_speech_s=0.8,
        min_silence_after_speech_s=0.8,
        silence_without_speech_s=5.0,
        max_utterance_s=20.0,
    )
    stream = Stream(options)
    stream.accept(np.zeros(8000, np.float32))
    stream.finish()
    steps = []
    while isinstance(work := stream.work(), EncoderStep):
        steps.append(work.second_pass)
        num_frames = (len(work.features) - 3) // 4
        log_probs = np.full((num_frames, 4), -20.0, np.float32)
        log_probs[:, 0] = 0.0
        log_probs[0] = np.log([0.6, 1e-9, 1e-9, 0.4])
        stream.stepped(log_probs, np.ones((num_frames, 5), np.float32))
    assert steps == [False, True]
    assert sorted(work.tokens) == [[], [3]]
    assert work.encoder_out.shape == (12, 5)
    stream.scored([0.0] * len(work.tokens))
    assert [event[:2] for event in stream.take_events()] == [("partial", "A"), ("final", "A")]


def test_its_cache_is_held_no_longer_than_it_runs(recognizer: Recognizer, conversation: np.ndarray) -> None:
    """A device has room for so many of them."""
    stream = recognizer.stream()
    stream.accept_waveform(conversation)
    assert finals(stream.events()) and set(stream.pasts) == {False}
