"""Inputs of a training run that come from its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synth import SAMPLE_RATE, hum, write_audio

from asr.cli import main
from asr.config import DataConfig
from asr.data.speech import Speech
from asr.lm.packed import load_lm
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.inputs import (
    absent_letters,
    estimate_cmvn,
    load_noise,
    load_phones,
    load_training_data,
    normalizer_of,
    scarcity,
)


def test_normalization_has_mean_and_deviation_of_all_frames(tones: tuple[Path, Path]) -> None:
    speech = Speech.joined([Speech.load(path) for path in tones])
    frames = np.concatenate([clip.features() for clip in speech]).astype(np.float64)
    mean, std = estimate_cmvn(speech, seed=0)
    np.testing.assert_allclose(mean, frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, frames.std(0), rtol=1e-5)


def test_data_sets_have_shares_and_report_unused_data(tones: tuple[Path, Path]) -> None:
    sets = [Speech.load(path) for path in tones]
    lengths = [dict(zip(each.ids, each.lengths / SAMPLE_RATE, strict=True)) for each in sets]
    longest = sorted(lengths[1].values())[-3]
    config = DataConfig(train=(str(tones[0]), f"{tones[1]}*0.25"), max_utterance_s=longest, min_utterance_s=1.0)
    speech, shares, left_out = load_training_data(config)
    usable = [[id for id, seconds in each.items() if 1.0 <= seconds <= longest] for each in lengths]
    assert speech.ids == [*usable[0], *usable[1]]
    assert shares.tolist() == [1.0] * len(usable[0]) + [0.25] * len(usable[1])
    expected = [id for each, kept in zip(lengths, usable, strict=True) for id in each if id not in kept]
    assert [refusal.id for refusal in left_out] == expected
    assert {id in lengths[0] for id in expected} == {True, False}, "both leave some out"
    assert np.array_equal(speech.samples(len(usable[0])), sets[1].samples(sets[1].ids.index(usable[1][0])))


def test_noise_comes_from_data_sets_of_noise_which_are_no_speech(tmp_path: Path) -> None:
    for name, seconds in (("kitchen", 0.5), ("street", 0.25)):
        write_audio(tmp_path / name / "a.wav", hum(seconds))
        assert main(["prepare", "noise", str(tmp_path / name), "--out", str(tmp_path / "data"), "--jobs", "1"]) == 0
    sets = (str(tmp_path / "data" / "kitchen"), str(tmp_path / "data" / "street"))
    noise = load_noise(DataConfig(noise=sets), seed=1)
    assert noise.num_recorded == 2 and noise.lengths[:2].tolist() == [8000, 4000] and len(noise.lengths) == 26
    samples = (32768 * hum(0.25)).round()
    assert np.abs(noise.part(1, 0, 4000) - samples).max() <= 1
    assert load_noise(DataConfig(), seed=1).num_recorded == 0
    with pytest.raises(ValueError, match="holds no utterance with words of"):
        load_training_data(DataConfig(train=sets))


@pytest.mark.parametrize(
    ("letters", "text", "expected"), [("ABCK-", "ab-k", "AB-K"), ("abck", "AB", "ab"), ("Aabk", "Ab", "Ab")]
)
def test_texts_get_the_case_of_the_model(letters: str, text: str, expected: str) -> None:
    assert normalizer_of(Tokenizer("char", (*SPECIAL_TOKENS, "▁", *letters)))(text).text == expected


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
    warning = scarcity(hours, init)
    assert bool(warning) == warns
    if warns:
        assert warning.startswith(f"{hours:.2f} hours of speech cannot make a model") and "`asr adapt`" in warning


def test_few_words_have_all_bundled_phones() -> None:
    tokenizer = load_phones("bundled", ["THE CAT"])
    assert tokenizer.phones == tuple(load_lm("bundled").phones)
    assert tokenizer.decode(tokenizer.encode("CAT")) == "▁K AE T"
