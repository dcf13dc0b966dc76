"""Cased prose as training data: words in lower case, each with its case and the mark after it.

A file has one sentence or paragraph per line. Lines that are bad examples are skipped: headings and chapter lines (no
mark at the end, or all in capitals), titles of books and verse (capitals within a sentence on words that never have
one), foreign and damaged text. Quotation marks and brackets are removed; numbers stay as they are, because at run time
numbers are written before this model sees the text.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

NONE, COMMA, PERIOD, QUESTION = range(4)
"""Marks after a word, numbered as in csrc/text/punctuation.h."""
LOWER, CAPITALIZED, UPPER = range(3)
"""Cases of a word, numbered likewise. A word of mixed case (McDonald) counts as capitalized; `Corpus.mixed` has its
spelling."""
UNKNOWN_CASE = 3
"""The case of a word that may be capitalized only because of its position; not trained on."""

_EXCLAMATION, _SEMICOLON, _COLON, _ELLIPSIS, _DASH = range(4, 9)
_MARKS = {",": COMMA, ".": PERIOD, "?": QUESTION, "!": _EXCLAMATION, ";": _SEMICOLON, ":": _COLON}
_MIXED = 3
_LINE, _QUOTE, _BREAK = 1, 2, 4
_OPENING = "\"'“‘«([{*_"
_CLOSING = "\"'”’»)]}*_"
_ELIDED = frozenset({"'tis", "'twas", "'em", "'til", "'cause", "'twill", "'twould", "'bout", "'round"})
_ABBREVIATED = "mr mrs ms dr st messrs mme mlle prof rev hon gen col capt lieut sergt no vol viz vs jr sr"
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
_FUNCTION_WORDS = (
    "a an and as at but by for from he her his if in it its my of on or our she so that the their then there they this "
    "to was we were what when where which who with you your"
)
_NEVER_CAPITALIZED = frozenset(_FUNCTION_WORDS.split())
_DASHES = re.compile(r"\s*(?:--+|[—–]+|\s-\s)\s*")
_NOTES = re.compile(r"\[[^\]]{0,12}\]|[†‡]")
_WORD = re.compile(r"'?[^\W_]+(?:['.,:@&][^\W_]+)*'?|[$£€]\d[\d.,]*|\d[\d.,:]*%", re.ASCII)
_LATIN = re.compile(r"[\x20-\x7eÀ-ÖØ-öø-ÿ‘’“”—–…£€«»†‡\t]*")
_CURLY = str.maketrans("‘’“”…", "''\"\"\u2026")
_MAX_WORDS = 120
_BLOCK = 1 << 20

Token = tuple[bool, tuple[tuple[str, int], ...], int]
"""Whether a quotation begins before the token, its words with their cases, and the mark after it."""


@dataclass(frozen=True)
class Corpus:
    """Words of running text, in order."""

    vocabulary: list[str]
    """Every word form, in lower case."""
    words: npt.NDArray[np.int32]
    """(num_words,) indices into `vocabulary`"""
    marks: npt.NDArray[np.uint8]
    """(num_words,) NONE to QUESTION: the mark after each word"""
    cases: npt.NDArray[np.uint8]
    """(num_words,) LOWER to UPPER, or UNKNOWN_CASE"""
    starts: npt.NDArray[np.int64]
    """Positions of words that begin a sentence, ascending."""
    breaks: npt.NDArray[np.int64]
    """Positions of words before which text was skipped, ascending; the first is 0."""
    mixed: dict[str, str]
    """Spelling of words of mixed case: mcdonald -> McDonald."""

    def __len__(self) -> int:
        return len(self.words)


class CorpusReader:
    """Collects lines; `corpus` returns their words."""

    def __init__(self) -> None:
        self._cache: dict[str, Token | None] = {}
        self._index: dict[str, int] = {}
        self._words, self._codes = array("i"), array("B")
        self._flags = array("B")
        self._mixed: dict[str, Counter[str]] = defaultdict(Counter)
        self._broken = True

    def __len__(self) -> int:
        return len(self._words)

    def add(self, line: str) -> None:
        """Adds a line, or skips it and records that text is missing there."""
        tokens = self._tokens(line)
        if tokens is None:
            self._broken = True
            return
        flag = _LINE | (_BREAK if self._broken else 0)
        self._broken = False
        index = self._index
        for quoted, words, mark in tokens:
            if quoted:
                flag |= _QUOTE
            last = len(words) - 1
            for i, (word, case) in enumerate(words):
                if case == _MIXED:
                    self._mixed[word.lower()][word] += 1
                self._words.append(index.setdefault(word.lower(), len(index)))
                self._codes.append(case << 4 | (mark if i == last else NONE))
                self._flags.append(flag)
                flag = 0

    def missing(self) -> None:
        """Records that the next line does not follow the previous one."""
        self._broken = True

    def _tokens(self, line: str) -> list[Token] | None:
        if not _LATIN.fullmatch(line):
            return None
        line = _DASHES.sub(" \u2014 ", _NOTES.sub("", line.translate(_CURLY))).replace("...", "\u2026")
        tokens: list[Token] = []
        for piece in line.split():
            if piece == "\u2014":
                if tokens and tokens[-1][2] == NONE:
                    tokens[-1] = (*tokens[-1][:2], _DASH)
                continue
            if piece not in self._cache:
                self._cache[piece] = _parse(piece)
            token = self._cache[piece]
            if token is None:
                return None
            if token[1]:
                tokens.append(token)
            elif tokens and token[2] and tokens[-1][2] == NONE:
                tokens[-1] = (*tokens[-1][:2], token[2])
        return tokens if _is_prose(tokens) else None

    def corpus(self) -> Corpus:
        """Raises ValueError if there is no prose."""
        if not self._words:
            raise ValueError("it has no prose: a line must be a sentence or paragraph that ends in a punctuation mark")
        words = np.frombuffer(self._words, np.int32).copy()
        codes = np.frombuffer(bytes(self._codes), np.uint8)
        flags = np.frombuffer(bytes(self._flags), np.uint8)
        vocabulary = list(self._index)
        mixed = self._mixed_forms(words, len(vocabulary))
        marks, cases = _labels(words, codes & np.uint8(15), codes >> np.uint8(4), flags, vocabulary, mixed)
        begins = (flags & (_LINE | _BREAK)) != 0
        begins[1:] |= (marks[:-1] == PERIOD) | (marks[:-1] == QUESTION) & (cases[1:] != LOWER)
        return Corpus(vocabulary, words, marks, cases, np.flatnonzero(begins), np.flatnonzero(flags & _BREAK), mixed)

    def _mixed_forms(self, words: npt.NDArray[np.int32], size: int) -> dict[str, str]:
        """The mixed-case spellings that are the usual spelling of their word."""
        total = np.bincount(words, minlength=size)
        mixed = {}
        for word, forms in self._mixed.items():
            form, count = forms.most_common(1)[0]
            if count >= MIN_MIXED and 2 * count > total[self._index[word]]:
                mixed[word] = form
        return mixed


MIN_MIXED = 5
"""Minimum count of a spelling of mixed case."""
MIN_UPPER = 0.2
"""Minimum share of a word's occurrences in all capitals; below it, capitals are emphasis."""


