"""Small sounds synthesized for tests: words from espeak-ng, and a speech-like hum that does not need it."""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import soundfile
import soxr

SAMPLE_RATE = 16000


@functools.lru_cache(maxsize=64)
def _espeak(text: str, words_per_minute: int, voice: str) -> np.ndarray:
    if shutil.which("espeak-ng") is None:
        raise RuntimeError("the tests speak with espeak-ng: apt-get install espeak-ng")
    command = ["espeak-ng", "-v", voice, "-s", str(words_per_minute), "--stdout", text.lower()]
    wav = subprocess.run(command, check=True, capture_output=True).stdout
    samples, rate = soundfile.read(io.BytesIO(wav), dtype="float32")
    return soxr.resample(samples, rate, SAMPLE_RATE).astype(np.float32)


def speech(text: str, words_per_minute: int = 160, voice: str = "en-us") -> np.ndarray:
    """`text` spoken: (num_samples,) float32 in ±1, 16 kHz; the same for the same arguments."""
    return _espeak(text, words_per_minute, voice).copy()


def hum(duration_s: float, seed: int = 0, sample_rate: int = SAMPLE_RATE) -> np.ndarray:
    """A voiced, wavering sound with a little noise: (num_samples,) float32, peaks near 0.5."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(duration_s * sample_rate)) / sample_rate
    pitch = 120 + 20 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * time + rng.uniform(0, 6))
    phase = 2 * np.pi * np.cumsum(pitch) / sample_rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 12))
    loudness = 0.6 + 0.4 * np.sin(2 * np.pi * 3 * time + rng.uniform(0, 6))
    noise = 0.01 * rng.standard_normal(len(time))
    return (0.25 * loudness * voice + noise).astype(np.float32)


def write_audio(path: str | Path, samples: np.ndarray, sample_rate: int = SAMPLE_RATE) -> Path:
    """Write samples, (num_samples,) or (num_samples, num_channels), in the format of the suffix."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".opus":
        soundfile.write(target, samples, sample_rate, format="OGG", subtype="OPUS")
    else:
        soundfile.write(target, samples, sample_rate)
    return target
