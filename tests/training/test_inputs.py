"""Inputs of a training run that come from its data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asr.data.cuts import load_cuts
from asr.lm.packed import load_lm
from asr.tokenizer import Tokenizer
from asr.training.inputs import absent_letters, estimate_cmvn, load_phones, scarcity


def test_normalization_has_mean_and_deviation_of_all_frames(tones: tuple[Path, Path]) -> None:
    parts = [(load_cuts(path), 1.0) for path in tones]
    frames = np.concatenate([cut.load_features() for part, _ in parts for cut in part]).astype(np.float64)
    mean, std = estimate_cmvn(parts, seed=0)
    np.testing.assert_allclose(mean, frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, frames.std(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("the quick brown fox ups over the lazy dog", "j, m"),
        ("THE QUICK BROWN FOX UPS OVER THE LAZY DOG", "J, M"),
        ("THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG", ""),
        ("слово", ""),
    ],
)
def test_letters_that_no_transcript_has(text: str, absent: str) -> None:
    assert absent_letters(Tokenizer.train("char", [text])) == absent


@pytest.mark.parametrize(
    ("hours", "init", "warns"), [(0.12, "", True), (19.9, "", True), (20.1, "", False), (0.12, "bundled", False)]
)
def test_too_little_speech_is_told(hours: float, init: str, warns: bool) -> None:
    cut, noise = (SimpleNamespace(duration=7200 * hours, custom={"no_speech": no}) for no in (False, True))
    warning = scarcity([([cut, noise], 0.5)], init)  # type: ignore[list-item]
    assert bool(warning) == warns
    if warns:
        assert warning.startswith(f"{hours:.2f} hours of speech cannot make a model") and "`asr adapt`" in warning


def test_few_words_have_all_bundled_phones() -> None:
    tokenizer = load_phones("bundled", ["THE CAT"])
    assert tokenizer.phones == tuple(load_lm("bundled").phones)
    assert tokenizer.decode(tokenizer.encode("CAT")) == "▁K AE T"
