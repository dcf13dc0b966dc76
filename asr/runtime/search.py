"""Decoding one utterance: CTC search, attention rescoring, and words with times and confidence.

Shared by live recognition and evaluation. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr import _core
from asr._core import (
    OPTIONS,
    CtcGreedySearch,
    CtcPrefixBeamSearch,
    Hotwords,
    Hypothesis,
    LmFusion,
    NgramLm,
)
from asr.runtime.metadata import ModelMetadata
from asr.tokenizer import BLANK_ID, SOS_EOS_ID, UNK_ID

BEAM_SIZE: int = OPTIONS["beam_size"].default
BEAM_THRESHOLD: float = OPTIONS["beam_threshold"].default
NUM_RESCORED: int = OPTIONS["num_rescored"].default
SEARCHES = ("greedy", "beam", "rescore")
DECODER_SEARCHES = ("attention", "joint")
"""Searches over whole utterances with decoder steps; joint: together with CTC."""
WITHOUT_LM = ("greedy", "joint")
"""Searches of a recognizer that take no language model and no hotwords."""
WITH_DECODER = ("rescore", "joint")
"""Searches of a recognizer whose finals come from the attention decoder."""

Score = Callable[[list[list[int]]], npt.NDArray[np.float32]]
"""Decoder scores (N,) of N token sequences for the current utterance."""

_UNSPOKEN_IDS = (BLANK_ID, UNK_ID, SOS_EOS_ID)
"""Not part of text. Training rejects text with `<unk>`, so only a barely trained model outputs it."""


@dataclass(frozen=True)
class LmWeights:
    """Weights of a language model relative to the CTC log-probability; tuned for the bundled models on `dev`."""

    weight: float = OPTIONS["lm_weight"].default
    """Factor of the natural log-probability of the words."""
    word_bonus: float = OPTIONS["lm_word_bonus"].default
    """Added for each word."""
    oov_penalty: float = OPTIONS["lm_oov_penalty"].default
    """Subtracted for each word outside the vocabulary."""
    prior_weight: float = OPTIONS["lm_prior_weight"].default
    """Factor of a token bigram's log-probability, which is subtracted because both models contain it."""

    def fusion(self, lm: NgramLm, tokens: Sequence[str], phones: Sequence[str] = ()) -> LmFusion:
        """`lm` for the search.

        tokens: spelling of every token id. phones: names of the model's phones; if it has any and `lm` has
        pronunciations, the search is over phones.
        """
        return LmFusion(lm, output_symbols(tokens), **asdict(self), phones=list(phones))


class Word(NamedTuple):
    """A recognized word. Times in seconds since the start of the stream."""

    word: str
    start: float
    end: float
    confidence: float
    """Probability in (0, 1) that the word is right."""


def list_text(name: str, lines: str | Path | Sequence[str]) -> str:
    """The option `name`, a list that users write, in the form of the C++ core: one entry per line.

    lines: the entries, or the path of a text file with one per line. Raises ValueError if it cannot be read, or is too
    long.
    """
    if isinstance(lines, str | Path) and "\0" in str(lines):
        raise ValueError(f"{name} is {str(lines)!r}; the path of a file has no NUL character")
    try:
        if isinstance(lines, str | Path):
            with open(lines, encoding="utf-8") as file:
                text = file.read(int(OPTIONS[name].high) + 1)
        else:
            text = "\n".join(lines)
    except FileNotFoundError:
        raise ValueError(f"{name}: there is no file {lines} (to give the words themselves, use a list)") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {lines} cannot be read as UTF-8 text: {error}") from error
    except OSError as error:
        raise ValueError(f"{name}: {lines} cannot be read: {error.strerror}") from error
    checked: str = OPTIONS[name].parse(text)
    return checked


def output_symbols(tokens: Sequence[str]) -> list[str]:
    """The spelling of every token id in the form of the C++ core: empty if it is not part of text."""
    return ["" if id in _UNSPOKEN_IDS else token for id, token in enumerate(tokens)]


def new_hotwords(
    lines: str | Path | Sequence[str],
    tokens: Sequence[str],
    boost: float = OPTIONS["hotword_boost"].default,
    lm: NgramLm | None = None,
    phones: Sequence[str] = (),
) -> Hotwords:
    """Hotwords (see `list_text`) for a search with `lm` by a model with `phones`."""
    pronouncer = lm if lm is not None and lm.phones and phones else None
    return Hotwords(list_text("hotwords", lines), output_symbols(tokens), boost, pronouncer)


