"""Plans of the batches of an epoch: the utterances, noises and rooms of each row. `waves` computes the sound.

A row is an utterance, or two or three with pauses, or noise alone. Rows of similar length form a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asr.features import FRAME_SHIFT_S, SAMPLE_RATE
from asr.features import num_frames as frames_of
from asr.training.gpu.recordings import MAX_S, Noise, Speech

SPEEDS = {0.9: 0.2, 0.95: 0.17, 1.0: 0.26, 1.05: 0.17, 1.1: 0.2}
"""Speeds of a batch, with their probabilities."""
JOINED_SHARE = 0.07
"""Share of rows with two or three utterances."""
PAUSES_S = (0.1, 1.0)
MARGIN_SHARE, MARGINS_S = 0.55, (0.1, 1.5)
"""Share of rows with noise before and after the words, and the range of its length in seconds."""
OFFSET_S = 0.64
"""Half of the other rows begin with up to one chunk of noise, so that words have any position relative to the
chunks."""
SILENCE_SHARE, MAX_SILENCE_S = 0.05, 5.0
"""Share of rows with a long silence before or after the words, and its maximum length in seconds."""
ALONE_SHARE, ALONE_S, ALONE_DB = 0.03, (1.5, 12.0), (-60.0, -20.0)
"""Noise alone: number of rows per row with words, length in seconds, and power relative to full scale."""
ROOM_SHARE, ROOM_SNR_DB = (0.38, 0.46), (4.0, 25.0)
LINE_SHARE, LINE_DB = 0.07, (-35.0, -15.0)
"""Share of rows through a telephone line, and the power of the speech on it."""
COLORED_SHARE = 0.25
"""Share of synthesized noise if there is also recorded noise."""
MAX_FRAMES = 2560
"""Maximum feature frames of a row."""
MAX_ROWS = 320
"""Maximum rows of a batch: with more, a batch of short utterances would have more tokens than others."""
# Few different row lengths, so that memory and FFT plans are reused. Each is a multiple of 32 frames.
_LENGTHS = np.unique(np.ceil(160 * 1.07 ** np.arange(42) / 32) * 32).astype(np.int64).clip(max=MAX_FRAMES)

NOTHING, WITH_SPEECH, ALONE = range(3)
"""Kinds of noise of a row."""


class Row(NamedTuple):
    """utterances: their numbers; pauses: seconds before each of them; after: seconds after the last."""

    utterances: list[int]
    pauses: list[float]
    after: float


class Plan(NamedTuple):
    """A batch of N rows: first `num_rooms` in rooms, last `num_lines` on telephone lines."""

    utterances: list[list[int]]
    frames: int
    """Feature frames of every row, with padding."""
    speed: float
    num_rooms: int
    num_lines: int
    seed: int
    """Random seed of dropout."""
    num_frames: Tensor
    """(N,) int64 feature frames without padding"""
    segments: Tensor
    """(N, 3, most utterances of a row) int64: first sample of each utterance in `Speech.samples`, its samples, and the
    sample of the row where it begins; before the speed changes"""
    num_spoken: Tensor
    """(N,) int64 samples of the utterances, after the speed has changed"""
    rooms: Tensor
    """(N,) int64"""
    noise: Tensor
    """(N, 3) int64: first sample in `Noise.samples`, samples, and the sample of that noise where the row begins"""
    noise_power: Tensor
    """(N,) float32 mean square of that noise"""
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


def plans(speech: Speech, noise: Noise, num_rooms: int, max_frames: int, seed: int) -> Iterator[Plan]:
    """The batches of all epochs, endlessly. max_frames: limit per batch, including padding."""
    epoch = 0
    while True:
        yield from epoch_plans(speech, noise, num_rooms, max_frames, np.random.default_rng((seed, epoch)))
        epoch += 1


def epoch_plans(
    speech: Speech, noise: Noise, num_rooms: int, max_frames: int, rng: np.random.Generator
) -> Iterator[Plan]:
    """The batches of one epoch, in random order."""
    rows = _rows(speech, rng)
    seconds = np.array([_samples(row, speech, 1.0) for row in rows]) / SAMPLE_RATE
    order = np.argsort(-seconds * np.exp(rng.uniform(-0.04, 0.04, len(rows))))
    batches: list[tuple[list[Row], int, float]] = []
    while len(order):
        speed = float(rng.choice(list(SPEEDS), p=list(SPEEDS.values())))
        frames = _padded(_frames(rows[order[0]], speech, speed))
        for _ in range(2):  # the order is only about that of the lengths
            count = max(1, min(MAX_ROWS, max_frames // frames))
            frames = _padded(max(_frames(rows[i], speech, speed) for i in order[:count]))
        batches.append(([rows[i] for i in order[:count]], frames, speed))
        order = order[count:]
    for index in rng.permutation(len(batches)):
        members, frames, speed = batches[index]
        yield _plan(members, frames, speed, speech, noise, num_rooms, rng)


def _rows(speech: Speech, rng: np.random.Generator) -> list[Row]:
    """The rows of an epoch: utterances in random order, then noise alone."""
    lengths = speech.lengths / SAMPLE_RATE
    used = np.flatnonzero(rng.random(len(lengths)) < speech.shares)
    order = [int(i) for i in rng.permutation(used if len(used) else len(lengths))]
    rows = []
    while order:
        group = [order.pop()]
        if rng.random() < JOINED_SHARE:
            for _ in range(int(rng.integers(1, 3))):
                if order and lengths[group].sum() + lengths[order[-1]] < MAX_S:
                    group.append(order.pop())
        before, after = rng.uniform(0, OFFSET_S) * (rng.random() < 0.5), 0.0
        if rng.random() < MARGIN_SHARE:
            before, after = rng.uniform(*MARGINS_S, 2)
        if rng.random() < SILENCE_SHARE:
            more = rng.uniform(0, MAX_SILENCE_S)
            before, after = (before + more, after) if rng.random() < 0.5 else (before, after + more)
        row = Row(group, [float(before), *rng.uniform(*PAUSES_S, len(group) - 1)], float(after))
        if frames_of(int(_samples(row, speech, min(SPEEDS)))) > MAX_FRAMES:  # too long to add its silence
            row = Row(group[:1], [0.0], 0.0)
        rows.append(row)
    return rows + [Row([], [], rng.uniform(*ALONE_S)) for _ in range(round(ALONE_SHARE * len(rows)))]


def _samples(row: Row, speech: Speech, speed: float) -> float:
    """Number of samples in a row; the speed changes only the words."""
    return speech.lengths[row.utterances].sum() / speed + (sum(row.pauses) + row.after) * SAMPLE_RATE


def _frames(row: Row, speech: Speech, speed: float) -> int:
    return max(1, frames_of(int(_samples(row, speech, speed))))


def _padded(frames: int) -> int:
    return int(_LENGTHS[min(int(np.searchsorted(_LENGTHS, frames)), len(_LENGTHS) - 1)])


def _plan(
    rows: Sequence[Row],
    frames: int,
    speed: float,
    speech: Speech,
    noise: Noise,
    num_rooms: int,
    rng: np.random.Generator,
) -> Plan:
    rows = [rows[i] for i in rng.permutation(len(rows))]
    spoken = [row for row in rows if row.utterances]
    in_room = min(_multiple(8, rng.uniform(*ROOM_SHARE) * len(spoken), rng), len(spoken))
    on_line = min(_multiple(4, LINE_SHARE * len(rows), rng), len(spoken) - in_room)
    rows = [*spoken[:in_room], *(row for row in rows if not row.utterances), *spoken[in_room:]]
    count = len(rows)

    segments = np.zeros((count, 3, max([1, *(len(row.utterances) for row in rows)])), np.int64)
    starts = speech.starts
    for line, row in enumerate(rows):
        place = 0.0
        for index, (utterance, pause) in enumerate(zip(row.utterances, row.pauses, strict=True)):
            place += pause * SAMPLE_RATE * speed
            segments[line, :, index] = starts[utterance], speech.lengths[utterance], int(place)
            place += speech.lengths[utterance]

    # A row with silence beside its words mostly gets noise: silence sounds like the room.
    alone = np.array([not row.utterances for row in rows])
    silent = np.array([len(row.utterances) > 1 or row.after > 0 or sum(row.pauses) > 0 for row in rows])
    number = np.arange(count)
    loud = (number < in_room) | ((number >= count - on_line) & (rng.random(count) < 0.5))
    noisy = loud | (rng.random(count) < np.where(silent, 0.88, 0.3))
    snr = np.where(silent, rng.uniform(22.0, 50.0, count), rng.uniform(15.0, 45.0, count))
    snr = np.where(loud, rng.uniform(*ROOM_SNR_DB, count), snr)

    num_noises = len(noise.lengths)
    which = rng.integers(noise.num_recorded, num_noises, count)
    if noise.num_recorded:
        recorded = rng.integers(noise.num_recorded, size=count)
        which = np.where(rng.random(count) < COLORED_SHARE, which, recorded)
    floats = (
        noise.powers[which],
        np.where(alone, rng.uniform(*ALONE_DB, count), snr),
        rng.uniform(*LINE_DB, count),
    )
    noise_power, noise_db, line_db = (torch.from_numpy(x.astype(np.float32)) for x in floats)
    return Plan(
        utterances=[row.utterances for row in rows],
        frames=frames,
        speed=speed,
        num_rooms=in_room,
        num_lines=on_line,
        seed=int(rng.integers(2**31)),
        num_frames=torch.tensor([_frames(row, speech, speed) for row in rows]),
        segments=torch.from_numpy(segments),
        num_spoken=torch.from_numpy((segments[:, 1].sum(1) / speed).astype(np.int64)),
        rooms=torch.from_numpy(rng.integers(num_rooms, size=count)),
        noise=torch.from_numpy(
            np.stack((noise.starts[which], noise.lengths[which], rng.integers(noise.lengths[which])), 1)
        ),
        noise_power=noise_power,
        kind=torch.from_numpy(np.where(alone, ALONE, np.where(noisy, WITH_SPEECH, NOTHING))),
        noise_db=noise_db,
        line_db=line_db,
        line_law=torch.from_numpy(rng.integers(2, size=count)),
    )


def _multiple(unit: int, mean: float, rng: np.random.Generator) -> int:
    """A random multiple of `unit` with this mean. Each new number of rows would need a new FFT plan."""
    return int(mean / unit + rng.random()) * unit
