"""Validation while training counts the errors of the best path, utterance by utterance."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace

import numpy as np
import torch
from conftest import TOKENS

from asr.evaluation.wer import WordErrors, count_errors
from asr.features import FRAME_SHIFT, FRAME_SHIFT_S, fbank
from asr.model.model import AsrModel
from asr.tokenizer import BLANK_ID, Tokenizer
from asr.training.validate import VALIDATION_CHUNKS, validate


def test_errors_are_of_each_best_path_alone(tiny_model: AsrModel, conversation: np.ndarray) -> None:
    tokenizer = Tokenizer("char", TOKENS)
    expected = {name: WordErrors() for name, _ in VALIDATION_CHUNKS}
    clips = []
    num_repeats = num_blanks = num_words = 0
    for features in fbank(conversation).split([171, 333, 2, 400, 90, 264, 113]):
        num_frames = len(features)
        texts = []
        for _, chunk_size in VALIDATION_CHUNKS:
            with torch.no_grad():
                log_probs, _, lengths = tiny_model(features[None], torch.tensor([num_frames]), chunk_size, 64)
            path = log_probs[0, : lengths[0]].argmax(-1).tolist()
            best = [token for token, _ in groupby(path)]
            texts.append(tokenizer.decode(token for token in best if token != BLANK_ID))
            num_repeats, num_blanks = num_repeats + len(path) - len(best), num_blanks + best.count(BLANK_ID)
            num_words += len(texts[-1].split())
        size = {"samples": range(FRAME_SHIFT * num_frames), "seconds": FRAME_SHIFT_S * num_frames}
        # Only the chunks cause errors.
        clips.append(SimpleNamespace(features=features.clone, text=texts[0], **size))
        for (name, _), text in zip(VALIDATION_CHUNKS, texts, strict=True):
            expected[name] += count_errors([texts[0]], [text])
    assert min(num_repeats, num_blanks, num_words) > 10
    assert 0.0 == expected["full"].rate < expected["640ms"].rate < 1.0
    assert validate(tiny_model, tokenizer, clips, 10.0, torch.device("cpu")) == expected
