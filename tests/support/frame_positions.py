"""Finds the frames of a stream that an encoder run processes, for hand-made networks."""

from __future__ import annotations

import numpy as np

from support.work import EncoderStep

NUM_KEPT = 4000


class FramePositions:
    """Finds the frames of the second pass by their features. The audio must be noise that never repeats."""

    def __init__(self) -> None:
        self._seen = np.zeros((NUM_KEPT, 80), np.float32)
        """The first feature frame of each of the last encoder frames of the first pass."""
        self._num_frames = self._end = 0

    def start(self, step: EncoderStep) -> int:
        """The encoder frame of the stream at which `step` begins. Must be called once for every step."""
        count = (step.num_frames - 3) // 4
        if step.slot == 0:
            frames = np.arange(self._num_frames, self._num_frames + count)
            self._seen[frames % NUM_KEPT] = step.features[: 4 * count : 4]
            self._num_frames += count
            return int(frames[0])
        if step.slot == 1:
            (slot,) = np.flatnonzero((self._seen == step.features[0]).all(axis=1))
            self._end = self._num_frames - (self._num_frames - slot - 1) % NUM_KEPT - 1 + count
        return self._end - count  # the passes over a window have the same end
