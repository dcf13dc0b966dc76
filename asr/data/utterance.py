"""Preparing one utterance for a data set: decodes and checks it, computes the features of all its copies.

Utterances that training could not use (truncated files, NaN, silence, transcripts of another recording) are refused
with a reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.data.audio import Audio, TooLongError, read_audio
from asr.data.manifests import Utterance
from asr.features import SAMPLE_RATE, SUBSAMPLING, fbank, num_frames
from asr.tables import Refusal
from asr.text import TextNormalizer

if TYPE_CHECKING:
    import numpy as np
    from lhotse import Recording

    from asr.data.copies import NoisyCopies, TelephoneCopies


@dataclass(frozen=True)
class PrepareOptions:
    """Limits of accepted recordings, and the copies to make. Durations in seconds, speeds as factors."""

    normalizer: TextNormalizer = field(default_factory=TextNormalizer)
    speeds: tuple[float, ...] = (1.0,)
    min_duration_s: float = 0.1
    max_duration_s: float = 40.0
    num_jobs: int = 1
    noisy_copies: NoisyCopies | None = None
    telephone_copies: TelephoneCopies | None = None
    """If there are noisy copies, telephone copies also have a room and noise."""

    def __post_init__(self) -> None:
        bad = [s for s in self.speeds if not 0.5 <= s <= 2.0]
        if bad or not self.speeds or len(set(self.speeds)) != len(self.speeds):
            raise ValueError(f"speeds are {self.speeds}; expected different factors in 0.5 to 2.0")
        # Shorter recordings do not fill two encoder frames.
        if not 0.1 <= self.min_duration_s < self.max_duration_s:
            raise ValueError(
                f"durations {self.min_duration_s} to {self.max_duration_s} s; "
                "expected at least 0.1 s and the minimum below the maximum"
            )
        if not 1 <= self.num_jobs <= 1024:
            raise ValueError(f"{self.num_jobs} jobs; expected 1 to 1024")

    def copies(self, id: str) -> Iterator[tuple[str, list[Any]]]:
        """The noisy and telephone copies of utterance `id`: the id of the copy, its transforms."""
        for copy_id, room in self.noisy_copies.draw(id) if self.noisy_copies else ():
            yield copy_id, [room]
        for copy_id, line in self.telephone_copies.draw(id) if self.telephone_copies else ():
            yield copy_id, [*([self.noisy_copies.room_of(copy_id)] if self.noisy_copies else []), line]


@dataclass(frozen=True)
class Prepared:
    """An utterance to store: a cut without features, and its frames (num_frames, 80) float16."""

    cut: Any
    frames: np.ndarray


def num_ctc_frames(text: str) -> int:
    """Minimum number of encoder frames in which CTC can output `text` by characters: repeated ones need a blank in
    between."""
    return len(text) + sum(a == b for a, b in pairwise(text))


def prepare_utterance(utterance: Utterance, options: PrepareOptions) -> list[Prepared | Refusal]:
    """Checks one utterance, whose text is normalized, and computes its features at every speed.

    Each copy at a speed is followed by its noisy and telephone copies. Raises ValueError for an unusable noise file.
    """
    import numpy as np
    from lhotse.augmentation import Speed
    from lhotse.utils import fastcopy

    def refusal(reason: str, detail: str = "", id: str = utterance.id) -> Refusal:
        return Refusal(id, str(utterance.audio), reason, detail)

    try:
        if not utterance.audio.is_file():
            return [refusal("missing file")]
    except OSError as error:  # such as a name too long for the file system
        return [refusal("missing file", str(error))]
    try:
        audio = read_audio(utterance.audio, 10 * options.max_duration_s)
    except TooLongError as error:
        return [refusal("too long", str(error))]
    except ValueError as error:
        return [refusal("unreadable audio", str(error))]
    duration_s = audio.num_file_samples / audio.file_rate
    stated_s = utterance.duration_s
    if stated_s is not None and abs(duration_s - stated_s) > 0.5 + 0.05 * stated_s:
        detail = f"the manifest states {stated_s:.2f} s, the file holds {duration_s:.2f} s"
        return [refusal("duration differs", detail)]
    if duration_s < options.min_duration_s:
        return [refusal("too short", f"{duration_s:.2f} s")]
    if not audio.samples.any():
        return [refusal("digital silence", f"{duration_s:.2f} s")]

    recording = recording_of(utterance.id, utterance.audio, audio)
    results: list[Prepared | Refusal] = []
    for speed in options.speeds:
        copy, samples = recording, audio.samples
        if speed != 1.0:
            copy = recording.perturb_speed(speed)
            samples = Speed(speed)(samples[np.newaxis], SAMPLE_RATE)[0]
        if copy.duration > options.max_duration_s:
            results.append(refusal("too long", f"{copy.duration:.2f} s", copy.id))
            continue
        # Resamplers round the length differently; this is the length that lhotse states for the cut.
        samples = np.pad(samples[: copy.num_samples], (0, max(0, copy.num_samples - len(samples))))
        # More than 25 characters per second are impossible: the transcript belongs to another recording, and the CTC
        # loss of characters would be infinite.
        needed, there = num_ctc_frames(utterance.text), num_frames(len(samples)) // SUBSAMPLING
        if needed > there:
            detail = f"{needed} frames of 40 ms needed, {there} there"
            results.append(refusal("more tokens than frames", detail, copy.id))
            continue
        results.append(prepared(utterance, copy, samples))
        for id, transforms in options.copies(copy.id):
            played = samples[np.newaxis]
            for transform in transforms:
                played = transform(played, SAMPLE_RATE)
            num_samples = played.shape[1]
            made = fastcopy(
                copy,
                id=id,
                transforms=[*(copy.transforms or ()), *transforms],
                num_samples=num_samples,
                duration=num_samples / SAMPLE_RATE,
            )
            if made.duration > options.max_duration_s:
                results.append(refusal("too long", f"{made.duration:.2f} s", id))
            else:
                results.append(prepared(utterance, made, played[0]))
    return results


def recording_of(id: str, path: str | Path, audio: Audio) -> Recording:
    """The recording as lhotse reads it, 16 kHz mono. audio: the result of `read_audio`."""
    from lhotse import Recording
    from lhotse.audio import AudioSource

    from asr.data.transforms import Downmix

    recording = Recording(
        id=id,
        sources=[AudioSource("file", [0], os.path.abspath(path))],
        sampling_rate=audio.file_rate,
        num_samples=audio.num_file_samples,
        duration=audio.num_file_samples / audio.file_rate,
        transforms=[Downmix()] if audio.num_channels > 1 else None,
    )
    return recording if audio.file_rate == SAMPLE_RATE else recording.resample(SAMPLE_RATE)


def prepared(utterance: Utterance, recording: Any, samples: np.ndarray) -> Prepared:
    """The cut of a whole recording with the utterance's text, and the features of its samples (16 kHz mono)."""

    import numpy as np
    from lhotse import MonoCut, SupervisionSegment

    supervision = SupervisionSegment(
        id=recording.id,
        recording_id=recording.id,
        start=0.0,
        duration=recording.duration,
        text=utterance.text,
        speaker=utterance.speaker,
    )
    cut = MonoCut(recording.id, 0.0, recording.duration, 0, supervisions=[supervision], recording=recording)
    return Prepared(cut, fbank(samples).numpy().astype(np.float16))
