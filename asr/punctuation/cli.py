"""`asr text`: scores and shows case and punctuation of recognized words. `asr train punctuation` trains the network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from asr.options import flag
from asr.punctuation.corpus import HELD_OUT, read_corpus
from asr.runtime.punctuation import Punctuation

EVALUATED_WORDS = 0.1
"""Default million words of each file that `asr text evaluate` reads."""

DESCRIPTION = """\
Case and punctuation of recognized words, by a network that `asr train
punctuation` has trained on text files with a cased sentence or paragraph per
line. The end of each file, one fiftieth, is held out of its training.
"""
EXAMPLES = """\
examples:
  asr text evaluate punctuation.onnx books.txt podcasts.txt --held-out
  asr text evaluate runs/punctuation books.txt --held-out
  asr text show punctuation.onnx "well i met john in london did you know"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    commands = parser.add_subparsers(dest="what", required=True, metavar="what")

    evaluation = commands.add_parser("evaluate", help="F1 of punctuation and capitals on cased text")
    evaluation.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file, or a run of asr train")
    evaluation.add_argument("text", nargs="+", type=Path, metavar="FILE", help="UTF-8, one cased sentence per line")
    evaluation.add_argument(
        "--held-out", action="store_true", help="use only the end of each file, which training holds out"
    )
    evaluation.add_argument(
        "--utterances",
        action="store_true",
        help="each line is an utterance (default: the lines are one continuous text)",
    )
    evaluation.add_argument(
        "--iwslt", action="store_true", help="the files are of the TED benchmark: a word and its mark per line, no case"
    )
    evaluation.add_argument(
        "--words", type=float, metavar="N", help=f"million words to read of each file ({EVALUATED_WORDS:g})"
    )

    showing = commands.add_parser("show", help="show words with case and punctuation")
    showing.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file")
    showing.add_argument("words", nargs="*", metavar="WORDS", help="utterances (default: lines of standard input)")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr text`."""
    return {"evaluate": _evaluate, "show": _show}[args.what](args)


def _evaluate(args: argparse.Namespace) -> int:
    for name in ("held_out", "utterances", "words"):
        if args.iwslt and getattr(args, name) not in (False, None):
            raise ValueError(f"{flag(name)} is for cased text: --iwslt reads all words of its files, as one text")
    from asr.punctuation.evaluate import evaluate, read_iwslt
    from asr.punctuation.task import load

    args.words = EVALUATED_WORDS if args.words is None else args.words
    is_file = args.model.suffix == ".onnx"
    model = Punctuation(args.model) if is_file else load(args.model)[0]
    if not 0 < args.words < 1e6:
        raise ValueError(f"--words {args.words} must be above 0 and below 1e6")
    num_words = max(1, round(args.words * 1e6))
    for path in args.text:
        if args.iwslt:
            corpus = read_iwslt(path)
        else:
            part = (1.0 - HELD_OUT, 1.0) if args.held_out else (0.0, 1.0)
            corpus = read_corpus(path, num_words, part, args.utterances)
        print(f"{path.name}: {evaluate(model, corpus)}", flush=True)
    return 0


def _show(args: argparse.Namespace) -> int:
    punctuation = Punctuation(args.model)
    for line in args.words or sys.stdin:
        print(" ".join(punctuation(line.lower().split())), flush=True)
    return 0
