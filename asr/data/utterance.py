"""Preparing one utterance for a data set: decodes and checks it.

Utterances that training could not use (truncated files, NaN, silence, transcripts of another recording) are refused
with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from asr.data.audio import TooLongError, read_audio
from asr.data.manifests import Utterance
from asr.features import SUBSAMPLING, num_frames
from asr.tables import Refusal
from asr.text import TextNormalizer

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class PrepareOptions:
    """Limits of accepted recordings, in seconds."""

    normalizer: TextNormalizer = field(default_factory=TextNormalizer)
    min_duration_s: float = 0.1
    max_duration_s: float = 40.0
    num_jobs: int = 1

    def __post_init__(self) -> None:
        # Shorter recordings do not fill two encoder frames.
        if not 0.1 <= self.min_duration_s < self.max_duration_s:
            raise ValueError(
                f"durations {self.min_duration_s} to {self.max_duration_s} s; "
                "expected at least 0.1 s and the minimum below the maximum"
            )
        if not 1 <= self.num_jobs <= 1024:
            raise ValueError(f"{self.num_jobs} jobs; expected 1 to 1024")


def num_ctc_frames(text: str) -> int:
    """Minimum number of encoder frames in which CTC can output `text` by characters: repeated ones need a blank in
    between."""
    return len(text) + sum(a == b for a, b in pairwise(text))


def prepare_utterance(utterance: Utterance, options: PrepareOptions) -> np.ndarray | Refusal:
    """The samples of an utterance whose text is normalized, (num_samples,) int16 at 16 kHz, or why it is refused."""
    import numpy as np

    def refusal(reason: str, detail: str = "") -> Refusal:
        return Refusal(utterance.id, str(utterance.audio), reason, detail)

    try:
        if not utterance.audio.is_file():
            return refusal("missing file")
    except OSError as error:  # such as a name too long for the file system
        return refusal("missing file", str(error))
    try:
        audio = read_audio(utterance.audio, options.max_duration_s, utterance.start_s, utterance.segment_s)
    except TooLongError as error:
        return refusal("too long", str(error))
    except ValueError as error:
        return refusal("unreadable audio", str(error))
    duration_s = audio.num_file_samples / audio.file_rate
    stated_s = utterance.duration_s
    if stated_s is not None and abs(duration_s - stated_s) > 0.5 + 0.05 * stated_s:
        detail = f"the manifest states {stated_s:.2f} s, the file holds {duration_s:.2f} s"
        return refusal("duration differs", detail)
    if duration_s < options.min_duration_s:
        return refusal("too short", f"{duration_s:.2f} s")
    samples = (audio.samples * 32768).round().clip(-32768, 32767).astype(np.int16)
    if not samples.any():
        return refusal("digital silence", f"{duration_s:.2f} s")
    # More than 25 characters per second are impossible: the transcript belongs to another recording, and the CTC loss
    # of characters would be infinite.
    needed, there = num_ctc_frames(utterance.text), num_frames(len(samples)) // SUBSAMPLING
    if needed > there:
        return refusal("more tokens than frames", f"{needed} frames of 40 ms needed, {there} there")
    return samples
