"""Audio files as a live source: any format libsndfile reads (WAV, FLAC, Ogg, Opus, MP3), block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

BLOCK_S = 0.1


class AudioFileError(ValueError):
    """A file that is missing, is no audio, holds none, or is damaged."""


def read_blocks(path: str | Path) -> Iterator[tuple[np.ndarray, int]]:
    """Blocks of 0.1 s: (num_samples,) float32 in ±1, channels averaged, and the sample rate in Hz.

    Raises AudioFileError for what cannot be read; where a file ends before it should, after its last block.
    """
    import soundfile

    path = Path(path)
    if not path.is_file():
        raise AudioFileError(f"there is no audio file {path}")
    num_frames = 0
    try:
        with soundfile.SoundFile(path) as file:
            promised, sample_rate = file.frames, file.samplerate
            block_size = max(1, int(BLOCK_S * sample_rate))
            while len(block := file.read(block_size, dtype="float32", always_2d=True)):
                num_frames += len(block)
                yield block.mean(axis=1) if block.shape[1] > 1 else block[:, 0], sample_rate
    except (RuntimeError, TypeError, OSError) as error:  # TypeError: a headerless format, known by its suffix
        where = f" after {num_frames / sample_rate:.1f} s" if num_frames else ""
        raise AudioFileError(f"cannot read {path}{where}: {error}") from error
    if num_frames == 0:
        raise AudioFileError(f"{path} holds no audio")
    if num_frames < promised:
        raise AudioFileError(
            f"{path} is cut short: it holds {num_frames / sample_rate:.1f} s of the "
            f"{promised / sample_rate:.1f} s it promises"
        )
