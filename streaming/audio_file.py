"""Audio files as a live source: any format libsndfile reads (WAV, FLAC, Ogg, Opus, MP3), block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

BLOCK_S = 0.1
MAX_BLOCK_SIZE = 1 << 20
"""Of samples in all channels: bounds memory, whatever rate and number of channels a file claims."""


class AudioFileError(ValueError):
    """A file that is missing, is no audio, holds none, or is damaged."""


def read_blocks(
    source: str | Path | IO[bytes], block_s: float = BLOCK_S, max_s: float = float("inf")
) -> Iterator[tuple[np.ndarray, int]]:
    """Blocks of `block_s` seconds: (num_samples,) float32 in ±1, channels averaged, and the sample rate in Hz.

    source: a path, or an open file that the system knows (with a `fileno`), read from where it is.
    max_s: longest audio that is taken, in seconds.

    Raises AudioFileError for what cannot be read; where a file ends before it should, after its last block.
    """
    import soundfile

    name: str | Path = "the file"
    if isinstance(source, (str, Path)):
        name = source = Path(source)
        if not source.is_file():
            raise AudioFileError(f"there is no audio file {source}")
    num_frames = 0
    try:
        # By its number libsndfile reads the file itself, and needs no Python for it.
        with soundfile.SoundFile(source if isinstance(source, Path) else source.fileno(), closefd=False) as file:
            promised, sample_rate = file.frames, file.samplerate
            if promised > max_s * sample_rate:
                raise AudioFileError(f"{name} lasts {promised / sample_rate:.0f} s; at most {max_s:g} s are read")
            block_size = max(1, min(int(block_s * sample_rate), MAX_BLOCK_SIZE // file.channels))
            while len(block := file.read(block_size, dtype="float32", always_2d=True)):
                num_frames += len(block)
                yield block.mean(axis=1) if block.shape[1] > 1 else block[:, 0], sample_rate
    except (RuntimeError, TypeError, OSError) as error:  # TypeError: a headerless format, known by its suffix
        where = f" after {num_frames / sample_rate:.1f} s" if num_frames else ""
        reason = getattr(error, "error_string", str(error)).rstrip(".")
        raise AudioFileError(f"cannot read {name}{where}: {reason}") from error
    if num_frames == 0:
        raise AudioFileError(f"{name} holds no audio")
    if num_frames < promised:
        raise AudioFileError(
            f"{name} is cut short: it holds {num_frames / sample_rate:.1f} s of the "
            f"{promised / sample_rate:.1f} s it promises"
        )
