"""A long recording: every word once and at its time, however the audio is cut. With a hand-made network."""

from __future__ import annotations

import ctypes
import gc
from typing import ClassVar

import numpy as np
import pytest
from support.frame_positions import FramePositions
from support.toy_model import toy_metadata
from support.work import answer_step, encoder_step

from asr import _core

TOKENS = ["", "<unk>", "", *(f"\u2581{letter}" for letter in "ABCDEFGH")]
FRAME_S = 0.04
PAUSE = 10
"""Frames of silence before a word that begins before its own token instead of at the end of the previous word."""


def recording(rng: np.random.Generator, num_frames: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The most likely token of each frame, (num_frames,), and (frame, token) of each word.

    Stretches of speech, from one word to a minute without a pause, and pauses of up to 12 s without words.
    """
    ids = np.zeros(num_frames, np.int64)
    words: list[tuple[int, int]] = []
    now = 5
    while now < num_frames - 60:
        for _ in range(int(rng.choice([1, 5, 40, 400]))):
            if now >= num_frames - 60:
                break
            token = int(rng.integers(3, len(TOKENS)))
            length = int(rng.integers(1, 3))
            ids[now : now + length] = token
            words.append((now, token))
            now += length + int(rng.integers(1, 5))
        now += int(rng.choice([PAUSE, 20, 45, 300]))
    return ids, words


MALLINFO = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()


class _MallInfo(ctypes.Structure):
    _fields_: ClassVar = [(name, ctypes.c_size_t) for name in MALLINFO]


def bytes_in_use() -> int:
    """Bytes allocated by glibc's malloc, including mapped ones."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _MallInfo
    gc.collect()
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def recognize(
    ids: np.ndarray, second_pass: bool, in_use: list[int] | None = None
) -> list[tuple[str, str, list[tuple[str, float]]]]:
    """(endpoint, text, words with their start) of each final, with `ids` as the network's outputs.

    in_use: gets the bytes in use after every ten minutes.
    """
    stream = _core.Stream(
        _core.SegmentOptions(
            _core.Options(second_pass=second_pass, search="beam", beam_size=4),
            toy_metadata(TOKENS),
        )
    )
    log_probs = np.full((len(ids) + 750, len(TOKENS)), -12.0, np.float32)
    log_probs[np.arange(len(log_probs)), np.pad(ids, (0, 750))] = 0.0
    finals = []
    positions, rng = FramePositions(), np.random.default_rng(0)
    num_pushes = len(ids) // 25
    for number in range(num_pushes + 1):
        if number < num_pushes:
            stream.accept(rng.standard_normal(640 * 25).astype(np.float32) * 0.01)
        else:
            stream.finish()
        while (work := stream.work()) is not None:
            step = encoder_step(work)
            count = (step.num_frames - 3) // 4
            start = positions.start(step)
            answer_step(stream, log_probs[start : start + count], np.zeros((count, 2), np.float32))
        for type, text, _, _, words, _, endpoint, *_ in stream.take_events():
            if type == "final":
                finals.append((endpoint, text, [(word[0], word[1]) for word in words]))
        if in_use is not None and number % 600 == 599:
            in_use.append(bytes_in_use())
    return finals


@pytest.mark.parametrize("second_pass", [True, False])
def test_each_word_occurs_once_in_its_place(second_pass: bool) -> None:
    ids, words = recording(np.random.default_rng(1), 25 * 600)  # ten minutes
    finals = recognize(ids, second_pass)
    assert {endpoint for endpoint, *_ in finals} >= {"max_utterance", "silence_after_speech"}
    found = [word for *_, of_final in finals for word in of_final]
    assert [word for word, _ in found] == [TOKENS[token][1:] for _, token in words]
    late = [start - FRAME_S * frame for (_, start), (frame, _) in zip(found, words, strict=True)]
    # Words begin two frames early after a pause, and at the end of the word before in fluent speech.
    assert min(late) > -5.5 * FRAME_S and max(late) < 1e-6
    frames = [frame for frame, _ in words]
    after_pause = [i for i in range(1, len(words)) if frames[i] - frames[i - 1] > PAUSE]
    assert len(after_pause) > 20 and max(abs(late[i] + 2 * FRAME_S) for i in after_pause) < 1e-6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording() -> None:
    in_use: list[int] = []
    recognize(recording(np.random.default_rng(1), 25 * 3600)[0], True, in_use)
    assert len(in_use) == 6
    # The features of an utterance of 30 s take 1 MB; those of ten minutes take 19 MB.
    assert max(in_use[1:]) - in_use[0] < 2e6
