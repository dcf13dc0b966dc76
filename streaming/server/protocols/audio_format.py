"""Formats of the audio in messages: linear samples of 16 bits at any rate, and the two kinds of G.711 of telephony."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asr.streaming.resampler import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from asr.streaming.server.protocols.common import ProtocolError, shown, whole_number

G711_RATE = 8000


def _ulaw() -> np.ndarray:
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4 & 7).astype(int), (code & 15).astype(int)
    magnitude = ((8 * mantissa + 132) << exponent) - 132
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw() -> np.ndarray:
    code = np.arange(256, dtype=np.uint8) ^ 0x55  # every second bit is inverted
    exponent, mantissa = (code >> 4 & 7).astype(int), (code & 15).astype(int)
    magnitude = (16 * mantissa + np.where(exponent, 264, 8)) << np.maximum(exponent - 1, 0)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


TABLES = {"pcmu": _ulaw(), "pcma": _alaw()}
"""The sample for each byte of G.711, mu-law and A-law."""
ENCODINGS = {
    "audio/pcm": "pcm",
    "pcm16": "pcm",
    "audio/pcmu": "pcmu",
    "g711_ulaw": "pcmu",
    "audio/pcma": "pcma",
    "g711_alaw": "pcma",
}
"""Present and former names of the formats of OpenAI's Realtime."""
TAKEN = (
    "'audio/pcm' ('pcm16') at any rate, such as 8000, 16000, 24000 or 48000, "
    "and 'audio/pcmu' ('g711_ulaw') and 'audio/pcma' ('g711_alaw') at 8000"
)


@dataclass(frozen=True)
class AudioFormat:
    """encoding: "pcm", "pcmu" or "pcma". rate: in Hz. One channel."""

    encoding: str = "pcm"
    rate: int = 24000

    @classmethod
    def parse(cls, kind: object, rate: object, path: str) -> AudioFormat:
        """The format that a client names as `kind`, at `rate`, or at the usual rate for None. Raises ProtocolError."""
        encoding = ENCODINGS.get(kind) if isinstance(kind, str) else None
        if encoding is None:
            raise ProtocolError(f"{path} is {shown(kind)}; this server takes {TAKEN}", path)
        usual = cls.rate if encoding == "pcm" else G711_RATE
        rate = usual if rate is None else whole_number("rate", rate, MIN_SAMPLE_RATE, MAX_SAMPLE_RATE, path)
        if encoding != "pcm" and rate != usual:
            raise ProtocolError(f"rate of {kind!r} is {rate}; it must be {usual}: leave it out", path)
        return cls(encoding, rate)

    @property
    def names(self) -> tuple[str, str]:
        """The present and the former name."""
        present, former = (name for name, encoding in ENCODINGS.items() if encoding == self.encoding)
        return present, former

    @property
    def sample_bytes(self) -> int:
        """Size of a sample in bytes."""
        return 2 if self.encoding == "pcm" else 1

    def samples(self, data: bytes) -> np.ndarray:
        """`data` as int16."""
        if self.encoding == "pcm":
            return np.frombuffer(data, "<i2").astype(np.int16)
        return TABLES[self.encoding][np.frombuffer(data, np.uint8)]


def plain_base64(text: str) -> str:
    """Normalizes Base64: encoders may break lines, omit the padding, or use the URL-safe alphabet."""
    for written, meant in (("\n", ""), ("\r", ""), (" ", ""), ("-", "+"), ("_", "/")):
        text = text.replace(written, meant)
    text = text.rstrip("=")
    return text + "=" * (-len(text) % 4)


class WholeFrames:
    """Joins pieces of audio, which may end in the middle of a frame, into whole frames."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes, frame_bytes: int) -> bytes:
        """The frames that `data` completes."""
        data = self._rest + data
        whole = len(data) // frame_bytes * frame_bytes
        self._rest = data[whole:]
        return data[:whole]

    def clear(self) -> None:
        """Forgets an incomplete frame."""
        self._rest = b""


USUAL_FORMAT = AudioFormat()
"""OpenAI's default."""
