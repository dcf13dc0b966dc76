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
from asr.lm.packed import SPECIAL_WORDS, LmError, Ngrams, pack, unpack
from asr.text import TextNormalizer, alphabet_of

MAX_NAMED = 3
NUM_PARTS = 5
NUM_ITERATIONS = 30
LEAST_WEIGHT, DEFAULT_WEIGHT, MOST_WEIGHT = 0.02, 0.1, 0.3


@dataclass
class Sentences:
    """Text in the spelling of a language model, and the lines that cannot be converted to it."""

    words: list[list[str]] = field(default_factory=list)
    """The words of each sentence."""
    refused: list[str] = field(default_factory=list)
    """Lines that were refused, each with its noise tags and the characters whose spoken form is not certain."""


@dataclass(frozen=True)
class Adapted:
    """The result of `adapt`."""

    packed: bytes
    new_words: dict[str, Sequence[Pronunciation]]
    """New words, with their pronunciations; empty if the model has no phones."""
    weight: float
    """Weight of the sentences in the mixture."""


def spelled(lines: Iterable[str], words: Sequence[str], noise_tags: str = "drop") -> Sentences:
    """Converts lines to the case and letters of the language model with these words. Punctuation becomes a space.

    Lines with digits, or with letters that no word of the model has, are refused. noise_tags: see `TextNormalizer`.
    """
    known = [word for word in words if word not in SPECIAL_WORDS]
    case = "upper" if sum(word == word.upper() for word in known) > len(known) / 2 else "lower"
    letters = set("".join(known)) | set("".join(known).upper() if case == "upper" else "".join(known).lower())
    letters = {letter for letter in letters if (letter.upper() if case == "upper" else letter.lower()) == letter}
    normalizer = TextNormalizer(case, alphabet_of(letters), noise_tags=noise_tags)
    found = Sentences()
    for line in lines:
        text = normalizer(line)
        if text.refused or text.has_noise:
            why = (*text.noise_tags, *text.refused) if text.has_noise else text.refused
            found.refused.append(f"{line.strip()!r} ({' '.join(why)})")
        elif text.text:
            found.words.append(text.text.split())
    return found


def best_weight(sentences: Sequence[Sequence[str]], base: NgramLm, order: int) -> float:
    """The weight of the mixture that best predicts each part of the sentences from counts of the other parts.

    Expectation maximization, as for deleted interpolation (Jelinek and Mercer 1980), between LEAST_WEIGHT and
    MOST_WEIGHT. DEFAULT_WEIGHT if there are fewer sentences than NUM_PARTS.
    """
    if len(sentences) < NUM_PARTS:
        return DEFAULT_WEIGHT
    gain: list[float] = []
    for part in range(NUM_PARTS):
        others = [sentence for number, sentence in enumerate(sentences) if number % NUM_PARTS != part]
        own = NgramLm(np.frombuffer(pack(*_counted(others, order)), np.uint8))
        for sentence in sentences[part::NUM_PARTS]:
            both = zip(_log_probs(own, sentence), _log_probs(base, sentence), strict=True)
            gain += [mine - other for mine, other in both if max(mine, other) > -np.inf]
    odds = np.exp(-np.array(gain))
    weight = DEFAULT_WEIGHT
    for _ in range(NUM_ITERATIONS):
        posterior = 1 / (1 + odds * (1 - weight) / weight)  # that the word is from the sentences
        weight = min(max(float(posterior.mean()), LEAST_WEIGHT), MOST_WEIGHT)
    return weight


def adapt(
    lines: Iterable[str],
    base: bytes,
    weight: float | None = None,
    lexicon: Lexicon | None = None,
    noise_tags: str = "drop",
) -> tuple[Adapted, Sentences]:
    """The packed language model `base`, mixed with the sentences, whose weight is in (0, 1).

    weight: by default, that of `best_weight`. lexicon: the user's pronunciations; the G2P model in `base` pronounces
    other new words. noise_tags: see `TextNormalizer`. Raises LmError if no sentence can be used, or for a lexicon if
    `base` has no pronunciations.
    """
    words, levels = unpack(base)
    lm = NgramLm(np.frombuffer(base, np.uint8))
    if lexicon is not None and not lm.phones:
        raise LmError(
            "the language model to adapt has no pronunciations, so those of a lexicon cannot be added: leave out "
            "--lexicon, or name a --base that was made with --lexicon or --g2p"
        )
    sentences = spelled(lines, words, noise_tags)
    if not sentences.words:
        raise LmError("the text has no sentence that can be used" + refusal(sentences))
    if weight is None:
        weight = best_weight(sentences.words, lm, len(levels))
    own = _counted(sentences.words, len(levels))
    mixed_words, mixture = mix([(words, levels), own], [1 - weight, weight], by_history=False)
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
    return Adapted(packed, new, weight), sentences


def _counted(sentences: Sequence[Sequence[str]], order: int) -> tuple[list[str], list[Ngrams]]:
    """Words and n-grams of a model of these sentences alone."""
    words = [*SPECIAL_WORDS, *sorted({word for sentence in sentences for word in sentence})]
    ids = ngram.encode(sentences, words)
    return ngram.tables(ngram.estimate(ngram.count_ngrams(ids, len(words), order)), words)


def _log_probs(lm: NgramLm, sentence: Sequence[str]) -> list[float]:
    """Log-probabilities of the words and the sentence end, in nats; minus infinity for unknown words."""
    *given, end = lm.log_probs(list(sentence))
    return [value if word in lm else -np.inf for word, value in zip(sentence, given, strict=True)] + [end]


def refusal(sentences: Sentences) -> str:
    """Names the skipped lines and the remedy; empty if no line was skipped."""
    if not sentences.refused:
        return ""
    count = len(sentences.refused)
    some = "; ".join(sentences.refused[:MAX_NAMED]) + ("; ..." if count > MAX_NAMED else "")
    lines = "1 line was" if count == 1 else f"{count} lines were"
    return (
        f": {lines} left out because of digits, symbols or noise tags; write these in words, as they are spoken, or "
        f"remove tags with --noise-tags strip: {some}"
    )
