"""Language models of a few words, as ARPA text and packed."""

from __future__ import annotations

from collections.abc import Iterable

from asr.lm.packed import pack, read_arpa

UNIGRAMS = ("-99 <s> -0.2", "-1.2 </s>", "-2.0 <unk> -0.1", "-0.6 A -0.3", "-0.9 AB -0.2", "-1.5 B -0.1")
"""A model of three words; tests add their own words."""


def arpa(*orders: Iterable[str]) -> str:
    """For each order the lines of its n-grams: log10 of the probability, words, log10 of the back-off weight."""
    lines = [tuple(order) for order in orders]
    counts = "".join(f"ngram {n}={len(order)}\n" for n, order in enumerate(lines, 1))
    grams = "".join(f"\\{n}-grams:\n" + "\n".join(order) + "\n\n" for n, order in enumerate(lines, 1))
    return f"\\data\\\n{counts}\n{grams}\\end\\\n"


def packed(*orders: Iterable[str]) -> bytes:
    """The same model, packed."""
    return pack(*read_arpa(iter(arpa(*orders).splitlines())))
