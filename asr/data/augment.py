"""Augmentation of log-mel features during training.

- `arrange` changes the rows of a batch, equally for all views: time warp, shifts relative to the chunk boundaries,
  concatenation of two or three utterances, long silences. A model trained only on short utterances that begin with
  their first word deletes words in long audio and after silence.
- `view` augments one row and keeps its length: voice, microphone, noise (`asr.data.spectral`), gain, frequency and time
  masks (SpecAugment, Park et al. 2019).

Added frames are drawn from the quietest frames of the same utterance, so that room and microphone match. `asr prepare`
augments waveforms (speed, rooms, noise), because training reads stored features.
"""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np
import torch
from lhotse.dataset.signal_transforms import mask_along_axis_optimized, time_warp
from torch import Tensor

from asr.config import AugmentConfig
from asr.data.spectral import NEPERS_PER_DB, add_noise, random_response, warp_frequencies
from asr.features import FRAME_SHIFT_S, LOG_FLOOR

_QUIET_SHARE = 0.05  # share of the frames that are the noise floor
_MIN_QUIET_FRAMES = 10
_GAP_FRAMES = 13  # averaging window before thresholding; longer than any stop closure
_ONSET_MARGIN = 10  # frames kept before the first sound, for quiet consonants


class Example(NamedTuple):
    """An utterance: features (num_frames, 80) float32 log-mel, and its transcript."""

    features: Tensor
    text: str


