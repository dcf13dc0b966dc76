"""Text: joining tokens into words, and converting transcripts to the characters that a model may write.

Tokens of every kind follow one convention: "▁" (U+2581) marks the beginning of a word, as in SentencePiece (Kudo and
Richardson, 2018); for kind char it is a separate token between words. Imports only the standard library, because live
recognition uses it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass

WORD_BOUNDARY = "\u2581"

CASES = ("upper", "lower", "keep")
OUTSIDE_POLICIES = ("punctuation", "refuse", "strip")
NOISE_TAG_POLICIES = ("drop", "keep", "strip")
DEFAULT_ALPHABETS = {"upper": "A-Z'", "lower": "a-z'", "keep": "A-Za-z'"}

_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\uff07\u2032"), "'")
_SEPARATORS = "\u200b\u200c"
"""Invisible characters between words or parts of words: zero-width space and non-joiner."""
# Punctuation in Unicode that is read aloud, and so is never dropped silently.
_SPOKEN_PUNCTUATION = frozenset("&%@#*/\\§‰†")
# A hyphen at the end of a word stands for a cut-off word, or, before a conjunction, for the end of a later word, as in
# "pre- and post-war" and "Vor- und Nachteile".
_NOISE_TAG = re.compile(
    r"\[[^\[\]]*\]|\{[^{}]*\}|\([^()]*\)|<[^<>]*>|"
    r"(?<!\S)[^\W\d_][\w'-]*(?<!-)-(?!\S|\s+(?:and|or|to|und|oder|bis|sowie|en|of|och|eller|og|et|ou|e|y|o)\b)",
    re.IGNORECASE,
)


def plain_apostrophes(text: str) -> str:
    """The text with ' in place of typographic apostrophes."""
    return text.translate(_APOSTROPHES)


def detokenize(tokens: Iterable[str]) -> str:
    """Joins tokens into text: "▁" becomes one space between words, none at the ends."""
    return " ".join("".join(tokens).replace(WORD_BOUNDARY, " ").split())


def parse_alphabet(spec: str) -> frozenset[str] | None:
    """Characters named by `spec`: single characters and ranges, as in "A-Z'"; the space is always included.

    "-" at the start or end stands for itself. "any" allows every character: returns None.
    Raises ValueError for an empty alphabet or a reversed range.
    """
    if spec == "any":
        return None
    characters = {" "}
    index = 0
    while index < len(spec):
        if index + 2 < len(spec) and spec[index + 1] == "-":
            low, high = spec[index], spec[index + 2]
            if low > high:
                raise ValueError(f"alphabet range {low}-{high} runs backwards; write {high}-{low}")
            characters.update(map(chr, range(ord(low), ord(high) + 1)))
            index += 3
        else:
            characters.add(spec[index])
            index += 1
    if characters == {" "}:
        raise ValueError(f'alphabet {spec!r} has no characters; write e.g. "A-Z\'", or any')
    return frozenset(characters)


def noise_tags(text: str, known: Collection[str] = ()) -> list[str]:
    """The parts of a transcript that are not words: [noise], {noise}, (laughter), <unk>, and cut-off words such as
    w-. known: those that are not looked for."""
    return [tag for tag in _NOISE_TAG.findall(text) if tag not in known]


def without_noise_tags(text: str, known: Collection[str] = ()) -> str:
    """The text with a space in place of each of its `noise_tags`."""
    return _NOISE_TAG.sub(lambda tag: tag[0] if tag[0] in known else " ", text)


def alphabet_of(letters: Set[str]) -> str:
    """The specification of these characters for `parse_alphabet`."""
    return "".join(sorted(letters - {"-"})) + "-" * ("-" in letters)  # a hyphen in the middle would mean a range


@dataclass(frozen=True)
class NormalizedText:
    """The result of normalizing one transcript.

    text: the transcript in the alphabet. outside: characters outside the alphabet, with counts.
    refused: those that must not be dropped; if there are any, the utterance cannot be used.
    noise_tags: what `noise_tags` found. has_noise: whether the utterance cannot be used because of them.
    """

    text: str
    outside: Counter[str]
    refused: tuple[str, ...]
    noise_tags: tuple[str, ...] = ()
    has_noise: bool = False


