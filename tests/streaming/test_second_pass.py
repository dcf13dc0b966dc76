"""The second pass: the final is the result for several views of the whole utterance."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support.arpa import packed
from support.recognition import ended, finals, recognize
from support.toy_model import toy_decoder, toy_metadata
from support.work import answer_scores, answer_step, encoder_step, is_encoder, scored_tokens

from asr import Recognizer, _core
from asr._core import END_SILENCE, LmFusion, NgramLm, Options, SegmentOptions, Stream
from asr.features import NUM_MEL_BINS, fbank
from asr.model.model import AsrModel
from asr.runtime.joint_search import joint_search
from asr.runtime.onnx_decoder import decoder_of
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.search import LmWeights, decode, text
from asr.streaming import Final, Partial
from asr.training.features import warped_bins


def second_looks(recognizer: Recognizer, audio: np.ndarray) -> tuple[list[np.ndarray], int]:
    """The features of every pass over an utterance in `audio`, with all windows joined; and the number of finals."""
    stream, cache = Stream(recognizer.segment_options), {}
    found: list[np.ndarray] = []
    windows: dict[int, list[np.ndarray]] = {}

    def run() -> None:
        while (work := stream.work()) is not None:
            step = encoder_step(work)
            if step.begins:
                cache[step.slot] = recognizer.onnx.init_cache(1, recognizer.left_context)
            if step.slot:
                windows.setdefault(step.slot, []).append(step.features[: step.num_valid])
            if step.ends:  # the last three feature frames of a window are the first ones of the next window
                *before, last = windows.pop(step.slot)
                found.append(np.concatenate([*(window[:-3] for window in before), last]))
            log_probs, encoder_out, cache[step.slot], _ = recognizer.onnx.step(
                step.features[None], np.array([step.num_valid]), cache[step.slot]
            )
            answer_step(stream, log_probs[0], encoder_out[0])

    stream.accept(audio)
    stream.finish()
    run()
    return found, sum(event[0] == "final" for event in stream.take_events())


def segment_options(tokens: list[str], fusion: LmFusion | None = None, **search: Any) -> SegmentOptions:
    """Two passes, in chunks of 640 ms."""
    options = Options(rescore_ctc_weight=0.5, silence_after_speech_s=0.8, min_silence_after_speech_s=0.8, **search)
    return SegmentOptions(options, toy_metadata(tokens), fusion=fusion, decoder=toy_decoder(tokens))


def of_a_longer_voice(features: torch.Tensor) -> torch.Tensor:
    bins = torch.from_numpy(warped_bins(1.04))
    below = bins.long().clamp(max=NUM_MEL_BINS - 2)
    return torch.lerp(features[:, below], features[:, below + 1], bins - below)


def views(features: torch.Tensor) -> list[torch.Tensor]:
    """The network's input in a second pass over an utterance with `features`, (T, 80), which gives T / 4 frames."""
    earlier = torch.cat([features[:1], features[:1], features])[: len(features) // 4 * 4 + 3]
    return [features, of_a_longer_voice(features), earlier]


def mean_of_views(
    model: AsrModel, features: torch.Tensor, chunk: int, left: int = -1, max_window: int = 0, max_left: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities for the search of a final, and the encoder output for the decoder, computed by PyTorch.

    chunk, left: of the first pass, in encoder frames. max_window, max_left: of the second.
    """

    def run(features: torch.Tensor, chunk: int, left: int) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            log_probs, encoder_out, _ = model(features[None], torch.tensor([len(features)]), chunk, left)
        return log_probs[0], encoder_out[0]

    passes = [run(view, max_window, max_left) for view in views(features)]
    every = torch.stack([log_probs for log_probs, _ in [*passes, run(features, chunk, left)]])
    return every.mean(0).log_softmax(-1).numpy(), passes[0][1].numpy()


@pytest.mark.parametrize("search", ["greedy", "beam", "rescore", "joint"])
def test_final_equals_pytorch_on_the_whole_utterance(
    onnx: OnnxModel, tiny_model: AsrModel, conversation: np.ndarray, search: str
) -> None:
    audio = conversation[: 80000 - END_SILENCE]  # one utterance, and one window of the second pass
    recognizer = Recognizer(onnx, search=search)
    for chunk in (4, 16):
        log_probs, encoder_out = mean_of_views(tiny_model, fbank(ended(audio)), chunk, recognizer.left_context)
        if search == "joint":
            best = joint_search(log_probs, recognizer.attention_decoder, encoder_out)[0]
        else:
            best = decode(
                log_probs,
                search,
                score=lambda tokens, memory=encoder_out: decoder_of(onnx).score(tokens, memory),
                ctc_weight=onnx.metadata.rescore_ctc_weight,
            )
        events = recognize(recognizer.with_options(chunk_ms=40 * chunk), audio)
        assert finals(events) == text(best, onnx.tokens)
    assert finals(events) != finals(recognize(recognizer.with_options(second_pass=False), audio))  # or no test


def test_each_utterance_is_encoded_from_its_first_to_its_last_word(onnx: OnnxModel, conversation: np.ndarray) -> None:
    looks, num_finals = second_looks(Recognizer(onnx, search="greedy", text="plain", punctuation=None), conversation)
    assert len(looks) / 3 == num_finals == 3
    features, end = fbank(ended(conversation)).numpy(), 0
    is_silent = (features < -15).all(1)
    left_out = []
    for seen, *others in zip(looks[::3], looks[1::3], looks[2::3], strict=True):
        # Context: the audio just before it; three more frames for the look-ahead of the subsampling.
        starts = range(max(end - 500, 0), len(features) - len(seen) + 1, 4)
        (start,) = (i for i in starts if np.allclose(seen, features[i : i + len(seen)], atol=1e-3))
        begin = start + len(seen) - len(others[0])
        assert is_silent[end:begin].all()
        left_out.append(begin - end)
        end = start + len(seen) // 4 * 4
        for other, view in zip(others, views(torch.from_numpy(seen[begin - start :]))[1:], strict=True):
            np.testing.assert_allclose(other, view.numpy(), atol=1e-4)
    assert is_silent[end:].all()
    assert sum(left_out) > 0
    assert [len(seen) % 4 for seen in looks[:-3]] == [3] * 6


def test_text_of_one_pass_precedes_as_a_partial(recognizer: Recognizer, conversation: np.ndarray) -> None:
    def texts(recognizer: Recognizer, *types: type) -> list[str]:
        return [event.raw for event in recognize(recognizer, conversation) if isinstance(event, types)]

    recognizer = recognizer.with_options(search="beam")  # without rescoring
    one_pass = recognizer.with_options(second_pass=False)
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
    shorter = partial(_core.SegmentOptions, second_pass_window=50)
    monkeypatch.setattr("asr.streaming.recognizer.SegmentOptions", shorter)
    log_probs, _ = mean_of_views(tiny_model, fbank(ended(audio)), 16, 10, 50, 10)
    chunked = finals(recognize(recognizer.with_options(), audio))
    assert chunked == text(decode(log_probs, "greedy"), onnx.tokens) != whole


def test_words_found_at_sentence_end_get_second_pass() -> None:
    # The unfinished word has the same score as alone; finished, it is likely at the beginning of a sentence.
    tokens = ["", "<unk>", "", "▁A"]
    lm = NgramLm(np.frombuffer(packed(["-99 <s> 0", "-1 </s>", "-3 A 0"], ["-0.01 <s> A"]), np.uint8))
    options = segment_options(
        tokens, search="rescore", beam_size=8, fusion=LmWeights(word_bonus=2.0).fusion(lm, tokens)
    )
    stream = Stream(options)
    stream.accept(np.zeros(8000 - END_SILENCE, np.float32))
    stream.finish()
    steps = []
    while is_encoder(work := stream.work()):
        step = encoder_step(work)
        steps.append((step.slot, step.begins, step.ends))
        num_frames = (len(step.features) - 3) // 4
        log_probs = np.full((num_frames, 4), -20.0, np.float32)
        log_probs[:, 0] = 0.0
        log_probs[0] = np.log([0.6, 1e-9, 1e-9, 0.4])
        answer_step(stream, log_probs, np.ones((num_frames, 5), np.float32))
    assert steps == [(0, True, False), (1, True, True), (2, True, True), (3, True, True)]
    assert work is not None and sorted(scored_tokens(work)) == [[], [3]]
    assert work.inputs["encoder_out"].shape == (1, 12, 5)
    answer_scores(stream, [0.0] * 2)
    assert [event[:2] for event in stream.take_events()] == [("partial", "A"), ("final", "A")]


def test_cache_is_released_after_the_second_pass(recognizer: Recognizer, conversation: np.ndarray) -> None:
    """The memory of a device limits the number of caches."""
    for search in ("rescore", "joint"):  # the latter with a state of the decoder
        stream = recognizer.with_options(search=search, lm=None).stream()
        stream.accept_waveform(conversation)
        assert finals(stream.events()) and set(stream.states) == {0}


@pytest.mark.parametrize("push", [160, 5000, 160000])
def test_early_windows_run_between_chunks(push: int) -> None:
    """Otherwise they would delay the partial of the chunk."""
    stream = Stream(segment_options(["", "<unk>", "", "▁A"], search="greedy"))
    audio = np.random.default_rng(0).normal(0, 0.01, 160000).astype(np.float32)  # 10 s
    last_chunk, runs = 0, []
    for begin in range(0, len(audio), push):
        wanted = stream.num_wanted
        stream.accept(audio[begin : begin + push])
        while (work := stream.work()) is not None:
            step = encoder_step(work)
            num_frames = (step.num_frames - 3) // 4
            if step.slot == 0:
                last_chunk = begin
            else:
                runs.append((step.slot, step.begins, num_frames))
                assert push > 160 or (0.45 < (begin - last_chunk) / 10240 < 0.55 and 0 < wanted <= push)
            log_probs = np.full((num_frames, 4), -20.0, np.float32)
            log_probs[::3, 3] = log_probs[1::3, 0] = log_probs[2::3, 0] = 0.0
            answer_step(stream, log_probs, np.zeros((num_frames, 2), np.float32))
    assert runs == [(slot, True, 125) for slot in (1, 2, 3)]


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_large_vocabulary_keeps_the_likeliest_tokens(search: str) -> None:
    tokens = ["", "<unk>", "", *(f"▁W{i}" for i in range(3, 5000))]
    rng = np.random.default_rng(1)
    stream = Stream(segment_options(tokens, search=search))
    stream.accept(np.zeros(16000 * 3 - END_SILENCE, np.float32))
    stream.finish()
    spoken, passes, num_frames = rng.integers(3, len(tokens), 75), [[]], 0
    while (work := stream.work()) is not None:
        step = encoder_step(work)
        count = (step.num_frames - 3) // 4
        scores = rng.normal(0, 1, (count, len(tokens))).astype(np.float32)
        if step.slot:
            passes.append([])
            num_frames = 0
        scores[np.arange(count), spoken[num_frames : num_frames + count]] += rng.normal(11, 2, count)
        log_probs = torch.from_numpy(scores).log_softmax(-1)
        answer_step(stream, log_probs.numpy(), np.zeros((count, 2), np.float32))
        num_frames += count
        passes[-1].append(log_probs[: step.num_valid // 4])
        if not step.slot:
            assert stream.num_bytes_kept <= num_frames * 513 * 4
    assert len(passes) == 4
    mean = torch.stack([torch.cat(each) for each in passes]).mean(0).log_softmax(-1).numpy()
    expected = text(decode(mean, search), tokens)
    assert stream.take_events()[-1][1] == expected
    assert len(expected.split()) > 70


@pytest.mark.parametrize("odd", range(4))
def test_first_pass_and_views_count_equally(odd: int) -> None:
    tokens = ["", "<unk>", "", "▁A", "▁B"]
    options = segment_options(tokens, search="greedy")

    def event(usual: tuple[float, float], of_odd: tuple[float, float]) -> tuple:
        """The final if three of the four runs give A and B the first log-probabilities, and one run the second."""
        stream = Stream(options)
        stream.accept(np.zeros(8000 - END_SILENCE, np.float32))
        stream.finish()
        for run in range(4):
            step = encoder_step(stream.work())
            num_frames = (step.num_frames - 3) // 4
            log_probs = np.full((num_frames, len(tokens)), -90.0, np.float32)
            log_probs[:, 0] = 0.0
            log_probs[3] = -300, -300, -300, *(of_odd if run == odd else usual)
            answer_step(stream, log_probs, np.zeros((num_frames, 2), np.float32))
        assert stream.work() is None
        return stream.take_events()[-1]

    def final(usual: tuple[float, float], of_odd: tuple[float, float]) -> str:
        return event(usual, of_odd)[1]

    assert final((-1.0, -1.1), (-9.0, -8.72)) == "A"
    assert final((-1.0, -1.1), (-9.0, -8.68)) == "B"
    # One run may exclude a token that others allow, so log-probabilities are at least -60.
    assert final((-1.0, -20.0), (-250.0, -1.0)) == "B"
    assert final((-1.0, -21.0), (-250.0, -1.0)) == "A"
    # The mean is normalized again, so an offset in all runs does not change confidences.
    certain, scaled = (event((x, x - 1.0), (x, x - 1.0))[4][0] for x in (-1.0, -6.0))
    assert certain[0] == scaled[0] == "A" and certain[3] == pytest.approx(scaled[3], abs=1e-6)
