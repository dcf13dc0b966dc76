"""Make fbank_golden.npz: synthesized sounds with their features as torchaudio computes them in float64.

    PYTHONPATH=tests python tests/frontend/make_fbank_golden.py

Needs torch and torchaudio; the test that reads the file does not.
"""

from pathlib import Path

import numpy as np
from support.kaldi import kaldi_fbank

SAMPLE_RATE = 16000


def sounds() -> dict[str, np.ndarray]:
    """int16 sounds, shape (num_samples,): vowels with a pause, noise, clipping, DC, faint noise, silence, clicks."""
    random = np.random.default_rng(20)
    time_s = np.arange(9600) / SAMPLE_RATE
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 3 * time_s)) / SAMPLE_RATE
    formants = np.array([700.0, 1200.0, 2600.0, 3500.0])
    harmonics = np.arange(1, 31)
    gain = (1 / (1 + ((harmonics[:, None] * 120 - formants) / 150) ** 2)).sum(1) / harmonics
    vowel = (gain[:, None] * np.sin(harmonics[:, None] * pitch)).sum(0)
    vowel *= np.clip(np.sin(2 * np.pi * 2.5 * time_s), 0, 1)
    noise = random.normal(0, 1, 4800)
    clicks = np.zeros(2400)
    clicks[[0, 700, 1601, 2399]] = [0.9, -0.7, 0.99, 0.5]
    real = {
        "vowels": 0.3 * vowel + 0.002 * random.normal(0, 1, vowel.size),
        "noise": 0.1 * noise,
        "clipped": np.clip(3 * noise, -1, 32767 / 32768),
        "offset": 0.5 + 0.05 * noise[:2400],
        "faint": noise[:2400] / 8192,
        "silence": np.zeros(1600),
        "clicks": clicks,
        "one_window": 0.1 * noise[:400],
        "ragged": 0.1 * noise[:1039],
    }
    return {name: np.round(samples * 32768).clip(-32768, 32767).astype(np.int16) for name, samples in real.items()}


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, samples in sounds().items():
        features = kaldi_fbank(samples.astype(np.float64) / 32768)
        arrays[f"{name}.samples"] = samples
        arrays[f"{name}.features"] = features.numpy().astype(np.float32)
    np.savez_compressed(Path(__file__).with_name("fbank_golden.npz"), **arrays)


if __name__ == "__main__":
    main()
