"""`asr lexicon`: pronunciations of words, from a dictionary and a model trained on one."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from asr._core import G2p
from asr.command import add_option
from asr.files import replacing, require_folder
from asr.lexicon.g2p import G2pOptions, error_rates, load_g2p, train
from asr.lexicon.lexicon import CMUDICT, Lexicon, LexiconError, load_lexicon
from asr.lexicon.make import Pronouncer, first_few, make
from asr.lm import ngram
from asr.lm.packed import MAX_ORDER, load_lm

ALL_WORDS = 1 << 24

DESCRIPTION = """\
Pronunciations of words. A dictionary is a text file with a word and its phones
on each line, like CMUdict ("TOMATO  T AH M EY T OW", alternative pronunciations
as "TOMATO(2)"); a model trained on it pronounces all other words.
"""
EXAMPLES = """\
examples:
  asr lexicon train cmudict -o g2p.model --held-out 0.05
  asr lexicon train meine-woerter.txt -o deutsch.model
  asr lexicon make sentences.txt -o lexicon.txt --g2p g2p.model
  asr lexicon show WORCESTERSHIRE "KELLY'S" --g2p g2p.model
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    commands = parser.add_subparsers(dest="what", required=True, metavar="what")
    defaults = G2pOptions()

    training = commands.add_parser("train", help="train a model that pronounces any word")
    training.add_argument("dictionary", metavar="DICT", help='a dictionary file, or "cmudict" for the English one')
    training.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. g2p.model")
    add_option(training, "--order", defaults.order, "N", f"order of the n-grams, 2 to {MAX_ORDER}")
    add_option(training, "--megabytes", defaults.megabytes, "MB", "size to prune to")
    training.add_argument(
        "--held-out",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="first train without this share of the words, chosen at random, and print the error rates on them: "
        "0.05 for one in twenty",
    )

    making = commands.add_parser("make", help="the pronunciations of every word of a text, as a dictionary")
    making.add_argument("text", nargs="+", type=Path, metavar="TEXT", help="UTF-8: sentences, or one word per line")
    making.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. lexicon.txt")
    making.add_argument(
        "--num-words", type=int, default=ALL_WORDS, metavar="N", help="only the most frequent words (default: all)"
    )

    showing = commands.add_parser("show", help="show the pronunciations of words and their source")
    showing.add_argument("words", nargs="+", metavar="WORD")
    for command in (making, showing):
        command.add_argument(
            "--dict", default=CMUDICT, metavar="DICT", help='as for "train" (%(default)s); "none": only the model'
        )
        command.add_argument(
            "--g2p",
            metavar="FILE",
            help="a model that pronounces words missing from the dictionary; bundled: that of the bundled language "
            f"model, the default of show with --dict {CMUDICT}",
        )
        add_option(command, "--max-variants", 2, "N", "maximum pronunciations of a word missing from the dictionary")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr lexicon`."""
    return {"train": _train, "make": _make, "show": _show}[args.what](args)


def _train(args: argparse.Namespace) -> int:
    if not 2 <= args.order <= MAX_ORDER:
        raise LexiconError(f"--order {args.order} must be in [2, {MAX_ORDER}]")
    if not 0 <= args.held_out < 1:
        raise LexiconError(f"--held-out {args.held_out} must be in [0, 1)")
    if not args.megabytes > 0:
        raise LexiconError(f"--megabytes {args.megabytes} must be above 0")
    require_folder(args.output, args.dictionary)
    lexicon = load_lexicon(args.dictionary)
    options = G2pOptions(args.order, args.megabytes)
    console = Console(stderr=True)
    with console.status("") as status:
        report: Callable[[str], None] = status.update if console.is_terminal else console.print
        if args.held_out:
            kept, held_out = split(lexicon, args.held_out)
            g2p = G2p(np.frombuffer(train(kept, options, report), np.uint8))
            rates = error_rates(g2p, held_out)
            print(
                f"{rates.num_words} words held out: {rates.words:.1%} of them wrong, "
                f"{rates.phones:.1%} of their phones",
                flush=True,
            )
        data = train(lexicon, options, report)
    with replacing(args.output) as part:
        part.write_bytes(data)
    print(f"{args.output}: {len(lexicon)} words, {len(lexicon.phones)} phones, {len(data) / 1e6:.1f} MB")
    return 0


def split(lexicon: Lexicon, share: float) -> tuple[Lexicon, Lexicon]:
    """Splits the lexicon deterministically: returns the remaining words, and `share` of the words (at least one)."""
    words = sorted(lexicon.pronunciations)
    random.Random(0).shuffle(words)
    count = max(1, round(share * len(words)))
    if count == len(words):
        raise LexiconError(f"{len(words)} words are too few to hold {share:.0%} of them out")
    held_out, kept = (Lexicon({word: lexicon[word] for word in part}) for part in (words[:count], words[count:]))
    return kept, held_out


def _make(args: argparse.Namespace) -> int:
    if args.num_words < 1:
        raise LexiconError(f"--num-words {args.num_words} must be at least 1")
    require_folder(args.output, *args.text, args.dict, *([args.g2p] if args.g2p else []))
    pronouncer = _pronouncer(args)
    words = ngram.vocabulary(args.text, args.num_words)[ngram.UNK + 1 :]
    if not words:
        raise LexiconError(f"there are no words in {', '.join(map(str, args.text))}")
    lexicon, sources, missing = make(_with_progress(words), pronouncer)
    lexicon.write(args.output)
    parts = ", ".join(f"{count} {label}" for source, label in SOURCES.items() if (count := sources[source]))
    print(f"{args.output}: {len(lexicon)} words: {parts}")
    if missing:
        way_out = "" if args.g2p else "; name a model for them with --g2p"
        print(
            f"{len(missing)} words without pronunciation are left out: {first_few(missing)}{way_out}", file=sys.stderr
        )
    return 0


SOURCES = {"dictionary": "from the dictionary", "rule": "possessives by rule", "model": "by the model"}


def _with_progress(words: list[str]) -> Iterable[str]:
    console = Console(stderr=True)
    return track(words, "pronouncing", console=console, transient=True, disable=not console.is_terminal)


def _show(args: argparse.Namespace) -> int:
    if args.g2p is None and args.dict == CMUDICT:
        args.g2p = "bundled"
    pronouncer = _pronouncer(args)
    missing = []
    for word in (word.upper() for word in args.words):
        source, found = pronouncer(word)
        for i, phones in enumerate(found):
            print(f"{word if i == 0 else f'{word}({i + 1})'}  {' '.join(phones)}    {SOURCES[source]}")
        if not found:
            missing.append(word)
    if missing:
        raise LexiconError(
            f"no pronunciation of {', '.join(missing)}"
            + ("" if args.g2p else "; name a model for words that the dictionary lacks with --g2p")
        )
    return 0


def _pronouncer(args: argparse.Namespace) -> Pronouncer:
    if args.max_variants < 1:
        raise LexiconError(f"--max-variants {args.max_variants} must be at least 1")
    dictionary = None if args.dict == "none" else load_lexicon(args.dict)
    if dictionary is None and args.g2p is None:
        raise LexiconError("--dict none needs a model: --g2p FILE")
    return Pronouncer(dictionary, _g2p(args.g2p) if args.g2p else None, args.max_variants)


def _g2p(name: str) -> G2p:
    return G2p(np.frombuffer(load_lm(name).g2p, np.uint8)) if name == "bundled" else load_g2p(name)
