"""Adapts a language model to a user's sentences: counts them, mixes them with the model, and pronounces their words.

A model of these sentences alone would know no other words, and would recognize everything as these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from asr._core import G2p, NgramLm
from asr.lexicon.lexicon import Lexicon, Pronunciation
from asr.lexicon.make import Pronouncer
from asr.lm import ngram
from asr.lm.mix import mix
from asr.lm.packed import SPECIAL_WORDS, LmError, pack, unpack
from asr.text import TextNormalizer

MAX_NAMED = 3


@dataclass
class Sentences:
    """Text in the spelling of a language model, and the lines that cannot be converted to it."""

    words: list[list[str]] = field(default_factory=list)
    """The words of each sentence."""
    refused: list[str] = field(default_factory=list)
    """Lines that were refused, each with the characters whose spoken form is not certain."""


@dataclass(frozen=True)
class Adapted:
    """The result of `adapt`."""

    packed: bytes
    new_words: dict[str, Sequence[Pronunciation]]
    """New words, with their pronunciations; empty if the model has no phones."""


def spelled(lines: Iterable[str], base: NgramLm, words: Sequence[str]) -> Sentences:
    """Converts lines to the case and letters of the language model with these words. Punctuation becomes a space.

    Lines with digits, or with letters that no word of the model has, are refused.
    """
    known = [word for word in words if word not in SPECIAL_WORDS]
    case = "upper" if sum(word == word.upper() for word in known) > len(known) / 2 else "lower"
    letters = set("".join(known)) | set("".join(known).upper() if case == "upper" else "".join(known).lower())
    letters = {letter for letter in letters if (letter.upper() if case == "upper" else letter.lower()) == letter}
    alphabet = "".join(sorted(letters - {"-"})) + "-" * ("-" in letters)
    normalizer = TextNormalizer(case, alphabet)
    found = Sentences()
    for line in lines:
        text = normalizer(line)
        if text.refused:
            found.refused.append(f"{line.strip()!r} ({' '.join(text.refused)})")
        elif text.text:
            found.words.append(text.text.split())
    return found


def adapt(
    lines: Iterable[str], base: bytes, weight: float, lexicon: Lexicon | None = None
) -> tuple[Adapted, Sentences]:
    """The packed language model `base`, mixed with the sentences, whose weight is in (0, 1).

    lexicon: the user's pronunciations; the G2P model in `base` pronounces other new words.
    Raises LmError if no sentence can be used.
    """
    words, levels = unpack(base)
    lm = NgramLm(np.frombuffer(base, np.uint8))
    sentences = spelled(lines, lm, words)
    if not sentences.words:
        raise LmError("the text has no sentence that can be used" + refusal(sentences))
    own = [*SPECIAL_WORDS, *sorted({word for sentence in sentences.words for word in sentence})]
    ids = ngram.encode_sentences(sentences.words, own)
    counted = ngram.estimate(ngram.count_ngrams(ids, len(own), len(levels)))
    mixed_words, mixture = mix([(words, levels), ngram.tables(counted, own)], [1 - weight, weight])
    pronounce = Pronouncer(lexicon, G2p(np.frombuffer(lm.g2p, np.uint8)) if lm.g2p else None)
    known = set(words)
    new: dict[str, Sequence[Pronunciation]] = {}
    pronunciations: dict[str, Sequence[Pronunciation]] = {}
    for word in mixed_words:
        former = [tuple(phones) for phones in lm.pronunciations(word)]
        if word not in known:
            new[word] = pronunciations[word] = pronounce(word.upper())[1] if lm.phones else ()
        elif lexicon is not None and word.upper() in lexicon:
            pronunciations[word] = list(dict.fromkeys((*lexicon[word.upper()], *former)))
        else:
            pronunciations[word] = former
    packed = pack(*ngram.tables(mixture, mixed_words), lm.phones, pronunciations, lm.g2p)
    return Adapted(packed, new), sentences


def refusal(sentences: Sentences) -> str:
    """Names the lines that were left out and what to do; empty if there are none."""
    if not sentences.refused:
        return ""
    count = len(sentences.refused)
    some = "; ".join(sentences.refused[:MAX_NAMED]) + ("; ..." if count > MAX_NAMED else "")
    lines = "1 line was" if count == 1 else f"{count} lines were"
    return f": {lines} left out because of digits or symbols; write these in words, as they are spoken: {some}"
