"""Inputs of a training run that depend on its data: tokens, pronunciations, normalization."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase

import numpy as np
import torch
from torch import Tensor

from asr._core import G2p, NgramLm
from asr.command import split_weight
from asr.config import DataConfig, LossConfig, TokenizerConfig
from asr.data.speech import Speech
from asr.features import NUM_MEL_BINS, SAMPLE_RATE
from asr.lexicon import Lexicon, load_lexicon
from asr.lexicon.make import Pronouncer
from asr.lexicon.phones import PhoneTokenizer
from asr.lm.packed import load_lm
from asr.model.denominator import Denominator
from asr.tables import Refusal
from asr.text import WORD_BOUNDARY, TextNormalizer, alphabet_of
from asr.tokenizer import SPECIAL_TOKENS, Tokenizer
from asr.training.sounds import Noise

CMVN_UTTERANCES = 2000
SCARCE_HOURS = 20.0
"""Speech from which a network without initial weights begins to learn."""
NUM_NAMED = 10
"""Maximum words or letters listed in an error."""


def load_training_data(config: DataConfig) -> tuple[Speech, np.ndarray, list[Refusal]]:
    """The usable utterances of `data.train`, the share of each that is used in an epoch, and the others.

    Raises ValueError if there is none.
    """
    parts: list[Speech] = []
    shares: list[np.ndarray] = []
    left_out: list[Refusal] = []
    for name in config.train:
        path, share = split_weight(name, "share of data.train", most=1)
        part, refused = Speech.load(path).usable(config.min_utterance_s, config.max_utterance_s)
        parts.append(part)
        shares.append(np.full(len(part), share))
        left_out += refused
    if not any(map(len, parts)):
        raise ValueError(
            f"no training data: data.train = {list(config.train)} holds no utterance with words of "
            f"{config.min_utterance_s} to {config.max_utterance_s} s; run `asr prepare` first"
        )
    return Speech.joined(parts), np.concatenate(shares), left_out


def hours_of_epoch(speech: Speech, shares: np.ndarray) -> float:
    """Mean hours of speech in an epoch; see `load_training_data`."""
    return float(speech.lengths @ shares) / SAMPLE_RATE / 3600


def load_noise(config: DataConfig, seed: int) -> Noise:
    """The recordings of `data.noise`, and synthesized noise."""
    parts = [Speech.load(path) for path in config.noise]
    return Noise(Speech.joined(parts) if parts else None, seed)


def scarcity(hours: float, init: str) -> str:
    """A warning if an epoch of `hours` has too little speech for a model without initial weights; else empty."""
    if init or hours >= SCARCE_HOURS:
        return ""
    return (
        f"{hours:.2f} hours of speech cannot make a model: without train.init, a network begins to learn with "
        f"{SCARCE_HOURS:g} hours, and readable text needs a few hundred. With minutes of one voice, use `asr adapt`, "
        "with an hour or more of many voices `asr train finetune`: they start from the bundled model"
    )


def train_tokenizer(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    return Tokenizer.train(config.kind, texts, None if config.kind == "char" else config.vocab_size)


def check_letters(tokenizer: Tokenizer, texts: Iterable[str]) -> None:
    """Raises ValueError for text that the tokens cannot spell, which would train `<unk>`."""
    unknown = tokenizer.unknown_letters(texts)
    if unknown:
        letters = ", ".join(f"{letter!r} ({count} times)" for letter, count in unknown.most_common(NUM_NAMED))
        more = f" and {len(unknown) - NUM_NAMED} more" if len(unknown) > NUM_NAMED else ""
        raise ValueError(
            f"data.train has letters that the model to start from does not write: {letters}{more}. "
            "Prepare the text with the model's letters (`asr prepare` has --upper, --lower and --alphabet), start "
            "a new run from it with data.new_tokens=true, which adds them, or train from scratch with train.init="
        )


def normalizer_of(tokenizer: Tokenizer) -> TextNormalizer:
    """A normalizer that writes transcripts in the letters of a model and rejects those with other letters."""
    letters = set("".join(tokenizer.tokens[len(SPECIAL_TOKENS) :])) - {WORD_BOUNDARY}
    text = "".join(sorted(letters))
    case = "upper" if text == text.upper() else "lower" if text == text.lower() else "keep"
    return TextNormalizer(case, alphabet_of(letters))


def absent_letters(tokenizer: Tokenizer) -> str:
    """The letters that the tokens lack of an alphabet of which they have most, or "" if they have most of none."""
    for alphabet in (ascii_uppercase, ascii_lowercase):
        absent = tokenizer.unknown_letters([alphabet])
        if len(absent) < len(alphabet) / 2:
            return ", ".join(absent)
    return ""


def load_phones(lexicon: str, texts: Sequence[str], phones: Sequence[str] = ()) -> PhoneTokenizer:
    """Loads the pronunciations of a dictionary, or of "bundled", the bundled language model.

    phones: those of the model to start from, if any. Raises ValueError with the words of `texts` that lack one.
    """
    if lexicon == "bundled":  # all of its phones, so that the language model also fits a model trained on few words
        lm = load_lm("bundled")
        tokenizer = PhoneTokenizer(lm_lexicon(lm, texts), phones or lm.phones)
    else:
        tokenizer = PhoneTokenizer(load_lexicon(lexicon), phones)
    missing = sorted({word for text in texts for word in tokenizer.missing(text)})
    if missing:
        raise ValueError(
            f"{lexicon} lacks {len(missing)} words of the data, such as {', '.join(missing[:NUM_NAMED])}: add them, "
            "or write the lexicon with `asr lexicon make`"
        )
    return tokenizer


def phone_denominator(config: LossConfig, tokenizer: PhoneTokenizer | None, texts: Iterable[str]) -> Denominator | None:
    """The sum over all phone sequences under a trigram of the transcripts; None if the loss is only CTC."""
    if tokenizer is None or config.denominator_weight == 0:
        return None
    return Denominator(map(tokenizer.encode, dict.fromkeys(texts)), len(tokenizer.phones))


def lm_lexicon(lm: NgramLm, texts: Iterable[str]) -> Lexicon:
    """Pronunciations of the words of `texts` by a language model, and by its G2P model for unknown words."""
    pronouncer = Pronouncer(None, G2p(np.frombuffer(lm.g2p, np.uint8)), max_variants=1)
    words = {word.upper() for text in texts for word in text.split()}
    pronounced = {word: tuple(map(tuple, lm.pronunciations(word))) or pronouncer(word)[1] for word in words}
    return Lexicon({word: found for word, found in pronounced.items() if found})


def estimate_cmvn(speech: Speech, seed: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the features, (80,) float32 each, over a sample of the training data."""
    count, (total, squares) = 0, torch.zeros(2, NUM_MEL_BINS, dtype=torch.float64)
    for index in random.Random(seed).sample(range(len(speech)), min(CMVN_UTTERANCES, len(speech))):
        features = speech[index].features().double()
        count += len(features)
        total += features.sum(0)
        squares += features.square().sum(0)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp(min=0).sqrt().float()
