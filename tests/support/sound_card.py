"""A virtual sound card, sound_card.c: one sample rate, the small buffer of a real card, and can be unplugged.

Needs the system packages libasound2-dev, g++ (which brings gcc) and libportaudio2.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np

SAMPLE_RATE = 48000
NUM_CHANNELS = 2
COUNT = 2**23 - 1
"""Samples count to this number of 24 bits. float32 holds it exactly, and no number repeats within three minutes."""


class SoundCard:
    """A virtual sound card. It is the default microphone of programs started with `env`; `spare` is a second one."""

    def __init__(self, folder: Path) -> None:
        library = folder / "sound_card.so"
        source = Path(__file__).with_suffix(".c")
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-DPIC"]
        subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lasound"], check=True)
        self._plugs = {name: folder / f"{name}.plug" for name in ("default", "spare")}
        devices = [
            f'pcm.{name} {{ type card rate {SAMPLE_RATE} channels {NUM_CHANNELS} plug "{plug}" }}'
            for name, plug in self._plugs.items()
        ]
        config = folder / "asound.conf"
        config.write_text("\n".join([f'pcm_type.card {{ lib "{library}" }}', *devices]))
        self.env = os.environ | {"ALSA_CONFIG_PATH": str(config)}
        self.plug_in()

    def plug_in(self, name: str = "default") -> None:
        self._plugs[name].touch()

    def pull_out(self, name: str = "default") -> None:
        self._plugs[name].unlink()


def num_missing(heard: np.ndarray) -> np.ndarray:
    """The number of samples missing before each of `heard[1:]`, (num_samples,) float32 of channel 1: int64."""
    counts = np.rint(heard * 2**23).astype(np.int64)
    return (np.diff(counts) - 1) % COUNT
