"""soundfile's file, read from its beginning to its end."""

from __future__ import annotations

import soundfile


class SequentialFile(soundfile.SoundFile):
    """Never seeks.

    soundfile seeks to where it is after every block of a file that it can seek in. That makes libmpg123 lose the bits
    that a frame borrows from those before it: it writes errors to file descriptor 2, and the samples differ.
    """

    def seekable(self) -> bool:
        return False
