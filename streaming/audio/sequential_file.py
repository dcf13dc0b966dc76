"""A soundfile that is read sequentially."""

from __future__ import annotations

import soundfile


class SequentialFile(soundfile.SoundFile):
    """Seeks only if `seek` is called.

    soundfile would seek to its current position after every block of a seekable file. That makes libmpg123 lose the
    bits that a frame takes from earlier frames: it writes errors to file descriptor 2, and the samples differ.
    """

    def seekable(self) -> bool:
        return False

    @property
    def can_seek(self) -> bool:
        """Whether its encoding can, if the content is a file."""
        return super().seekable()
