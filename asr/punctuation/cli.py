"""`asr text`: case and punctuation of recognized words, with a network trained on cased prose."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from asr.command import add_option
from asr.files import require_folder
from asr.options import flag
from asr.punctuation.config import DEFAULTS, PunctuatorConfig
from asr.punctuation.corpus import HELD_OUT, Corpus, CorpusReader, read
from asr.runtime.punctuation import Punctuation
from asr.training.short import TrainBar

HELD_OUT_WORDS = 20_000
EVALUATED_WORDS = 0.1
"""Default million words of each file that `asr text evaluate` reads."""

DESCRIPTION = """\
Case and punctuation of recognized words. The network is trained on text files
with a cased sentence or paragraph per line, novels as well as conversation;
lines that are not prose are skipped. `asr export` converts its checkpoint to
the .onnx file that apps use. The end of each file, one fiftieth, is held out.
"""
EXAMPLES = """\
examples:
  asr text train books.txt podcasts.txt -o punctuation.pt
  asr text train books.txt podcasts.txt -o punctuation.pt --resume
  asr export punctuation.pt -o punctuation.onnx --int8
  asr text evaluate punctuation.onnx books.txt podcasts.txt --held-out
  asr text show punctuation.onnx "well i met john in london did you know"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    commands = parser.add_subparsers(dest="what", required=True, metavar="what")

    training = commands.add_parser("train", help="train the network, or continue a training")
    training.add_argument("text", nargs="+", type=Path, metavar="FILE", help="UTF-8, one cased sentence per line")
    training.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. punctuation.pt")
    training.add_argument("--resume", action="store_true", help="continue the training in FILE of --output")
    add_option(training, "--steps", DEFAULTS.steps, "N", "steps of the whole training")
    training.add_argument("--minutes", type=float, metavar="M", help="end the whole training after this many minutes")
    add_option(training, "--words", 20.0, "N", "million words to read of each file")
    add_option(training, "--rows", DEFAULTS.rows, "N", "rows of 64 words in a batch")
    add_option(training, "--seed", DEFAULTS.seed, "N", "random seed")

    evaluation = commands.add_parser("evaluate", help="F1 of punctuation and capitals on cased text")
    evaluation.add_argument("model", type=Path, metavar="MODEL", help="an .onnx file or a checkpoint")
    evaluation.add_argument("text", nargs="+", type=Path, metavar="FILE", help="as for train")
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
    return {"train": _train, "evaluate": _evaluate, "show": _show}[args.what](args)


def _train(args: argparse.Namespace) -> int:
    _require(args.steps >= 1, f"--steps {args.steps} must be at least 1")
    _require(args.rows >= 1, f"--rows {args.rows} must be at least 1")
    _require(args.minutes is None or args.minutes > 0, f"--minutes {args.minutes} must be above 0")
    require_folder(args.output)
    from asr.punctuation.checkpoint import PunctuationCheckpoint
    from asr.punctuation.train import train

    resume = PunctuationCheckpoint.load(args.output) if args.resume else None
    _require(
        args.resume or not args.output.exists(),
        f"{args.output} exists: continue its training with --resume, or give another name",
    )
    num_words = _num_words(args)
    console = Console(stderr=True)
    reader = CorpusReader()
    for path in args.text:
        before = len(reader)
        with console.status(f"reading {path.name}"):
            read(path, num_words, (0.0, 1.0 - HELD_OUT), reader)
        console.print(f"{path.name}: {(len(reader) - before) / 1e6:.2f} M words", highlight=False)
    corpus = reader.corpus()
    del reader
    held_out = [(path.name, _read(path, HELD_OUT_WORDS, (1.0 - HELD_OUT, 1.0))) for path in args.text]
    options = replace(DEFAULTS, steps=args.steps, rows=args.rows, seed=args.seed)
    done = 0.0 if resume is None else resume.step / args.steps
    with TrainBar(console, "words", done) as bar:
        try:
            train(
                corpus,
                held_out,
                args.output,
                options,
                PunctuatorConfig(),
                minutes=float("inf") if args.minutes is None else args.minutes,
                resume=resume,
                on_step=bar.step,
                on_scores=bar.scores,
            )
        except KeyboardInterrupt:
            print(f"asr text: stopped; {args.output} is saved, continue with --resume", file=sys.stderr)
            return 130
    print(f"{args.output}: {len(corpus) / 1e6:.1f} M words, {len(corpus.mixed)} words of mixed case")
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    for name in ("held_out", "utterances", "words"):
        _require(
            not args.iwslt or getattr(args, name) in (False, None),
            f"{flag(name)} is for cased text: --iwslt reads all words of its files, as one text",
        )
    from asr.punctuation.checkpoint import PunctuationCheckpoint
    from asr.punctuation.evaluate import evaluate, read_iwslt

    args.words = EVALUATED_WORDS if args.words is None else args.words
    is_file = args.model.suffix == ".onnx"
    model = Punctuation(args.model) if is_file else PunctuationCheckpoint.load(args.model).model()
    num_words = _num_words(args)
    for path in args.text:
        if args.iwslt:
            corpus = read_iwslt(path)
        else:
            part = (1.0 - HELD_OUT, 1.0) if args.held_out else (0.0, 1.0)
            corpus = _read(path, num_words, part, args.utterances)
        print(f"{path.name}: {evaluate(model, corpus)}", flush=True)
    return 0


def _show(args: argparse.Namespace) -> int:
    punctuation = Punctuation(args.model)
    for line in args.words or sys.stdin:
        print(" ".join(punctuation(line.lower().split())), flush=True)
    return 0


def _read(path: Path, num_words: int, part: tuple[float, float], apart: bool = False) -> Corpus:
    try:
        return read(path, num_words, part, apart=apart).corpus()
    except ValueError as error:
        reason = f"its last {HELD_OUT:.0%} is held out, and {error}" if part[0] else error
        raise ValueError(f"{path}: {reason}") from error


def _num_words(args: argparse.Namespace) -> int:
    _require(0 < args.words < 1e6, f"--words {args.words} must be above 0 and below 1e6")
    return max(1, round(args.words * 1e6))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
