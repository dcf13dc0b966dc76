"""Pronunciations of English possessives, derived from their base: KELLY'S from KELLY, KELLYS' from KELLYS."""

from __future__ import annotations

from asr.lexicon.lexicon import Lexicon, Pronunciation

PHONES = frozenset(
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
)
"""ARPAbet, without stress."""

SIBILANTS = frozenset(("S", "Z", "SH", "ZH", "CH", "JH"))
VOICELESS = frozenset(("P", "T", "K", "F", "TH"))


def is_english(lexicon: Lexicon) -> bool:
    """Whether the lexicon uses the phones of CMUdict."""
    return PHONES.issuperset(lexicon.phones)


def possessive_base(word: str) -> str | None:
    """The base of a possessive: "KELLY" for "KELLY'S", "KELLYS" for "KELLYS'"."""
    if word.endswith("'S") and len(word) > 2:
        return word[:-2]
    return word[:-1] if word.endswith("S'") and len(word) > 2 else None


def possessive(word: str, base: Pronunciation) -> Pronunciation:
    """Pronunciations of `word`, the possessive of a word with the pronunciations `base`."""
    if word.endswith("'"):
        return base
    if base[-1] in SIBILANTS:
        return (*base, "IH", "Z")
    return (*base, "S" if base[-1] in VOICELESS else "Z")