def _parse(piece: str) -> Token | None:
    """Splits a whitespace-separated token; None if it is not English."""
    quoted = False
    while piece and piece[0] in _OPENING and piece.lower().rstrip(",.?!;:") not in _ELIDED:
        quoted |= piece[0] in "\"'("
        piece = piece[1:]
    end = len(piece)
    while end and (piece[end - 1] in _CLOSING or piece[end - 1] in _MARKS or piece[end - 1] == "\u2026"):
        end -= 1
    core, tail = piece[:end], piece[end:]
    if tail.startswith("'") and core[-1:] in "sn" and not any(c in tail for c in '"”'):
        core += "'" if core[-1:] == "n" else ""  # goin'
    marks = [_ELLIPSIS if c == "\u2026" else _MARKS[c] for c in tail if c in _MARKS or c == "\u2026"]
    mark = NONE
    if marks:
        mark = QUESTION if QUESTION in marks else _EXCLAMATION if _EXCLAMATION in marks else marks[-1]
    if re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]", core):  # U.S., e.g.
        letters = tuple((letter, CAPITALIZED if letter.isupper() else LOWER) for letter in core.split("."))
        return quoted, letters, NONE if mark == PERIOD else mark
    words = []
    for part in re.split(r"[-/\u2026]", core):
        if not part:
            continue
        plain = part if part.isascii() else part.translate(_ASCII)
        if not _WORD.fullmatch(plain):
            return None
        words.append((part, _case(part)))
    is_initial = len(core) == 1 and core.isupper() and core != "I"
    if mark == PERIOD and tail[0] == "." and (core.lower() in _ABBREVIATIONS or is_initial):
        mark = NONE
    return quoted, tuple(words), mark


_ASCII = {code: "a" for code in (*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x100))}


def _case(word: str) -> int:
    if word.islower() or not any(map(str.isalpha, word)):
        return LOWER
    if not word[0].isalpha():
        return LOWER
    stem = word[:-2] if word.endswith("'s") else word
    if stem[0].isupper() and (len(stem) == 1 or stem[1:].islower() or not any(map(str.isalpha, stem[1:]))):
        return CAPITALIZED
    return UPPER if stem.isupper() else _MIXED


