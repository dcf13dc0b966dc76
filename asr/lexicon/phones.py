"""Words as phone tokens: what the phone head of a model writes.

A phone has two tokens, one where it begins a word and one inside it, as word pieces have with "▁": a word boundary takes
no frame of its own. Token 0 is the CTC blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

WORD_BOUNDARY = "▁"


def num_phone_tokens(phones: Sequence[str]) -> int:
    """Blank, and two tokens for each phone."""
    return 1 + 2 * len(phones)


class PhoneTokenizer:
    """Text -> phone tokens, by a lexicon."""

    def __init__(self, phones: Sequence[str], pronunciations: Mapping[str, Sequence[str]]) -> None:
        """phones: names, in the order of the tokens; pronunciations: of each word, in these phones."""
        self.phones = tuple(phones)
        ids = {phone: index for index, phone in enumerate(phones)}
        self._words = {
            word: [2 * ids[phone] + (1 if place == 0 else 2) for place, phone in enumerate(pronunciation)]
            for word, pronunciation in pronunciations.items()
        }

    @staticmethod
    def load(path: str | Path) -> PhoneTokenizer:
        """Reads a dictionary of lines `WORD  P1 P2 P3`; of a word's variants, `WORD(2)`, the first is taken.

        Raises ValueError naming the line that is none.
        """
        pronunciations: dict[str, list[str]] = {}
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
            word, *phones = line.split()
            if not phones:
                raise ValueError(f"{path}, line {number}: {line!r} is not a word and its phones")
            if not word.endswith(")"):
                pronunciations.setdefault(word, phones)
        names = sorted({phone for pronunciation in pronunciations.values() for phone in pronunciation})
        return PhoneTokenizer(names, pronunciations)

    def missing(self, text: str) -> list[str]:
        """Words of `text` that the lexicon lacks."""
        return [word for word in text.split() if word not in self._words]

    def encode(self, text: str) -> list[int]:
        return [token for word in text.split() for token in self._words[word]]

    def decode(self, tokens: Iterable[int]) -> str:
        """Phones with a space between them, those that begin a word marked with "▁"."""
        return " ".join(
            (WORD_BOUNDARY if token % 2 else "") + self.phones[(token - 1) // 2] for token in tokens if token > 0
        )
