"""The phones of `make_checkpoint` (support/export.py), and a language model with pronunciations in them."""

from __future__ import annotations

from support.arpa import UNIGRAMS, packed

PHONES = ("AA", "B", "K")
PRONUNCIATIONS = {"A": [["AA"]], "AB": [["AA", "B"], ["B", "AA"]], "BACK": [["B", "AA", "K"]], "B": [["B"], ["K"]]}


def phone_lm() -> bytes:
    from asr.lm.packed import with_pronunciations

    words = packed((*UNIGRAMS, "-1.0 BACK -0.1"), ("-0.2 <s> AB", "-0.3 A BACK"))
    return with_pronunciations(words, list(PHONES), PRONUNCIATIONS)
