"""Data sets in memory, and plans of one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from asr.data.speech import Speech
from asr.features import SAMPLE_RATE, num_frames
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.plans import NOTHING, Plan, Row

LETTERS = Tokenizer("char", (*SPECIAL_TOKENS, "▁", *"ABCK"))


def speech_of(*waves: np.ndarray, texts: Sequence[str] = ()) -> Speech:
    """Utterances with these samples, (num_samples,) float in ±1, and the text A unless said."""
    whole = [(32768 * wave).round().clip(-32768, 32767).astype(np.int16) for wave in waves]
    speech = silent_speech([len(wave) for wave in waves])
    starts = np.cumsum(speech.lengths) - speech.lengths
    names = list(texts) or speech.texts
    return Speech(speech.ids, names, speech.speakers, [np.concatenate(whole)], speech.file_of, starts, speech.lengths)


def silent_speech(lengths: Sequence[int] | np.ndarray) -> Speech:
    """Utterances of these numbers of samples, which share one silence."""
    sizes, count = np.asarray(lengths, np.int64), len(lengths)
    places = np.zeros(count, np.int64)
    silence = np.zeros(max(sizes), np.int16)
    ids = [f"u{number}" for number in range(count)]
    return Speech(ids, ["A"] * count, [None] * count, [silence], places.astype(np.int32), places, sizes)


def one_row(speech: Speech, before_s: float = 0.0, speed: float = 1.0, **changes: Any) -> Plan:
    """The first utterance, `before_s` after the beginning of its row. changes: other fields of the plan."""
    length = int(speech.lengths[0])
    frames = num_frames(int(length / speed + before_s * SAMPLE_RATE))
    plan = Plan(
        rows=[Row([0], [before_s], 0.0)],
        frames=frames,
        speed=speed,
        masked=False,
        num_rooms=0,
        num_lines=0,
        seed=0,
        noises=np.zeros((1, 2), np.int64),
        num_frames=torch.tensor([frames]),
        num_spoken=torch.tensor([int(length / speed)]),
        rooms=torch.tensor([0]),
        kind=torch.tensor([NOTHING]),
        noise_db=torch.tensor([0.0]),
        line_db=torch.tensor([-20.0]),
        line_law=torch.tensor([0]),
    )
    return plan._replace(**changes)


def equal(one: Any, other: Any) -> bool:
    """Whether two plans or batches are the same in every field, to the bit."""
    return all(
        torch.equal(a, b)
        if isinstance(a, torch.Tensor)
        else bool(np.all(a == b))
        if isinstance(a, np.ndarray)
        else a == b
        for a, b in zip(one, other, strict=True)
    )