@dataclass(frozen=True)
class TextNormalizer:
    """Converts transcripts to one case and one alphabet.

    case: "upper", "lower" or "keep".
    alphabet: see `parse_alphabet`; None for the default of the case.
    outside: how to treat a character outside the alphabet: "punctuation" replaces punctuation by a space and refuses
        the utterance for anything else (a digit is spoken, so the text would be wrong without it); "refuse" refuses
        the utterance for both; "strip" replaces everything by a space.
    noise_tags: how to treat an utterance with noise tags: "drop" refuses it (they are sounds that are not words, and
        words that are not in the text), "strip" removes them from the text, "keep" treats them like other text.
    """

    case: str = "upper"
    alphabet: str | None = None
    outside: str = "punctuation"
    noise_tags: str = "drop"

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise ValueError(f"case is {self.case!r}; choose one of {', '.join(CASES)}")
        if self.outside not in OUTSIDE_POLICIES:
            raise ValueError(f"outside is {self.outside!r}; choose one of {', '.join(OUTSIDE_POLICIES)}")
        if self.noise_tags not in NOISE_TAG_POLICIES:
            raise ValueError(f"noise_tags is {self.noise_tags!r}; choose one of {', '.join(NOISE_TAG_POLICIES)}")
        characters = parse_alphabet(DEFAULT_ALPHABETS[self.case] if self.alphabet is None else self.alphabet)
        unreachable = sorted(c for c in characters or () if self._cased(c) != c)
        if unreachable:
            raise ValueError(
                f"alphabet holds {''.join(unreachable[:30])!r}, which --{self.case} text never contains; "
                "change the alphabet, or use --keep-case"
            )
        object.__setattr__(self, "_characters", characters)

    def _cased(self, text: str) -> str:
        if self.case == "keep":
            return text
        return text.upper() if self.case == "upper" else text.lower()

    def suggestion(self, outside: Counter[str]) -> str:
        """The option that would keep the letters among characters `outside` the alphabet; empty if there are none."""
        letters = "".join(sorted(filter(_is_of_a_word, outside)))
        if not any(map(str.isalpha, letters)) or self.outside == "strip":
            return ""
        alphabet = DEFAULT_ALPHABETS[self.case] if self.alphabet is None else self.alphabet
        if len(letters) > 60:
            return f"; the text is in letters other than {alphabet}: name those of your language with --alphabet"
        return f'; to keep the letters of your language, give --alphabet "{alphabet}{letters}"'

    def __call__(self, text: str) -> NormalizedText:
        characters: frozenset[str] | None = self._characters  # type: ignore[attr-defined]
        # NFKC replaces compatibility forms (ligatures, full-width letters, the ellipsis) by plain characters.
        plain = self._cased(unicodedata.normalize("NFKC", plain_apostrophes(text)))
        tags = tuple(noise_tags(plain))
        if self.noise_tags != "keep":
            plain = without_noise_tags(plain)
        outside: Counter[str] = Counter()
        refused: dict[str, None] = {}
        kept = []
        for character in plain:
            if character.isspace():
                kept.append(" ")
            elif character == WORD_BOUNDARY or (characters is not None and character not in characters):
                outside[character] += 1
                if unicodedata.category(character) != "Cf" or character in _SEPARATORS:  # soft hyphens, joiners
                    kept.append(" ")
                if self.outside == "refuse" or (self.outside != "strip" and not is_punctuation(character)):
                    refused[character] = None
            else:
                kept.append(character)
        has_noise = bool(tags) and self.noise_tags == "drop"
        return NormalizedText(" ".join("".join(kept).split()), outside, tuple(refused), tags, has_noise)


def _is_of_a_word(character: str) -> bool:
    """Whether the character is a letter, a vowel sign or an accent; not a mark that changes a symbol, as in emoji."""
    category = unicodedata.category(character)
    return category[0] == "L" or (category in ("Mn", "Mc") and not "\ufe00" <= character <= "\ufe0f")


def is_punctuation(character: str) -> bool:
    """Whether the character is punctuation or invisible, that is, not read aloud."""
    category = unicodedata.category(character)
    return (category[0] == "P" and character not in _SPOKEN_PUNCTUATION) or category in ("Sk", "Cf", "Cc")


def printable(text: str) -> str:
    """One line without control characters for a terminal: names of files and in files may contain anything."""
    return "".join(character if character.isprintable() else "?" for character in text)