def words(hypothesis: Hypothesis, tokens: Sequence[str], with_lm: bool = False) -> list[Word]:
    """The words of a hypothesis; joined by spaces they are its text.

    tokens: spelling of every token id. with_lm: whether the search used a language model; confidences depend on it.
    """
    return [Word(*word) for word in _core.words(hypothesis, output_symbols(tokens), with_lm)]


def phone_words(
    hypothesis: Hypothesis, fusion: LmFusion, log_probs: npt.NDArray[np.float32], tokens: Sequence[str]
) -> list[Word]:
    """The words of a hypothesis of a search over phones.

    log_probs: (T, V) float32, of the token head for the same audio; `tokens` are its spellings. They spell words
    outside the vocabulary.
    """
    letters = CtcGreedySearch()
    letters.advance(np.ascontiguousarray(log_probs))
    return [Word(*word) for word in _core.words(hypothesis, fusion, letters.hypotheses()[0], output_symbols(tokens))]


def text(hypothesis: Hypothesis, tokens: Sequence[str]) -> str:
    """The text of a hypothesis."""
    return " ".join(word.word for word in words(hypothesis, tokens))


def rescore(hypotheses: Sequence[Hypothesis], decoder_scores: npt.ArrayLike, ctc_weight: float) -> int:
    """Index of the best hypothesis by ctc_weight * first pass + (1 - ctc_weight) * decoder score.

    This is the second pass of Zhang et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model". Both
    are log-probabilities of the whole sentence; the first includes the language model's contribution. The bonus of
    hotwords counts in full, and the decoder cannot remove it: only hypotheses with as much bonus as the best of the
    first pass can win. In a tie the first hypothesis wins.
    Raises ValueError for no hypotheses, another number of scores, or a weight outside [0, 1].
    """
    return _core.best_rescored(list(hypotheses), np.asarray(decoder_scores, np.float32).tolist(), ctc_weight)


def new_search(
    name: str, beam_size: int = BEAM_SIZE, fusion: LmFusion | None = None
) -> CtcGreedySearch | CtcPrefixBeamSearch:
    """A new CTC search, `name` of SEARCHES, with a language model unless greedy. Raises ValueError for another name."""
    if name not in SEARCHES:
        raise ValueError(f"search {name!r} is not known: choose one of {', '.join(SEARCHES)}")
    if name == "greedy":
        return CtcGreedySearch()
    return CtcPrefixBeamSearch(beam_size=beam_size, beam_threshold=BEAM_THRESHOLD, recombine=True, lm=fusion)


def decode(
    log_probs: npt.NDArray[np.float32],
    name: str,
    beam_size: int = BEAM_SIZE,
    score: Score | None = None,
    ctc_weight: float = ModelMetadata.rescore_ctc_weight,
    fusion: LmFusion | None = None,
) -> Hypothesis:
    """The best hypothesis of a whole utterance.

    Args:
        log_probs: (T, V) float32, natural log-probabilities of valid encoder frames.
        name: name of the search, "greedy" | "beam" | "rescore".
        score: decoder scores; only for "rescore".
        fusion: language model that the beam searches use.
    """
    search = new_search(name, beam_size, fusion)
    search.advance(np.ascontiguousarray(log_probs))
    if name != "rescore":
        return search.hypotheses(finished=True)[0]
    if score is None:
        raise ValueError("search rescore needs a model with a decoder; use search beam")
    hypotheses = search.hypotheses(NUM_RESCORED, finished=True)
    if len(hypotheses) == 1 or not hypotheses[0].tokens:  # no choice, or silence
        return hypotheses[0]
    return hypotheses[rescore(hypotheses, score([h.tokens for h in hypotheses]), ctc_weight)]


def decode_words(
    log_probs: npt.NDArray[np.float32],
    tokens: Sequence[str],
    name: str,
    beam_size: int = BEAM_SIZE,
    score: Score | None = None,
    ctc_weight: float = ModelMetadata.rescore_ctc_weight,
    fusion: LmFusion | None = None,
    phone_log_probs: npt.NDArray[np.float32] | None = None,
) -> list[Word]:
    """The words of a whole utterance.

    phone_log_probs: (T, 1 + 2 * phones) float32; needed by a fusion over phones, which does not rescore.
    tokens: spelling of every token id. See `decode` for the other arguments.
    """
    if fusion is None or not fusion.over_phones or name == "greedy":
        hypothesis = decode(log_probs, name, beam_size, score, ctc_weight, fusion)
        return words(hypothesis, tokens, with_lm=fusion is not None)
    if phone_log_probs is None:
        raise ValueError("the search is over phones, but the model has no phone_log_probs")
    return phone_words(decode(phone_log_probs, "beam", beam_size, fusion=fusion), fusion, log_probs, tokens)
