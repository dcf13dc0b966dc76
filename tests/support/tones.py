"""A toy language that a small model learns in a minute: a letter is a tone, a word boundary a pause."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from asr.cli import main
from support.synth import SAMPLE_RATE, write_audio

LETTER_HZ = {"A": 300, "B": 520, "C": 900, "D": 1500, "E": 2400, "F": 3800}
LETTER_S = 0.12
GAP_S = 0.03
RECIPE = """
model: {dim: 48, num_heads: 2, encoder_layers: 2, encoder_ff_dim: 96, decoder_layers: 1, decoder_ff_dim: 96,
        subsampling_channels: 8, dropout: 0.05, condition_layers: [1]}
tokenizer: {kind: char}
data: {max_batch_s: 16, max_utterance_s: 8, min_utterance_s: 0.1, num_rooms: 2}
augment: {speeds: [1.0], room_probability: 0, telephone_probability: 0, noise_probability: 0, noise_alone: 0,
          join_probability: 0, offset_probability: 0, margin_probability: 0, silence_probability: 0,
          max_frequency_warp: 0, max_response_db: 0, num_time_masks: 1, max_time_frames: 4, max_freq_bins: 4}
optim: {lr: 3.0e-3, warmup_steps: 20, ema_decay: 0.9}
train: {valid_every: 1000, save_every: 1000, precision: fp32}
"""
"""A configuration that learns it, without the paths of the data."""


def say(text: str, seed: int = 0) -> np.ndarray:
    """`text` of letters A to F and spaces as tones: (num_samples,) float32."""
    rng = np.random.default_rng(seed)
    gap = np.zeros(int(GAP_S * SAMPLE_RATE))
    pieces = [gap]
    time = np.arange(int(LETTER_S * SAMPLE_RATE)) / SAMPLE_RATE
    for letter in text:
        tone = 0 * time if letter == " " else 0.3 * np.sin(2 * np.pi * LETTER_HZ[letter] * time)
        pieces += [tone, gap]
    samples = np.concatenate(pieces)
    return (samples + 0.001 * rng.standard_normal(len(samples))).astype(np.float32)


def sentence(seed: int) -> str:
    generator = random.Random(seed)
    words = ["".join(generator.choices("ABCDEF", k=generator.randint(1, 3))) for _ in range(generator.randint(1, 4))]
    return " ".join(words)


def prepare_tones(folder: Path, num_utterances: int, name: str, first_seed: int = 0) -> Path:
    """Runs `asr prepare` on synthesized recordings; returns the data set to train on."""
    lines = ["path\ttext\tspeaker"]
    for seed in range(first_seed, first_seed + num_utterances):
        text = sentence(seed)
        write_audio(folder / "audio" / f"{name}-{seed}.wav", say(text, seed))
        lines.append(f"audio/{name}-{seed}.wav\t{text}\tsine-{seed % 3}")
    table = folder / f"{name}.tsv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["prepare", "manifest", str(table), "--out", str(folder / "data"), "--jobs", "1"]) == 0
    return folder / "data" / name
