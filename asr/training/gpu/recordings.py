"""All recordings of a training in memory, at 16 kHz, decoded by several processes: speech, noise, rooms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from asr.data.audio import TooLongError, find_sounds, read_audio
from asr.data.manifests import Utterance, normalized, read_table
from asr.data.prepare import in_processes
from asr.data.transforms import arrival, colored_noise, power, read_sound, simulated_room
from asr.data.utterance import num_ctc_frames
from asr.features import SAMPLE_RATE, SUBSAMPLING, num_frames
from asr.tables import Refusal
from asr.tokenizer import Tokenizer
from asr.training.inputs import normalizer_of

MIN_S, MAX_S = 0.3, 20.0
"""Shortest and longest recordings of speech, in seconds."""
ROOM_TAPS = 9600
"""Samples of a room's impulse response: 0.6 s."""
_FADE = 800  # samples of fade-out at its end
_NUM_COLORED, _COLORED_S = 24, 8.0  # number of synthesized noises, and their length


@dataclass(frozen=True)
class Speech:
    """Utterances. samples: their int16 samples at 16 kHz, one utterance after another; lengths: (num_utterances,)
    int64 samples; shares: (num_utterances,) probability of an utterance in an epoch; tables: names of the files."""

    samples: np.ndarray
    lengths: np.ndarray
    texts: list[str]
    shares: np.ndarray
    refusals: list[Refusal]
    tables: list[str]

    @property
    def starts(self) -> np.ndarray:
        """(num_utterances,) int64, the first sample of each utterance in `samples`."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def hours(self) -> float:
        return len(self.samples) / SAMPLE_RATE / 3600

    def waveforms(self) -> Iterator[np.ndarray]:
        """(num_samples,) float32 in ±1 of each utterance."""
        for start, length in zip(self.starts, self.lengths, strict=True):
            yield self.samples[start : start + length].astype(np.float32) / 32768


@dataclass(frozen=True)
class Noise:
    """Recordings without speech, then synthesized noise. samples: float32, one noise after another; lengths: (num,)
    int64 samples; powers: (num,) float64, mean square of each; num_recorded: how many are recordings."""

    samples: np.ndarray
    lengths: np.ndarray
    powers: np.ndarray
    num_recorded: int

    @property
    def starts(self) -> np.ndarray:
        """(num,) int64, the first sample of each noise in `samples`."""
        return np.cumsum(self.lengths) - self.lengths


def read_speech(
    tables: Iterable[tuple[str, float]], tokenizer: Tokenizer, num_jobs: int, noise_tags: str = "drop"
) -> Speech:
    """The utterances of tables of `asr prepare manifest`, each with its share of utterances in an epoch.

    noise_tags: see `TextNormalizer`.
    Raises ValueError if a table or all of its recordings cannot be used.
    """
    normalizer = replace(normalizer_of(tokenizer), noise_tags=noise_tags)
    waves: list[np.ndarray] = []
    texts: list[str] = []
    shares: list[float] = []
    refusals: list[Refusal] = []
    names: list[str] = []
    for table, share in tables:
        names.append(Path(table).name)
        num_texts, num_refusals = len(texts), len(refusals)
        rows = list(normalized(read_table(table), normalizer))
        refusals += [row for row in rows if isinstance(row, Refusal)]
        utterances = [row for row in rows if isinstance(row, Utterance)]
        for utterance, wave in zip(utterances, in_processes(_decode, utterances, num_jobs), strict=True):
            if isinstance(wave, Refusal):
                refusals.append(wave)
                continue
            waves.append(wave)
            texts.append(utterance.text)
            shares.append(share)
        if len(texts) == num_texts:
            last = refusals[-1] if len(refusals) > num_refusals else None
            why = f", such as {last.id}: {last.reason} ({last.detail})" if last else ""
            raise ValueError(f"{table} has no usable recording{why}")
    lengths = np.array([len(wave) for wave in waves])
    return Speech(np.concatenate(waves), lengths, texts, np.array(shares), refusals, names)


def read_noise(folder: Path | None, num_jobs: int, seed: int) -> Noise:
    """The recordings in a folder, if any, and noise of all colors from white to brown.

    Raises ValueError for a file that cannot be used.
    """
    recorded = list(in_processes(read_sound, find_sounds(folder, "noise"), num_jobs)) if folder else []
    rng = np.random.default_rng(seed)
    noises = [*recorded, *(colored_noise(int(_COLORED_S * SAMPLE_RATE), rng) for _ in range(_NUM_COLORED))]
    lengths, powers = ([measure(noise) for noise in noises] for measure in (len, power))
    return Noise(np.concatenate(noises), np.array(lengths), np.array(powers), len(recorded))


def read_rooms(folder: Path | None, num_simulated: int, num_jobs: int, seed: int) -> np.ndarray:
    """Impulse responses, (num_rooms, ROOM_TAPS) float16: those in a folder, or `num_simulated` simulated ones.

    They begin with the direct sound, so that words stay where they are. Raises ValueError for a file that cannot be
    used.
    """
    sources: Sequence[str | tuple[int, int]]
    sources = find_sounds(folder, "impulse response") if folder else [(seed, room) for room in range(num_simulated)]
    return np.stack(list(in_processes(_response, sources, num_jobs)))


def _response(source: str | tuple[int, int]) -> np.ndarray:
    """(ROOM_TAPS,) float16 from a file, or simulated with a seed; its largest tap is 1."""
    response = read_sound(source) if isinstance(source, str) else simulated_room(np.random.default_rng(source))
    response = response[arrival(response) :][:ROOM_TAPS]
    response = np.pad(response, (0, ROOM_TAPS - len(response)))
    response[-_FADE:] *= np.linspace(1, 0, _FADE, dtype=np.float32)
    return (response / np.abs(response).max()).astype(np.float16)


def _decode(utterance: Utterance) -> np.ndarray | Refusal:
    """Decodes an utterance to int16 samples at 16 kHz, or returns why training cannot use it."""

    def refusal(reason: str, detail: str = "") -> Refusal:
        return Refusal(utterance.id, str(utterance.audio), reason, detail)

    try:
        samples = read_audio(utterance.audio, MAX_S).samples
    except TooLongError as error:
        return refusal("too long", str(error))
    except ValueError as error:
        return refusal("unreadable audio", str(error))
    if len(samples) < MIN_S * SAMPLE_RATE:
        return refusal("too short", f"{len(samples) / SAMPLE_RATE:.2f} s")
    whole = (samples * 32768).round().clip(-32768, 32767).astype(np.int16)
    if not whole.any():
        return refusal("digital silence")
    needed, there = num_ctc_frames(utterance.text), num_frames(len(whole)) // SUBSAMPLING
    if needed > there:
        return refusal("more letters than frames", f"{needed} frames of 40 ms needed, {there} there")
    return whole
