"""Writes a language model of file version 1 as version 2, with the same n-grams and the same quantized numbers.

    python scripts/repack_lm.py old.lm new.lm

The G2P model in it is written anew, too. `asr lm` writes version 2 (asr/lm/packed.py).
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np

from asr.lm.packed import FIRST_PHONE, HEAD_SIZE, add_children, add_table, begin_file, sealed


class Reader:
    """Reads a file of version 1 from front to back."""

    def __init__(self, data: bytes) -> None:
        if data[:12] != b"ASRNGRAM" + struct.pack("<I", 1):
            raise SystemExit("not a language model of version 1")
        self.data, self.at = data, HEAD_SIZE

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        return int(struct.unpack("<I", self.take(4))[0])

    def varints(self, count: int) -> np.ndarray:
        """(count,) int64, of 7 bits a byte, the lowest first; all bytes but the last have their highest bit set."""
        data = np.frombuffer(self.data, np.uint8, offset=self.at)
        ends = np.flatnonzero(data < 0x80)[:count]
        starts = np.concatenate(([0], ends[:-1] + 1)) if count else ends
        values = np.zeros(count, np.int64)
        for k in range(int((ends - starts).max() if count else -1) + 1):
            some = starts + k <= ends
            values[some] |= (data[starts[some] + k].astype(np.int64) & 0x7F) << 7 * k
        self.at += int(ends[-1]) + 1 if count else 0
        return values


def repacked(data: bytes) -> bytes:
    reader = Reader(data)
    counts = [reader.number() for _ in range(reader.number())]
    words = reader.take(reader.number()).decode().split("\n")
    file = begin_file(words, counts)
    by_rank = np.empty(0, np.int64)
    for n, count in enumerate(counts, 1):
        if n == 1:
            log_probs = np.frombuffer(reader.take(4 * count), "<f4")
            by_rank = np.argsort(-log_probs, kind="stable")
            add_table(file, log_probs)
        else:
            lengths = reader.varints(counts[n - 2])
            add_children(file, lengths, by_rank[reader.varints(count)], len(words))
            file += reader.take(8 + count)
        if n < len(counts):
            file += reader.take(8 + count)
    names_size = reader.number()
    file += struct.pack("<I", names_size) + reader.take(names_size)
    if names_size:
        for _ in words:
            file += (variants := reader.take(1))
            for _ in range(variants[0]):
                file += (length := reader.take(1))
                file += bytes(FIRST_PHONE + phone for phone in reader.take(length[0]))
        g2p = reader.take(reader.number())
        g2p = repacked(g2p) if g2p else g2p
        file += struct.pack("<I", len(g2p))
        if g2p:
            add_table(file, g2p)
    return sealed(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args()
    args.new.write_bytes(repacked(args.old.read_bytes()))


if __name__ == "__main__":
    main()
