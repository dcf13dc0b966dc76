"""A text to be aligned: its words as written, in paragraphs, and how they may be said."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from asr._core import G2p, NgramLm, spell
from asr.lexicon.make import Pronouncer
from asr.lexicon.phones import first_tokens, phone_tokens
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.search import output_symbols
from asr.text import plain_apostrophes

MAX_SPELLINGS = 6
"""Ways of saying a word that are tried, at most."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}")
_SPOKEN = re.compile(r"[\w'&%@+]+")


@dataclass(frozen=True)
class TextWord:
    """A word between two spaces of the text.

    text: as written, with its punctuation. paragraph: its number, from 0. spoken: the words that are said for it, in
    capitals; several for "well-known".
    """

    text: str
    paragraph: int
    spoken: tuple[str, ...]


def text_words(text: str) -> list[TextWord]:
    """The words of a text; a blank line separates paragraphs. Punctuation that stands alone belongs to the word before
    it, at the beginning of a paragraph to the word after it."""
    found: list[TextWord] = []
    for number, paragraph in enumerate(_PARAGRAPH.split(text)):
        before, is_first = "", True
        for piece in paragraph.split():
            spoken = tuple(_spoken(piece))
            if spoken:
                found.append(TextWord(before + piece, number, spoken))
                before, is_first = "", False
            elif is_first:
                before += f"{piece} "
            else:
                last = found[-1]
                found[-1] = TextWord(f"{last.text} {piece}", number, last.spoken)
    return found


def spoken_form(word: str) -> str:
    """A single word in the form in which words of a text and of the recognizer are compared."""
    return plain_apostrophes(unicodedata.normalize("NFKC", word)).upper().strip("'")


def _spoken(piece: str) -> Iterator[str]:
    if initials := _INITIALS.search(piece):
        yield from filter(str.isalpha, spoken_form(initials[0]))
        return
    number = re.fullmatch(r"\W*(\d[\d.,:/-]*)\W*", piece)
    for part in [number[1].rstrip(".,:-")] if number else _SPOKEN.findall(plain_apostrophes(piece).replace("_", " ")):
        form = spoken_form(part)
        if any(map(str.isalnum, form)) or form in ("&", "%", "@", "+"):
            yield form


class Speller:
    """The spellings of words in tokens of a model: phones, if the language model has pronunciations, else letters or
    pieces of words."""

    def __init__(self, model: OnnxModel, lm: NgramLm | None) -> None:
        self.phones: tuple[str, ...] = ()
        """The phones of the tokens; empty for letters."""
        self._symbols = output_symbols(model.tokens)
        self._lm = lm
        if lm is not None and lm.phones and model.metadata.phones:
            self.phones = tuple(model.metadata.phones)
            self._ids = first_tokens(self.phones)
            self._pronouncer = Pronouncer(None, G2p(np.frombuffer(lm.g2p, np.uint8)) if lm.g2p else None)
        self._heard: dict[str, tuple[str, ...]] = {}

    def learn(self, spoken: str, words: Sequence[str]) -> None:
        """Words that were recognized where the text has `spoken`, which cannot be spelled: "1945"."""
        self._heard.setdefault(spoken, tuple(words))

    @functools.cache  # noqa: B019, it lives as long as an alignment
    def __call__(self, spoken: str) -> list[list[int]]:
        """The token ids of each spelling of a word of `TextWord.spoken`, MAX_SPELLINGS at most; none for digits and
        signs that `learn` does not know."""
        words = self._heard.get(spoken, (spoken,))
        choices = itertools.product(*(self._spellings(word) for word in words))
        return [list(itertools.chain(*choice)) for choice in itertools.islice(choices, MAX_SPELLINGS)]

    def _spellings(self, word: str) -> list[list[int]]:
        if self.phones and self._lm is not None:
            if any(map(str.isdigit, word)):
                return []
            found = self._lm.pronunciations(word) or self._pronouncer(word)[1]
            return [phone_tokens(pronunciation, self._ids) for pronunciation in found]
        for cased in (word, word.lower()):
            with contextlib.suppress(ValueError):
                return [spell(cased, self._symbols)]
        return []
