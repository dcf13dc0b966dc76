"""Words as phone tokens, the output of a model's phone head.

A phone has two tokens, one for the beginning of a word and one inside words, like word pieces with "▁": a word boundary
takes no frame of its own. Token 0 is the CTC blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asr.lexicon.lexicon import Lexicon
from asr.text import WORD_BOUNDARY


def num_phone_tokens(phones: Sequence[str]) -> int:
    """Number of phone tokens: blank, and two for each phone."""
    return 1 + 2 * len(phones)


def first_tokens(phones: Sequence[str]) -> dict[str, int]:
    """The token of each phone at the beginning of a word; the token inside words is the next one."""
    return {phone: 2 * index + 1 for index, phone in enumerate(phones)}


def phone_tokens(pronunciation: Iterable[str], ids: Mapping[str, int]) -> list[int]:
    """The token ids of a word. ids: see `first_tokens`."""
    begins, *inside = (ids[phone] for phone in pronunciation)
    return [begins, *(token + 1 for token in inside)]


class PhoneTokenizer:
    """Converts text to phone tokens, with the first pronunciation of each word in a lexicon."""

    def __init__(self, lexicon: Lexicon, phones: Sequence[str] = ()) -> None:
        """phones: a model's phones in its order; default: the lexicon's. Raises ValueError if others occur."""
        self.phones = tuple(phones) or tuple(lexicon.phones)
        if other := [phone for phone in lexicon.phones if phone not in self.phones]:
            raise ValueError(
                f"the model lacks the phones {', '.join(other)} of the lexicon: it has {' '.join(self.phones)}"
            )
        ids = first_tokens(self.phones)
        self._words: dict[str, list[int]] = {}
        for word, (pronunciation, *_) in lexicon.pronunciations.items():
            self._words[word] = phone_tokens(pronunciation, ids)

    def missing(self, text: str) -> list[str]:
        """Words of `text` that the lexicon lacks."""
        return [word for word in text.split() if word.upper() not in self._words]

    def encode(self, text: str) -> list[int]:
        return [token for word in text.split() for token in self._words[word.upper()]]

    def decode(self, tokens: Iterable[int]) -> str:
        """Phones separated by spaces; "▁" marks those that begin a word."""
        return " ".join(
            (WORD_BOUNDARY if token % 2 else "") + self.phones[(token - 1) // 2] for token in tokens if token > 0
        )
