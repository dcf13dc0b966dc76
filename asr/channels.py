"""Channels of a recording: their average, one of them, or each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from asr.containers import AudioFileError

if TYPE_CHECKING:
    import numpy as np

Channel: TypeAlias = int | Literal["mix", "each"]
MAX_CHANNEL = 1024
"""The highest number of a channel; libsndfile reads no file with more."""
MAX_EACH = 8
"""Maximum number of channels that are recognized each by itself, because each costs as much as a file."""


def parse_channel(text: str) -> Channel:
    """The value of an option. Raises ValueError, which says what it must be."""
    if text in ("mix", "each"):
        return cast(Channel, text)
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_CHANNEL:
        return int(text)
    raise ValueError(f"is {text[:64]!r}; it must be mix, each or a number from 1 to {MAX_CHANNEL}")


def label_of(channel: int) -> str:
    """The label of a channel, counted from 1, in events and subtitles."""
    return f"channel {channel}"


def mixed(block: np.ndarray) -> tuple[np.ndarray, bool]:
    """(num_samples, num_channels) -> (num_samples,) float32: the average of the channels. If they cancel each other, as
    with a balanced line recorded in stereo, the first channel and True."""
    import numpy as np

    if block.shape[1] == 1:
        return block[:, 0], False
    with np.errstate(invalid="ignore"):  # samples may be infinite
        first = block[:, 0].astype(np.float64)
        average = block.mean(axis=1, dtype=np.float64)
        if average @ average < 1e-4 * (first @ first):
            return block[:, 0], True
        return average.astype(np.float32), False


class Selection:
    """The chosen channels of the blocks of a recording."""

    def __init__(self, channel: Channel, name: str, warn: Callable[[str], object]) -> None:
        """name: of the recording, for messages. warn: called once if the channels cancel each other."""
        self._channel, self._name, self._warn = channel, name, warn
        self._num_channels = 0
        self._has_warned = False

    def of(self, block: np.ndarray) -> np.ndarray:
        """(num_samples, num_channels) -> (num_samples,) or, for "each", unchanged. Raises AudioFileError if there is no
        such channel."""
        num_channels = block.shape[1]
        if self._channel == "mix":
            samples, cancel = mixed(block)
            if cancel and not self._has_warned:
                self._has_warned = True
                self._warn(
                    f"{self._name}: its channels cancel each other, so only the first one is used, as with --channel 1"
                )
            return samples
        if self._channel == "each":
            if num_channels > MAX_EACH:
                raise AudioFileError(
                    f"{self._name} has {num_channels} channels; channel each takes up to {MAX_EACH}: choose one by its "
                    "number"
                )
            if self._num_channels not in (0, num_channels):
                raise AudioFileError(
                    f"{self._name} goes on with {num_channels} channels after {self._num_channels}, which channel each "
                    "does not take: choose one by its number, or mix"
                )
            self._num_channels = num_channels
            return block
        if self._channel > num_channels:
            raise AudioFileError(
                f"{self._name} has no channel {self._channel}: choose from 1 to {num_channels}, mix or each"
            )
        return block[:, self._channel - 1]
