"""Plans of the batches of an epoch: the utterances, pauses, noise, room and telephone line of each row.

A plan depends only on the seed, the epoch and its number. So training resumes exactly, and any number of processes
share its batches, without reading audio. `asr.training.batches` reads the samples of a plan, `waves` computes sound.

A row is an utterance, or two or three with pauses, or noise alone. Rows of similar length form a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asr.config import AugmentConfig, Config
from asr.data.speech import Speech
from asr.features import FRAME_SHIFT_S, SAMPLE_RATE
from asr.features import num_frames as frames_of
from asr.training.sounds import Noise

PAUSES_S = (0.1, 1.0)
"""Range of the pauses between joined utterances."""
MARGINS_S = (0.1, 1.5)
"""Range of the noise before and after the words, if there is any."""
OFFSET_S = 0.64
"""Half of the other rows begin with up to one chunk of noise, so that words have any position relative to the
chunks."""
ALONE_S, ALONE_DB = (1.5, 12.0), (-60.0, -20.0)
"""Noise alone: length in seconds, and power relative to full scale."""
ROOM_SNR_DB = (4.0, 25.0)
NEAR_SNR_DB, PAUSE_SNR_DB = (15.0, 45.0), (22.0, 50.0)
"""Signal-to-noise ratios outside rooms: of words alone, and of words with silence around them."""
NOISY_PAUSES = 3.0
"""How much more often rows with silence beside their words get noise: silence sounds like the room."""
LINE_DB = (-35.0, -15.0)
"""Power of the speech on a telephone line."""
COLORED_SHARE = 0.25
"""Share of synthesized noise if there is also recorded noise."""
MAX_ROWS = 320
"""Maximum rows of a batch: with more, a batch of short utterances would have more tokens than others."""
# Few different row lengths, so that memory and FFT plans are reused. Each is a multiple of 32 frames; the longest is
# that of utterances of 600 s at half the speed.
_LENGTHS = np.unique(np.ceil(160 * 1.07 ** np.arange(100) / 32) * 32).astype(np.int64)

NOTHING, WITH_SPEECH, ALONE = range(3)
"""Kinds of noise of a row."""


class Row(NamedTuple):
    """utterances: their numbers; pauses: seconds before each of them; after: seconds after the last."""

    utterances: list[int]
    pauses: list[float]
    after: float


class Members(NamedTuple):
    """The rows of a batch, the feature frames of each with padding, and the speed of the words."""

    rows: list[Row]
    frames: int
    speed: float


class Plan(NamedTuple):
    """A batch of N rows: first `num_rooms` in rooms, last `num_lines` on telephone lines."""

    rows: list[Row]
    frames: int
    """Feature frames of every row, with padding."""
    speed: float
    masked: bool
    """Whether the features are augmented: voices, microphones, masks."""
    num_rooms: int
    num_lines: int
    seed: int
    """Random seed of what is drawn on the device: masks, voices, dropout."""
    noises: np.ndarray
    """(N, 2) int64: number of the noise of each row, and its sample where the row begins"""
    num_frames: Tensor
    """(N,) int64 feature frames without padding"""
    num_spoken: Tensor
    """(N,) int64 samples of the utterances, after the speed has changed"""
    rooms: Tensor
    """(N,) int64"""
    kind: Tensor
    """(N,) int64: NOTHING, WITH_SPEECH or ALONE"""
    noise_db: Tensor
    """(N,) float32: signal-to-noise ratio; for noise alone, its power relative to full scale"""
    line_db: Tensor
    """(N,) float32 power on the telephone line"""
    line_law: Tensor
    """(N,) int64, 0 for mu-law, 1 for A-law"""

    @property
    def seconds(self) -> float:
        """Seconds of audio without padding, for a plan on the CPU."""
        return float(self.num_frames.sum()) * FRAME_SHIFT_S

    def to(self, device: torch.device) -> Plan:
        """The plan with its tensors on `device`; the copy is asynchronous."""
        tensors = {name: x for name, x in self._asdict().items() if isinstance(x, Tensor)}
        moved: dict[str, Any] = {name: on_device(x, device) for name, x in tensors.items()}
        return self._replace(**moved)


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies to the device asynchronously, which requires pinned memory."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Planner:
    """Plans the batches of a data set.

    shares: (num_utterances,) probability of each utterance in an epoch.
    """

    def __init__(self, speech: Speech, shares: np.ndarray, noise: Noise, num_rooms: int, config: Config) -> None:
        self._speech, self._shares, self._noise, self._num_rooms = speech, shares, noise, num_rooms
        self._data, self._augment, self._seed = config.data, config.augment, config.train.seed
        self._max_frames = frames_of(int(config.data.max_batch_s * SAMPLE_RATE))
        self._seconds = speech.lengths / SAMPLE_RATE

    def epoch(self, number: int) -> list[Members]:
        """The batches of an epoch, in random order. Raises ValueError if no utterance is used."""
        rng = np.random.default_rng((self._seed, number))
        warming_up = self._warming_up(number)
        augment = PLAIN if warming_up else self._augment
        rows = self._rows(warming_up, augment, rng)
        seconds = np.array([self._samples(row, 1.0) for row in rows]) / SAMPLE_RATE
        order = np.argsort(-seconds * np.exp(rng.uniform(-0.04, 0.04, len(rows))))
        batches = []
        while len(order):
            speed = float(rng.choice(augment.speeds))
            frames = _padded(self._frames(rows[order[0]], speed))
            for _ in range(2):  # the order is only about that of the lengths
                count = max(1, min(MAX_ROWS, self._max_frames // frames))
                frames = _padded(max(self._frames(rows[i], speed) for i in order[:count]))
            batches.append(Members([rows[i] for i in order[:count]], frames, speed))
            order = order[count:]
        return [batches[i] for i in rng.permutation(len(batches))]

    def plan(self, epoch: int, number: int, members: Members) -> Plan:
        """The plan of a batch of an epoch."""
        rng = np.random.default_rng((self._seed, epoch, 1 + number))
        warming_up = self._warming_up(epoch)
        augment = PLAIN if warming_up else self._augment
        rows = [members.rows[i] for i in rng.permutation(len(members.rows))]
        spoken = [row for row in rows if row.utterances]
        in_room = _some(augment.room_probability, len(spoken), 8, rng)
        on_line = min(_some(augment.telephone_probability, len(spoken), 4, rng), len(spoken) - in_room)
        rows = [*spoken[:in_room], *(row for row in rows if not row.utterances), *spoken[in_room:]]
        count = len(rows)
        alone = np.array([not row.utterances for row in rows])
        silent = np.array([len(row.utterances) > 1 or row.after > 0 or sum(row.pauses) > 0 for row in rows])
        place = np.arange(count)
        loud = (place < in_room) | ((place >= count - on_line) & (rng.random(count) < 0.5))
        noisy = loud | (rng.random(count) < augment.noise_probability * np.where(silent, NOISY_PAUSES, 1.0))
        snr = np.where(silent, rng.uniform(*PAUSE_SNR_DB, count), rng.uniform(*NEAR_SNR_DB, count))
        snr = np.where(loud, rng.uniform(*ROOM_SNR_DB, count), snr)
        noise_db = np.where(alone, rng.uniform(*ALONE_DB, count), snr)
        words = np.array([self._speech.lengths[row.utterances].sum() for row in rows])
        return Plan(
            rows=rows,
            frames=members.frames,
            speed=members.speed,
            masked=not warming_up,
            num_rooms=in_room,
            num_lines=on_line,
            seed=int(rng.integers(2**31)),
            noises=self._noises(count, rng),
            num_frames=torch.tensor([self._frames(row, members.speed) for row in rows]),
            num_spoken=torch.from_numpy((words / members.speed).astype(np.int64)),
            rooms=torch.from_numpy(rng.integers(max(self._num_rooms, 1), size=count)),
            kind=torch.from_numpy(np.where(alone, ALONE, np.where(noisy, WITH_SPEECH, NOTHING))),
            noise_db=torch.from_numpy(noise_db.astype(np.float32)),
            line_db=torch.from_numpy(rng.uniform(*LINE_DB, count).astype(np.float32)),
            line_law=torch.from_numpy(rng.integers(2, size=count)),
        )

    def _warming_up(self, epoch: int) -> bool:
        return epoch < self._data.curriculum_epochs

    def _rows(self, warming_up: bool, augment: AugmentConfig, rng: np.random.Generator) -> list[Row]:
        """The rows of an epoch: utterances in random order, then noise alone."""
        used = rng.random(len(self._seconds)) < self._shares
        if warming_up:
            used &= self._seconds <= self._data.curriculum_s
        order = [int(i) for i in rng.permutation(np.flatnonzero(used))]
        if not order:
            remedy = "raise data.curriculum_s" if warming_up else "raise the shares after * in data.train"
            raise ValueError(f"an epoch has no utterance{' that is short enough' * warming_up}: {remedy}")
        longest = min(self._data.max_utterance_s, self._data.max_batch_s)
        rows = []
        while order:
            group = [order.pop()]
            if rng.random() < augment.join_probability:
                for _ in range(int(rng.integers(1, 3))):
                    if order and self._seconds[group].sum() + self._seconds[order[-1]] < longest:
                        group.append(order.pop())
            before, after = rng.uniform(0, OFFSET_S) * (rng.random() < augment.offset_probability), 0.0
            if rng.random() < augment.margin_probability:
                before, after = rng.uniform(*MARGINS_S, 2)
            if rng.random() < augment.silence_probability:
                more = rng.uniform(0, augment.max_silence_s)
                before, after = (before + more, after) if rng.random() < 0.5 else (before, after + more)
            row = Row(group, [float(before), *rng.uniform(*PAUSES_S, len(group) - 1)], float(after))
            if self._samples(row, min(augment.speeds)) > longest * SAMPLE_RATE:  # too long to add its silence
                rows += [Row([utterance], [0.0], 0.0) for utterance in group]
            else:
                rows.append(row)
        number = round(augment.noise_alone * len(rows))
        shortest, longest = (min(seconds, longest) for seconds in ALONE_S)
        return rows + [Row([], [], rng.uniform(shortest, longest)) for _ in range(number)]

    def _noises(self, count: int, rng: np.random.Generator) -> np.ndarray:
        noise = self._noise
        which = rng.integers(noise.num_recorded, len(noise.lengths), count)
        if noise.num_recorded:
            recorded = rng.integers(noise.num_recorded, size=count)
            which = np.where(rng.random(count) < COLORED_SHARE, which, recorded)
        return np.stack((which, rng.integers(noise.lengths[which])), 1)

    def _samples(self, row: Row, speed: float) -> float:
        """Number of samples in a row; the speed changes only the words."""
        return self._speech.lengths[row.utterances].sum() / speed + (sum(row.pauses) + row.after) * SAMPLE_RATE

    def _frames(self, row: Row, speed: float) -> int:
        return max(1, frames_of(int(self._samples(row, speed))))


PLAIN = AugmentConfig(
    speeds=(1.0,),
    room_probability=0.0,
    noise_probability=0.0,
    telephone_probability=0.0,
    noise_alone=0.0,
    join_probability=0.0,
    margin_probability=0.0,
    offset_probability=0.0,
    silence_probability=0.0,
)
"""Recordings as they are, for the first epochs: a network that writes nothing yet would learn from noise to go on."""


def segments(row: Row, lengths: Sequence[int], speed: float) -> list[int]:
    """The first sample of each utterance in a row, before the speed changes. lengths: samples of each utterance."""
    places, place = [], 0.0
    for length, pause in zip(lengths, row.pauses, strict=True):
        place += pause * SAMPLE_RATE * speed
        places.append(int(place))
        place += length
    return places


def _padded(frames: int) -> int:
    """The row length for this number of frames."""
    return int(_LENGTHS[np.searchsorted(_LENGTHS, frames)])


def _some(probability: float, count: int, most: int, rng: np.random.Generator) -> int:
    """A random number of `count` rows: a multiple of `most`, or of a smaller number for fewer rows. Each new number
    would need a new FFT plan."""
    unit, mean = max(1, min(most, count // 8)), probability * count
    return count if probability == 1 else min(int(mean / unit + rng.random()) * unit, count)
