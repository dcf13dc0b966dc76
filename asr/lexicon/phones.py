"""Words as phone tokens: what the phone head of a model writes.

A phone has two tokens, one where it begins a word and one inside it, as word pieces have with "▁": a word boundary
takes no frame of its own. Token 0 is the CTC blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asr.lexicon.lexicon import Lexicon
from asr.text import WORD_BOUNDARY


def num_phone_tokens(phones: Sequence[str]) -> int:
    """Blank, and two tokens for each phone."""
    return 1 + 2 * len(phones)


class PhoneTokenizer:
    """Text -> phone tokens, by the first pronunciation of each word in a lexicon."""

    def __init__(self, lexicon: Lexicon, phones: Sequence[str] = ()) -> None:
        """phones: those of a model, in its order; default: the lexicon's. ValueError for a lexicon with others."""
        self.phones = tuple(phones) or tuple(lexicon.phones)
        if other := [phone for phone in lexicon.phones if phone not in self.phones]:
            raise ValueError(
                f"the model has no phone {', '.join(other)} of the lexicon: it has {' '.join(self.phones)}"
            )
        ids = {phone: 2 * index + 1 for index, phone in enumerate(self.phones)}
        self._words: dict[str, list[int]] = {}
        for word, (pronunciation, *_) in lexicon.pronunciations.items():
            begins, *inside = (ids[phone] for phone in pronunciation)
            self._words[word] = [begins, *(token + 1 for token in inside)]

    def missing(self, text: str) -> list[str]:
        """Words of `text` that the lexicon lacks."""
        return [word for word in text.split() if word.upper() not in self._words]

    def encode(self, text: str) -> list[int]:
        return [token for word in text.split() for token in self._words[word.upper()]]

    def decode(self, tokens: Iterable[int]) -> str:
        """Phones with a space between them, those that begin a word marked with "▁"."""
        return " ".join(
            (WORD_BOUNDARY if token % 2 else "") + self.phones[(token - 1) // 2] for token in tokens if token > 0
        )