def _is_prose(tokens: Sequence[Token]) -> bool:
    """Whether the marks and capitals of a line look like a sentence of prose."""
    if not tokens or tokens[-1][2] == NONE:
        return False
    num_words = num_upper = odd = 0
    fresh = True  # at the start of a sentence, where a capital is not evidence
    for quoted, words, mark in tokens:
        for word, case in words:
            num_words += 1
            num_upper += case == UPPER
            if not fresh and not quoted and case in (CAPITALIZED, UPPER) and word.lower() in _NEVER_CAPITALIZED:
                odd += word != "A"
            fresh = False
        fresh = mark in (PERIOD, QUESTION, _EXCLAMATION, _ELLIPSIS, _COLON)
    return odd < 2 and 2 * num_upper <= num_words <= _MAX_WORDS


def _labels(
    words: npt.NDArray[np.int32],
    marks: npt.NDArray[np.uint8],
    cases: npt.NDArray[np.uint8],
    flags: npt.NDArray[np.uint8],
    vocabulary: list[str],
    mixed: dict[str, str],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The marks to output, and the cases that words have regardless of their position."""
    following = np.append(cases[1:], LOWER)
    followed_small = (following == LOWER) & np.append((flags[1:] & _LINE) == 0, False)
    out = marks.copy()
    pause = (marks == _EXCLAMATION) | (marks == _ELLIPSIS)
    out[pause & followed_small] = COMMA
    out[pause & ~followed_small] = PERIOD
    out[(marks == _SEMICOLON) | (marks == _COLON) | (marks == _DASH)] = COMMA
    out[(marks == PERIOD) & followed_small] = NONE  # after an abbreviation
    line_ends = np.append((flags[1:] & _LINE) != 0, True)
    out[line_ends & (marks == _COLON)] = PERIOD

    is_i = np.array([word == "i" or word.startswith("i'") for word in vocabulary], bool)[words]
    before = np.insert(out[:-1], 0, PERIOD)
    by_place = ((flags & _LINE) != 0) | (before == PERIOD) | ((flags & _QUOTE) != 0)
    by_place &= (before != QUESTION) | ((flags & _BREAK) != 0)
    labels = cases.copy()
    labels[(cases == CAPITALIZED) & by_place & ~is_i] = UNKNOWN_CASE
    known = np.array([word in mixed for word in vocabulary], bool)[words]
    labels[cases == _MIXED] = UNKNOWN_CASE
    labels[(cases == _MIXED) & known] = CAPITALIZED
    upper = np.bincount(words[cases == UPPER], minlength=len(vocabulary))
    share = upper / np.maximum(np.bincount(words, minlength=len(vocabulary)), 1)
    labels[(cases == UPPER) & (share < MIN_UPPER)[words]] = UNKNOWN_CASE
    return out, labels


HELD_OUT = 0.02
"""Share of a file, at its end, that is held out of training."""


def read(
    path: Path,
    max_words: int,
    part: tuple[float, float] = (0.0, 1.0),
    reader: CorpusReader | None = None,
    apart: bool = False,
) -> CorpusReader:
    """Adds text of a file to `reader`, at most about `max_words` words, in blocks from the whole part.

    part: begin and end, as shares of the file. apart: lines do not continue the previous line.
    Raises OSError if the file cannot be read.
    """
    reader = CorpusReader() if reader is None else reader
    before = len(reader)
    for line in _lines(path, max_words, part):
        if line is None or apart:
            reader.missing()
        if line:
            reader.add(line)
        if len(reader) - before >= max_words:
            break
    return reader


def read_corpus(path: Path, max_words: int, part: tuple[float, float] = (0.0, 1.0), apart: bool = False) -> Corpus:
    """The corpus of one file; see `read`. Raises ValueError with its name if it has too little prose."""
    try:
        return read(path, max_words, part, apart=apart).corpus()
    except ValueError as error:
        reason = f"its last {HELD_OUT:.0%} is held out, and {error}" if part[0] else error
        raise ValueError(f"{path}: {reason}") from error


def _lines(path: Path, max_words: int, part: tuple[float, float]) -> Iterator[str | None]:
    """The lines of a file, with None for skipped lines, so that the lines read are spread over the file."""
    low, high = (round(share * path.stat().st_size) for share in part)
    num_blocks = max(1, (high - low) // _BLOCK)
    wanted = min(num_blocks, max_words * 7 // _BLOCK + 1)  # 5.7 bytes per word, plus skipped lines
    with open(path, "rb") as file:
        for i in range(wanted):
            start = low + i * num_blocks // wanted * _BLOCK
            file.seek(start)
            if start:
                file.readline()
            yield None
            end = high if wanted == num_blocks and i == wanted - 1 else start + _BLOCK
            while file.tell() < end:
                yield file.readline().decode("utf-8", "replace").strip()
