"""The packed n-gram language model of the beam search: written from n-grams or an ARPA file, and loaded.

The file is little-endian. `asr._core.NgramLm` checks it once and then reads its tables in place, so processes that map
it share its memory. A table marked with * begins at a multiple of 8 bytes from the beginning of the file, after zeros:

    "ASRNGRAM", u32 version = 2, u64 checksum of all bytes that follow (csrc/checksum.h)
    u32 order, u32 number of n-grams of each order,
    u32 size, and that many bytes: the words in UTF-8, sorted by their bytes, each followed by a newline, including <s>,
        </s> and <unk>. A word's id is its position in this list.
    order 1:   * f32 log-probability of each word
    order > 1: the n-grams are sorted by their words, so those with the same (n-1)-gram prefix are adjacent:
        u32 number of positions, * u32 for each block, * u32 positions, * u8 for each (n-1)-gram: the number of n-grams
            that extend it, as `PackedRanges` (csrc/search/packed_numbers.h) reads it
        * u64 units: the last word of each n-gram, as `PackedNumbers` (there, too) reads it
        the log-probability of each n-gram, quantized
    every order but the last: back-off weight of each n-gram, quantized
    u32 size, and that many bytes: the names of the phones, one per line, up to 128. Only if there are phones:
        for each word: u8 number of pronunciations, and for each of them u8 length and that many u8, 128 + index of a
            phone
        u32 size, and * that many bytes: the G2P model for other words (csrc/search/g2p.h), which is such a file; 0 if
            there is none

Log-probabilities are natural. Quantized numbers are f32 low, f32 step and one byte each: low + step * byte.
Runs without PyTorch.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr._core import NgramLm, checksum

BUNDLED = Path(__file__).parents[1] / "models" / "english.lm"
"""Words of English novels and read speech, upper case."""

MAGIC = b"ASRNGRAM"
VERSION = 2
ALIGNMENT = 8
RANGES_IN_BLOCK = 16
HEAD_SIZE = len(MAGIC) + 4 + 8
"""Bytes before those that the checksum covers."""
MAX_PHONES = 128
FIRST_PHONE = 0x80
"""The byte that stands for phone 0 in pronunciations."""
MAX_PRONUNCIATIONS = 255
"""Maximum pronunciations of a word, and maximum phones of one."""
MAX_ORDER = 9
FEWEST_WORDS = 20_000
"""A language model with fewer words is of little use alone."""
SPECIAL_WORDS = SENTENCE_BEGIN, SENTENCE_END, UNKNOWN = "<s>", "</s>", "<unk>"
MISSING_UNKNOWN_LOG10 = -7.0
"""log10 P(<unk>) if the ARPA file has none."""
LOWEST_LOG10 = -99.0
"""The log-probability that ARPA files give <s>, which is never predicted."""


class LmError(ValueError):
    """A language model that cannot be read or packed."""


def load_lm(path: str | Path) -> NgramLm:
    """Opens a packed language model; "bundled" is the one in the package.

    The file is mapped: it may be replaced, but must not be changed in place. Raises LmError, with the name of the file,
    if it is missing or damaged.
    """
    path = _located(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return NgramLm(np.frombuffer(data, np.uint8))
    except ValueError as error:
        raise LmError(f"{path}: {error}") from error


def read_packed(path: str | Path) -> bytes:
    """The bytes of a language model's file; "bundled" is the one in the package. Raises LmError."""
    path = _located(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _located(path: str | Path) -> Path:
    return BUNDLED if path == "bundled" else Path(path)


def _unreadable(path: Path, error: OSError) -> LmError:
    return LmError(f"language model {path} cannot be read: {error.strerror}")


def few_words(num_words: int, name: str, language: str = "") -> str:
    """A warning if `num_words` words are too few for a language model; else empty.

    language: code of the language of its words; empty if it is not known.
    """
    if num_words >= FEWEST_WORDS:
        return ""
    mixing = f"asr lm mix 'bundled*0.7' '{name}*0.3' -o mixed.lm"
    if language.split("-")[0] == "en":
        remedy = f"mix it with a general model, {mixing}"
    else:
        remedy = f"train it on more text of the language{language and f' {language}'}"
        remedy += "" if language else f", or mix it with a general model (English: {mixing})"
    return (
        f"{name} knows {num_words} words; all others are recognized as one of these or spelled by sound: below "
        f"{FEWEST_WORDS} words, {remedy}"
    )


@dataclass
class Ngrams:
    """The n-grams of one order, in any order. Logarithms to base 10, as in an ARPA file."""

    words: npt.NDArray[np.int64]
    """(count, n): word ids."""
    log_probs: npt.NDArray[np.float32]
    """(count,)"""
    backoffs: npt.NDArray[np.float32]
    """(count,)"""


def read_arpa(lines: Iterator[str]) -> tuple[list[str], list[Ngrams]]:
    """Words, sorted by their bytes, and n-grams of an ARPA file. Raises LmError with the invalid line."""
    words: list[str] = []
    ids: dict[str, int] = {}
    levels: list[Ngrams] = []
    for order, count in enumerate(_read_counts(lines), 1):
        _expect(lines, f"\\{order}-grams:")
        rows: list[list[str]] = []
        pairs: list[tuple[float, float]] = []
        for _ in range(count):
            fields = (line := next(lines, "")).split()
            if not order + 1 <= len(fields) <= order + 2:
                raise LmError(f"{line.strip()!r} is not a log10 probability, {order} words and a back-off weight")
            try:
                pairs.append((float(fields[0]), float(fields[order + 1]) if len(fields) > order + 1 else 0.0))
            except ValueError:
                raise LmError(f"{line.strip()!r} does not begin and end with numbers") from None
            rows.append(fields[1 : order + 1])
        numbers = np.array(pairs, np.float32).reshape(-1, 2)
        if not np.isfinite(numbers).all():
            raise LmError(f"a number among the {order}-grams is not finite")
        if order == 1:
            for special in SPECIAL_WORDS:
                if [special] not in rows:
                    rows.append([special])
                    missing = MISSING_UNKNOWN_LOG10 if special == UNKNOWN else LOWEST_LOG10
                    numbers = np.append(numbers, np.array([[missing, 0.0]], np.float32), axis=0)
            words = sorted((row[0] for row in rows), key=str.encode)
            ids = {word: index for index, word in enumerate(words)}
            if len(ids) != len(rows):
                raise LmError("a word is listed twice among the 1-grams")
        try:
            table = np.array([[ids[word] for word in row] for row in rows], np.int64).reshape(-1, order)
        except KeyError as error:
            raise LmError(f"the word {error} of the {order}-grams is not among the 1-grams") from None
        levels.append(Ngrams(table, numbers[:, 0], numbers[:, 1]))
    _expect(lines, "\\end\\")
    return words, levels


def _read_counts(lines: Iterator[str]) -> list[int]:
    _expect(lines, "\\data\\")
    counts: list[int] = []
    for line in lines:
        if not line.strip():
            break
        name, _, count = line.strip().partition("=")
        if name != f"ngram {len(counts) + 1}" or not count.isdigit():
            raise LmError(f"{line.strip()!r} is not 'ngram {len(counts) + 1}=' and a number")
        counts.append(int(count))
    if not 1 <= len(counts) <= MAX_ORDER:
        raise LmError(f"it holds n-grams up to order {len(counts)}; 1 to {MAX_ORDER} can be packed")
    return counts


def _expect(lines: Iterator[str], heading: str) -> None:
    for line in lines:
        if line.strip() == heading:
            return
        if line.strip() and heading != "\\data\\":  # a file may begin with comments
            raise LmError(f"found {line.strip()[:80]!r}, expected {heading}")
    raise LmError(f"it has no {heading}; is it a whole ARPA file?")


def pack(
    words: list[str],
    levels: list[Ngrams],
    phones: Sequence[str] = (),
    pronunciations: Mapping[str, Sequence[Sequence[str]]] | None = None,
    g2p: bytes = b"",
) -> bytes:
    """The packed file, with pronunciations if there are phones (see `with_pronunciations`).

    Raises LmError for an n-gram without its prefix.
    """
    order, base = len(levels), len(words)
    file = begin_file(words, [len(level.words) for level in levels])
    keys: list[npt.NDArray[np.int64]] = []  # per order: index of the prefix * base + last word, ascending
    for n, level in enumerate(levels, 1):
        beginning = level.words[:, 0] if n > 1 else np.zeros(len(level.words), np.int64)
        for k in range(2, n):
            wanted = beginning * base + level.words[:, k - 1]
            beginning = np.searchsorted(keys[k - 1], wanted)
            found = np.take(keys[k - 1], beginning, mode="clip") == wanted if len(keys[k - 1]) else wanted < 0
            if not found.all():
                amiss = " ".join(words[i] for i in level.words[int(np.argmin(found))])
                raise LmError(f"the prefix {k}-gram of the {n}-gram {amiss!r} is missing: prune the model differently")
        key = beginning * base + level.words[:, -1]
        sort = np.argsort(key, kind="stable")
        keys.append(key[sort])
        if (np.diff(keys[-1]) == 0).any():
            raise LmError(f"one of the {n}-grams is listed twice")
        natural = (math.log(10) * level.log_probs[sort]).astype("<f4")
        if n == 1:
            add_table(file, natural)
        else:
            lengths = np.diff(np.searchsorted(keys[-1], base * np.arange(len(keys[-2]) + 1)))
            add_children(file, lengths, level.words[sort, -1], base)
            file += _quantized(natural)
        if n < order:
            file += _quantized(math.log(10) * level.backoffs[sort])
    packed = sealed(file + _u32(0))
    return with_pronunciations(packed, phones, pronunciations or {}, g2p) if phones else packed


def begin_file(words: list[str], counts: Sequence[int]) -> bytearray:
    """The bytes before the log-probabilities of the words. counts: of n-grams of each order."""
    text = "".join(f"{word}\n" for word in words).encode()
    return bytearray(HEAD_SIZE) + _u32(len(counts), *counts, len(text)) + text


def add_table(file: bytearray, table: npt.NDArray[np.generic] | bytes) -> None:
    """Adds a table that is read in place."""
    file += bytes(-len(file) % ALIGNMENT)
    file += table if isinstance(table, bytes) else table.tobytes()


def add_children(file: bytearray, lengths: npt.NDArray[np.int64], words: npt.NDArray[np.int64], num_words: int) -> None:
    """Adds the last words of the n-grams of one order, (count,), and how many extend each (n-1)-gram."""
    positions = np.concatenate(([0], np.cumsum(lengths)))
    blocks = positions[:-1:RANGES_IN_BLOCK].astype("<u4")
    long = np.unique(np.flatnonzero(lengths > 0xFF) // RANGES_IN_BLOCK)
    width = RANGES_IN_BLOCK + 1
    blocks[long] = (1 << 31) + width * np.arange(len(long))
    inside = np.minimum(long[:, None] * RANGES_IN_BLOCK + np.arange(width), len(lengths))
    file += _u32(width * len(long))
    add_table(file, blocks)
    add_table(file, positions[inside].astype("<u4"))
    add_table(file, np.minimum(lengths, 0xFF).astype(np.uint8))
    add_table(file, _bits(words, (num_words - 1).bit_length()))


def sealed(file: bytes | bytearray) -> bytes:
    """A file with its first bytes."""
    content = bytes(file[HEAD_SIZE:])
    return MAGIC + _u32(VERSION) + np.array([checksum(content)], "<u8").tobytes() + content


def unpack(packed: bytes) -> tuple[list[str], list[Ngrams]]:
    """Inverse of `pack`, up to quantization: words, sorted by their bytes, and n-grams. Raises LmError if damaged."""
    try:
        lm = NgramLm(np.frombuffer(packed, np.uint8))
    except ValueError as error:
        raise LmError(str(error)) from error
    words = _words(packed, lm)
    levels: list[Ngrams] = []
    ngrams = np.empty((1, 0), np.int64)
    num_children = np.array([len(words)])
    for n in range(1, len(lm.num_ngrams) + 1):
        last, log_probs, backoffs, children = lm.level(n)
        if last.max(initial=0) >= len(words):
            raise LmError(f"damaged: a {n}-gram of a word that it does not have; write it again with `asr lm`")
        ngrams = np.concatenate((np.repeat(ngrams, num_children, axis=0), last[:, None]), axis=1)
        num_children = children
        levels.append(Ngrams(ngrams, log_probs / np.float32(math.log(10)), backoffs / np.float32(math.log(10))))
    return words, levels


def with_pronunciations(
    packed: bytes,
    phones: Sequence[str],
    pronunciations: Mapping[str, Sequence[Sequence[str]]],
    g2p: bytes = b"",
) -> bytes:
    """A packed file with new pronunciations of its words.

    phones: names of all phones. pronunciations: for each word any number of sequences of phones. g2p: the file of the
    G2P model for other words. Raises LmError for a pronunciation that cannot be packed.
    """
    old = NgramLm(np.frombuffer(packed, np.uint8))
    numbers = {phone: number for number, phone in enumerate(phones)}
    if not 1 <= len(numbers) == len(phones) <= MAX_PHONES or any(not phone or "\n" in phone for phone in phones):
        raise LmError(f"phones must be 1 to {MAX_PHONES} different names, got {len(phones)}")
    names = "\n".join(phones).encode()
    file = bytearray(packed[: len(packed) - old.pronunciations_size])
    file += _u32(len(names)) + names
    for word in _words(packed, old):
        variants = list(dict.fromkeys(map(tuple, pronunciations.get(word, ()))))
        if len(variants) > MAX_PRONUNCIATIONS:
            raise LmError(f"{word} has {len(variants)} pronunciations; at most {MAX_PRONUNCIATIONS} can be packed")
        file.append(len(variants))
        for variant in variants:
            if not 1 <= len(variant) <= MAX_PRONUNCIATIONS:
                raise LmError(f"a pronunciation of {word} has {len(variant)} phones; 1 to 255 can be packed")
            try:
                file += bytes([len(variant), *(FIRST_PHONE + numbers[phone] for phone in variant)])
            except KeyError as error:
                raise LmError(f"{word} is pronounced with {error}, which is not one of the phones") from None
    file += _u32(len(g2p))
    if g2p:
        add_table(file, g2p)
    return sealed(file)


def _words(packed: bytes, lm: NgramLm) -> list[str]:
    """The words of a file; `lm` has already checked it."""
    size_at = HEAD_SIZE + 4 * (1 + len(lm.num_ngrams))
    size = int(np.frombuffer(packed, "<u4", 1, size_at)[0])
    return packed[size_at + 4 : size_at + 4 + size].decode().split("\n")[:-1]


def _u32(*values: int) -> bytes:
    return np.array(values, "<u4").tobytes()


def _bits(values: npt.NDArray[np.int64], num_bits: int) -> npt.NDArray[np.uint64]:
    """Numbers of `num_bits` bits each, one after another from the lowest bit on, and at least one unit more."""
    units = np.zeros(len(values) * num_bits // 64 + 2, "<u8")
    bits = np.arange(len(values), dtype=np.uint64) * np.uint64(num_bits)
    at, shift = (bits // np.uint64(64)).astype(np.int64), bits % np.uint64(64)
    numbers = values.astype(np.uint64)
    np.bitwise_or.at(units, at, numbers << shift)
    np.bitwise_or.at(units, at + 1, numbers >> np.uint64(1) >> (np.uint64(63) - shift))
    return units


def _quantized(values: npt.NDArray[np.float32]) -> bytes:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    step = (high - low) / 255
    codes = np.round((values - low) / step) if step else np.zeros(len(values))
    return np.array([low, step], "<f4").tobytes() + codes.astype(np.uint8).tobytes()
