"""`asr lm`: language models for the search, trained on text or packed from an ARPA file. No PyTorch."""

from __future__ import annotations

import argparse
import gzip
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from asr._core import NgramLm
from asr.command import add_noise_tags, add_option, counted, split_weight
from asr.files import replacing, require_folder
from asr.lexicon.g2p import load_g2p
from asr.lexicon.lexicon import Pronunciation, load_lexicon
from asr.lexicon.make import Pronouncer, first_few
from asr.lm import ngram
from asr.lm.adapt import adapt, refusal
from asr.lm.mix import mix
from asr.lm.packed import (
    MAX_ORDER,
    SPECIAL_WORDS,
    LmError,
    Ngrams,
    few_words,
    pack,
    read_arpa,
    read_packed,
    unpack,
)
from asr.lm.utterances import read_spellings, utterances

Pronounced = tuple[list[str], Mapping[str, Sequence[Pronunciation]], bytes]
"""Names of all phones, the pronunciations of the words, and the G2P model, as `pack` takes them."""

NUM_SHOWN = 10
"""Maximum new words whose pronunciations are printed."""
DESCRIPTION = """\
Language models for the search. To teach the recognizer your own sentences and
words, use adapt: it mixes them with the bundled language model. A model of a
few sentences alone knows no other words.
"""
EXAMPLES = """\
examples:
  asr lm adapt sentences.txt -o mine.lm
  asr lm train books.txt -o books.lm --lexicon cmudict --g2p g2p.model
  asr lm mix 'bundled*0.7' 'books.lm*0.3' -o mixed.lm --test held-out.txt
  asr-stream --lm mine.lm
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    commands = parser.add_subparsers(dest="what", required=True, metavar="what")
    train = commands.add_parser("train", help="train on text, one sentence per line, in the recognizer's spelling")
    train.add_argument("text", nargs="+", type=Path, metavar="TEXT", help="UTF-8, plain")
    add_option(train, "--order", 3, "N", f"order of the n-grams, 2 to {MAX_ORDER}")
    add_noise_tags(train)
    vocabulary = train.add_mutually_exclusive_group()
    add_option(vocabulary, "--num-words", 100_000, "N", "size of the vocabulary")
    vocabulary.add_argument(
        "--vocabulary",
        type=Path,
        metavar="WORDS",
        help="use these words as the vocabulary, instead of the most frequent ones of the text",
    )
    adapting = commands.add_parser("adapt", help="adapt a language model to your own sentences: the usual case")
    adapting.add_argument("text", nargs="+", type=Path, metavar="TEXT", help="UTF-8, one sentence per line")
    adapting.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. mine.lm")
    add_noise_tags(adapting)
    add_option(adapting, "--base", "bundled", "MODEL", "the language model to adapt")
    adapting.add_argument(
        "--weight",
        type=float,
        metavar="W",
        help="weight of your sentences, between 0 and 1 (from the text: how well one part of it predicts another)",
    )
    adapting.add_argument(
        "--lexicon",
        metavar="DICT",
        help="a dictionary with your pronunciations of words, one per line: WORD  P H O N E S",
    )
    packed = commands.add_parser("pack", help="pack an ARPA file from another tool")
    packed.add_argument("arpa", type=Path, metavar="ARPA", help="plain or .gz")
    mixed = commands.add_parser("mix", help="mix language models, e.g. the bundled one and one of your own text")
    mixed.add_argument(
        "models", nargs="+", metavar="MODEL*WEIGHT", help="e.g. 'bundled*0.7' mine.lm*0.3; the default weight is 1"
    )
    cutting = commands.add_parser(
        "utterances",
        help="split cased prose into utterances where speakers pause: text for `asr train neural-lm`",
    )
    cutting.add_argument("text", nargs="+", type=Path, metavar="TEXT", help="UTF-8, one sentence or paragraph per line")
    cutting.add_argument(
        "--spellings", nargs="+", type=Path, default=[], metavar="TABLE", help="two columns: COLOUR, a tab, COLOR"
    )
    cutting.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    for command in (train, mixed):
        add_option(command, "--megabytes", 15.0, "MB", "size to prune to")
        command.add_argument("--test", type=Path, metavar="TEXT", help="print the perplexity of this text")
    for command in (train, packed, mixed):
        command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. words.lm")
        command.add_argument(
            "--lexicon", metavar="DICT", help="pronunciations, for models with phones: a dictionary as for asr lexicon"
        )
        command.add_argument(
            "--g2p", type=Path, metavar="FILE", help="from asr lexicon train, for words missing from DICT, and hotwords"
        )


def run(args: argparse.Namespace) -> int:
    """Entry of `asr lm`."""
    require_folder(args.output, *_inputs(args))
    if args.what == "utterances":
        return _cut(args)
    if args.what == "adapt":
        return _adapt(args)
    pronounce = _dictionary(args)  # raises an error for its files before minutes of work
    test = _test(args)
    if args.what == "mix":
        words, levels, pronounced = _mix(args, pronounce, test)
    else:
        words, levels = _train(args, test) if args.what == "train" else _read(args.arpa)
        pronounced = pronounce(words)
    if small := [word for word in words if word not in SPECIAL_WORDS and any(map(str.islower, word))]:
        print(
            f"{_words_have(small)} small letters: {first_few(small)}; only models that write small letters use "
            "them. The bundled English models do not: for these, use text in capitals, or asr lm adapt",
            file=sys.stderr,
        )
    data = pack(words, levels, *pronounced)
    if args.what == "train" and (warning := few_words(len(words) - len(SPECIAL_WORDS), str(args.output))):
        print(warning, file=sys.stderr)
    _write(data, args.output)
    return 0


def _inputs(args: argparse.Namespace) -> list[str | Path]:
    """The files that the command reads, and names of bundled ones."""
    given = vars(args)
    models = [split_weight(name, "weight")[0] for name in given.get("models", ())]
    options = (given.get(name) for name in ("arpa", "base", "lexicon", "g2p", "vocabulary", "test"))
    return [*models, *given.get("text", ()), *given.get("spellings", ()), *filter(None, options)]


def _write(data: bytes, output: Path) -> None:
    lm = NgramLm(np.frombuffer(data, np.uint8))
    with replacing(output) as part:
        part.write_bytes(data)
    counts = ", ".join(f"{count} {n}-grams" for n, count in enumerate(lm.num_ngrams, 1))
    print(f"{output}: {counts}, {len(data) / 1e6:.1f} MB")


def _adapt(args: argparse.Namespace) -> int:
    if args.weight is not None and not 0 < args.weight < 1:
        raise LmError(f"--weight {args.weight} must be between 0 and 1")
    lexicon = None if args.lexicon is None else load_lexicon(args.lexicon)
    lines = chain.from_iterable(ngram.lines(path) for path in args.text)
    base = read_packed(args.base)
    name = "the bundled language model" if args.base == "bundled" else args.base
    print(f"adapting {name} to {', '.join(map(str, args.text))}; this can take a minute ...", flush=True)
    adapted, sentences = adapt(lines, base, args.weight, lexicon, args.noise_tags)
    if sentences.refused:
        print(refusal(sentences).removeprefix(": "), file=sys.stderr)
    _write(adapted.packed, args.output)
    news = counted(len(adapted.new_words), "new word")
    print(f"{counted(len(sentences.words), 'sentence')} with {news}, weight {adapted.weight:.2g}")
    for word, pronunciations in list(adapted.new_words.items())[:NUM_SHOWN]:
        print(f"  {word}  {', '.join(' '.join(phones) for phones in pronunciations) or '(spelled)'}")
    if len(adapted.new_words) > NUM_SHOWN:
        print("  ...")
    print(f"use it with: asr-stream --lm {args.output}")
    return 0


def _words_have(words: Sequence[str]) -> str:
    return f"{counted(len(words), 'word')} {'have' if len(words) != 1 else 'has'}"


def _cut(args: argparse.Namespace) -> int:
    spellings = read_spellings(args.spellings)
    lines = chain.from_iterable(ngram.lines(path) for path in args.text)
    count = words = 0
    with replacing(args.output) as part, part.open("w", encoding="utf-8") as file:
        for utterance in utterances(lines, spellings):
            file.write(utterance + "\n")
            count += bool(utterance)
            words += len(utterance.split())
    print(f"{args.output}: {count} utterances, {words / 1e6:.2f} M words")
    return 0


def _dictionary(args: argparse.Namespace) -> Callable[[list[str]], Pronounced]:
    """A function that pronounces words by the files of --lexicon and --g2p; without any, it returns nothing."""
    if args.lexicon is None and args.g2p is None:
        return lambda words: ([], {}, b"")
    lexicon = None if args.lexicon is None else load_lexicon(args.lexicon)
    g2p = None if args.g2p is None else load_g2p(args.g2p)
    phones = {*(lexicon.phones if lexicon else ()), *(g2p.phones if g2p else ())}
    model = args.g2p.read_bytes() if g2p else b""
    pronouncer = Pronouncer(lexicon, g2p)

    def pronounce(words: list[str]) -> Pronounced:
        found = {word: pronouncer(word.upper())[1] for word in words if word not in SPECIAL_WORDS}
        if missing := [word for word, pronunciations in found.items() if not pronunciations]:
            print(
                f"{len(missing)} of {len(found)} words have no pronunciation, so a model with phones cannot recognize "
                f"them: {first_few(missing)}" + ("" if g2p else "; --g2p pronounces words missing from the dictionary"),
                file=sys.stderr,
            )
        return sorted(phones, key=str.encode), found, model

    return pronounce


def _read(path: Path) -> tuple[list[str], list[Ngrams]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            return read_arpa(iter(lines))
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise LmError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except LmError as error:
        raise LmError(f"{path}: {error}") from error


def _test(args: argparse.Namespace) -> list[list[str]]:
    """The sentences of --test; empty without it."""
    if args.what == "pack" or not args.test:
        return []
    found = list(ngram.sentences([args.test]))
    if not found:
        raise LmError(f"there are no sentences in {args.test}")
    return found


def _train(args: argparse.Namespace, test: Sequence[Sequence[str]]) -> tuple[list[str], list[Ngrams]]:
    if not 2 <= args.order <= MAX_ORDER:
        raise LmError(f"--order {args.order} must be in [2, {MAX_ORDER}]")
    if args.num_words < 1 or not args.megabytes > 0:
        raise LmError("--num-words and --megabytes must be above 0")
    if args.vocabulary:
        known = {word for line in ngram.sentences([args.vocabulary]) for word in line}.difference(SPECIAL_WORDS)
        words = [*SPECIAL_WORDS, *sorted(known)]
    else:
        if pipes := [str(path) for path in args.text if path.is_fifo()]:
            raise LmError(f"the text is read twice: {' and '.join(pipes)} must be a file, or give --vocabulary")
        words = ngram.vocabulary(args.text, args.num_words, args.noise_tags)
    tagged: list[str] = []  # the tags of each line that has some
    ids = ngram.encode(ngram.sentences(args.text, args.noise_tags, lambda tags: tagged.append(" ".join(tags))), words)
    if tagged:
        done = "left out (--noise-tags strip keeps their words)" if args.noise_tags == "drop" else "used without them"
        print(
            f"{counted(len(tagged), 'line')} with noise tags or cut-off words {done}: "
            f"{first_few(list(dict.fromkeys(tagged)))}",
            file=sys.stderr,
        )
    if len(words) == len(SPECIAL_WORDS):
        raise LmError(f"there are no words in {args.vocabulary or ', '.join(map(str, args.text))}")
    if not len(ids):  # possible with --vocabulary
        raise LmError(f"there are no sentences in {', '.join(map(str, args.text))} to train on: name text with some")
    if unspoken := [word for word in words[len(SPECIAL_WORDS) :] if not _is_spoken(word)]:
        print(
            f"{_words_have(unspoken)} digits or signs, which are never recognized: {first_few(unspoken)}; write the "
            "text as it is spoken, in the letters of the model",
            file=sys.stderr,
        )
    return _pruned(ngram.estimate(ngram.count_ngrams(ids, len(words), args.order)), words, args.megabytes, test)


def _is_spoken(word: str) -> bool:
    """Whether the word has only letters with optional diacritics, apostrophes and hyphens."""
    return all(letter in "'’-" or unicodedata.category(letter)[0] in "LM" for letter in word)


def _mix(
    args: argparse.Namespace, pronounce: Callable[[list[str]], Pronounced], test: Sequence[Sequence[str]]
) -> tuple[list[str], list[Ngrams], Pronounced]:
    if not args.megabytes > 0:
        raise LmError("--megabytes must be above 0")
    files, parts = [], []
    paths, weights = zip(*(split_weight(name, "weight") for name in args.models), strict=True)
    for path in paths:
        files.append(read_packed(path))
        try:
            parts.append(unpack(files[-1]))
        except LmError as error:
            raise LmError(f"{path}: {error}") from error
    words, model = mix(parts, weights)
    pronounced = pronounce(words)
    if not pronounced[0]:
        pronounced = _kept_pronunciations(files, words)
    return *_pruned(model, words, args.megabytes, test), pronounced


def _kept_pronunciations(files: Sequence[bytes], words: Sequence[str]) -> Pronounced:
    """The pronunciations for mixed models: for each word, those of the first file that has it; and the first G2P
    model."""
    models = [NgramLm(np.frombuffer(data, np.uint8)) for data in files]
    pronunciations = {word: next(filter(None, (lm.pronunciations(word) for lm in models)), []) for word in words}
    found = {word: [tuple(pronunciation) for pronunciation in variants] for word, variants in pronunciations.items()}
    phones = sorted({phone for lm in models for phone in lm.phones}, key=str.encode)
    return phones, found, next(filter(None, (lm.g2p for lm in models)), b"")


def _pruned(
    model: ngram.Model, words: list[str], megabytes: float, test: Sequence[Sequence[str]]
) -> tuple[list[str], list[Ngrams]]:
    pruned = ngram.prune(model, ngram.select(model, 1e6 * megabytes))
    if test:
        ids = ngram.encode(test, words)
        before, after = (ngram.perplexity(m, ids) for m in (model, pruned))
        unknown = (ids == ngram.UNK).sum() / max((ids >= ngram.UNK).sum(), 1)
        print(f"perplexity {before:.1f}, pruned {after:.1f}; {100 * unknown:.2f} % of the words are unknown")
    return ngram.tables(pruned, words)