class Augmenter:
    """Augments by `config`. Uses the global generators, like lhotse: seed `random`, NumPy, PyTorch."""

    def __init__(self, config: AugmentConfig) -> None:
        self.config = config

    def arrange(self, utterances: list[Example], max_frames: int) -> list[Example]:
        """The rows of a batch, warped, concatenated, with silences, and shifted relative to the chunks.

        max_frames: limit of the number of rows times the longest row, or the same product of `utterances` if that is
        larger, so memory does not grow. Concatenation and silences make rows longer, so there are fewer rows;
        utterances that do not fit are skipped this time: about 6 % with the default probabilities. (Attention scores
        grow with the longest row: in a concatenated batch they take up to three times the memory.)
        """
        config = self.config
        budget = max(max_frames, len(utterances) * max(len(u.features) for u in utterances))
        rows = [Example(self._warped(u.features), u.text) for u in utterances]
        if len(rows) > 1 and np.random.random() < config.concat_probability:
            rows = self._joined(rows, budget)
        if np.random.random() < config.silence_probability:
            rows = self._with_silence(rows, budget)
        limit = budget // len(rows)
        return [Example(self._shifted(row.features, limit), row.text) for row in rows]

    def view(self, features: Tensor) -> Tensor:
        """(T, 80) -> (T, 80) with another voice, microphone, noise, gain, and masks; digital silence is unchanged."""
        config = self.config
        if config.max_frequency_warp:
            features = warp_frequencies(features, 1 + random.uniform(-1, 1) * config.max_frequency_warp)
        is_digital = features <= LOG_FLOOR + 0.01  # stored in half precision
        changed = features + random.uniform(-1, 1) * config.max_gain_db * NEPERS_PER_DB
        if config.max_response_db:
            changed = changed + random_response(config.max_response_db)
        features = torch.where(is_digital, features, changed.clamp(min=LOG_FLOOR))
        if random.random() < config.noise_probability:
            noisy = add_noise(features, random.uniform(config.min_snr_db, config.min_snr_db + 30))
            features = torch.where(is_digital.all(1, keepdim=True), features, noisy)
        if random.random() > config.probability:
            return features
        mean = float(features.mean())
        if config.num_freq_masks and config.max_freq_bins:
            features = mask_along_axis_optimized(features, config.max_freq_bins, config.num_freq_masks, mean, axis=2)
        most = config.max_time_fraction * len(features)
        num_masks = min(config.num_time_masks, math.ceil(most / max(config.max_time_frames, 1)))
        size = min(config.max_time_frames, int(most / max(num_masks, 1)))
        if num_masks and size:
            features = mask_along_axis_optimized(features, size, num_masks, mean, axis=1)
        return features

    def _warped(self, features: Tensor) -> Tensor:
        if self.config.time_warp == 0 or np.random.random() >= self.config.probability:
            return features
        return time_warp(features, self.config.time_warp)

    def _joined(self, rows: list[Example], budget: int) -> list[Example]:
        """Concatenates two or three utterances per row, with pauses between them."""
        size = int(np.random.randint(2, 4))
        groups: list[list[Example]] = []
        room = 0
        for index in np.random.permutation(len(rows)):
            row = rows[index]
            pause = int(np.random.uniform(0.1, self.config.max_pause_s) / FRAME_SHIFT_S)
            if groups and len(groups[-1]) < 2 * size - 1 and pause + len(row.features) <= room:
                groups[-1] += [Example(noise_floor(groups[-1][-1].features, pause), ""), row]
                room -= pause + len(row.features)
            else:
                groups.append([row])
                room = budget - len(row.features)
        joined = [
            Example(torch.cat([p.features for p in group]), " ".join(p.text for p in group if p.text))
            for group in groups
        ]
        joined.sort(key=lambda row: len(row.features), reverse=True)
        return joined[: max(1, budget // len(joined[0].features))]

    def _with_silence(self, rows: list[Example], budget: int) -> list[Example]:
        """Adds a silence to every row, since all rows are padded to the longest one anyway."""
        most = int(self.config.max_silence_s / FRAME_SHIFT_S)
        longest = max(len(row.features) for row in rows) + int(np.random.randint(most + 1))
        num_kept = max(1, min(len(rows), budget // longest))
        kept = [rows[i] for i in np.sort(np.random.permutation(len(rows))[:num_kept])]
        limit = budget // num_kept
        out = []
        for features, text in kept:
            room = min(most, limit - len(features))
            num_frames = int(np.random.randint(room + 1))
            if np.random.random() < self.config.digital_silence_probability:
                silence = torch.full((num_frames, features.shape[1]), LOG_FLOOR)
            else:
                silence = noise_floor(features, num_frames)
            at = (0, len(features), _widest_gap(features))[np.random.randint(3)]
            out.append(Example(torch.cat((features[:at], silence, features[at:])), text))
        return out

    def _shifted(self, features: Tensor, limit: int) -> Tensor:
        """Adds up to `max_offset_frames` of noise floor at the start, or drops as much leading silence."""
        if np.random.random() >= self.config.offset_probability:
            return features
        offset = int(np.random.randint(-self.config.max_offset_frames, self.config.max_offset_frames + 1))
        if offset < 0:
            sounds = features.mean(1) > _threshold(features)
            first = int(sounds.int().argmax())
            return features[min(-offset, max(0, first - _ONSET_MARGIN)) :]
        offset = min(offset, max(0, limit - len(features)))
        return torch.cat((noise_floor(features, offset), features))


def noise_floor(features: Tensor, num_frames: int) -> Tensor:
    """Frames (num_frames, 80), drawn from the quietest frames of `features` (T, 80)."""
    count = min(len(features), max(_MIN_QUIET_FRAMES, int(_QUIET_SHARE * len(features))))
    quietest = features.mean(1).topk(count, largest=False).indices
    return features[quietest[torch.from_numpy(np.random.randint(count, size=num_frames))]]


def _threshold(features: Tensor) -> Tensor:
    """Threshold of the mean log-mel, () float32, between an utterance's noise floor and its speech."""
    floor, speech = features.mean(1).quantile(torch.tensor([0.05, 0.95]))
    return floor + 0.25 * (speech - floor)


def _widest_gap(features: Tensor) -> int:
    """The middle frame of the quietest pause between words; the last frame if there is no pause."""
    if len(features) < 3 * _GAP_FRAMES:
        return len(features)
    energy = features.mean(1).unfold(0, _GAP_FRAMES, 1).mean(1)
    inner = energy[_GAP_FRAMES:-_GAP_FRAMES]
    quietest = int(inner.argmin())
    if inner[quietest] > _threshold(features):
        return len(features)
    return quietest + _GAP_FRAMES + _GAP_FRAMES // 2
