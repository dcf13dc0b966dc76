"""The options of recognition on a command line: those of `asr-stream` and of its server."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer


OPTIONS = {
    "chunk_ms": "--chunk-ms",
    "left_context_ms": "--left-context-ms",
    "search": "--search",
    "beam_size": "--beam",
    "lm": "--lm",
    "hotwords": "--hotwords",
    "phrases": "--phrases",
    "text": "--text",
    "punctuation": "--punctuation",
    "mask": "--mask",
    "silence_after_speech_s": "--endpoint-silence-ms (in seconds)",
    "min_silence_after_speech_s": "--min-endpoint-silence-ms (in seconds)",
    "max_utterance_s": "--max-utterance-s",
    "provider": "--provider",
}
"""Options of the command line for the fields of `Recognizer`, whose errors begin with their names."""
_NAME = re.compile(rf"^({'|'.join(OPTIONS)})\b")


def add_recognition_options(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("recognition")
    how.add_argument(
        "--model", metavar="PATH", help="a file from `asr export`; default: the bundled one, int8, with cuda float32"
    )
    how.add_argument(
        "--chunk-ms",
        type=_count,
        metavar="MS",
        help="text appears this often (default that of the model, as a rule 640)",
    )
    how.add_argument(
        "--left-context-ms",
        type=_count,
        metavar="MS",
        help="left context of the encoder (default that of the model, as a rule 2560)",
    )
    how.add_argument("--search", choices=("greedy", "beam", "rescore"), default="rescore", help="default rescore")
    how.add_argument("--beam", type=_count, default=256, metavar="N", help="hypotheses kept (default 256)")
    how.add_argument(
        "--no-second-pass",
        dest="second_pass",
        action="store_false",
        help="do not encode each utterance again with full context when it has ended",
    )
    how.add_argument(
        "--lm",
        default="auto",
        metavar="PATH",
        help="language model from `asr lm`, or none; default: the bundled one with the bundled model",
    )
    how.add_argument(
        "--hotwords",
        metavar="FILE",
        help="words and phrases that are expected, one a line; behind a colon a boost other than 0.75",
    )
    how.add_argument(
        "--phrases",
        metavar="FILE",
        help="a grammar, such as voice commands: one phrase a line; other speech becomes [unk]",
    )
    how.add_argument(
        "--text",
        choices=("formatted", "plain"),
        help="with numbers in digits, case and punctuation, or words alone",
    )
    how.add_argument(
        "--punctuation",
        default="auto",
        metavar="PATH",
        help="model for case and punctuation, or none; default: the bundled one",
    )
    how.add_argument("--mask", metavar="FILE", help="words and phrases to be shown as stars, one a line")
    how.add_argument(
        "--endpoint-silence-ms",
        type=_milliseconds,
        default=2000.0,
        metavar="MS",
        help="an utterance ends after at most so much silence, sooner if it sounds complete; inf: never (default 2000)",
    )
    how.add_argument(
        "--min-endpoint-silence-ms",
        type=_milliseconds,
        default=500.0,
        metavar="MS",
        help="and after at least so much; the same for both is a fixed silence (default 500)",
    )
    how.add_argument(
        "--max-utterance-s",
        type=float,
        default=20.0,
        metavar="S",
        help="a longer one ends at its next pause, or between two words (default 20, up to 120)",
    )
    how.add_argument("--provider", choices=("cpu", "cuda"), default="cpu", help="where the model runs (default cpu)")


def new_recognizer(args: argparse.Namespace) -> Recognizer:
    """The recognizer of `args`. Raises as `Recognizer` does."""
    from asr.lm.packed import LmError
    from asr.runtime.onnx_model import ModelError
    from asr.runtime.shown_text import TEXT
    from asr.streaming.recognizer import Recognizer

    if args.model == "":
        raise ValueError("--model is empty; name a file, or leave it out for the bundled model")
    for option, path in (("--hotwords", args.hotwords), ("--phrases", args.phrases), ("--mask", args.mask)):
        if path is not None and not Path(path).exists():
            raise ValueError(f"{option}: there is no file {path}; write what is expected into a file, one a line")
    try:
        return Recognizer(
            args.model,
            chunk_ms=args.chunk_ms,
            left_context_ms=args.left_context_ms,
            search=args.search,
            second_pass=args.second_pass,
            lm=None if args.lm == "none" else args.lm,
            hotwords=args.hotwords,
            phrases=args.phrases,
            text=args.text or TEXT,
            punctuation=None if args.punctuation == "none" else args.punctuation,
            mask=args.mask,
            silence_after_speech_s=args.endpoint_silence_ms / 1000,
            min_silence_after_speech_s=args.min_endpoint_silence_ms / 1000,
            max_utterance_s=args.max_utterance_s,
            beam_size=args.beam,
            provider=args.provider,
        )
    except (ModelError, LmError):
        raise
    except ValueError as error:
        raise ValueError(_NAME.sub(lambda name: OPTIONS[name[0]], str(error))) from error


def recognizer_or_error(args: argparse.Namespace, parser: argparse.ArgumentParser) -> Recognizer | None:
    """The recognizer of `args`; None after an error message where a model cannot be used.

    Ends the process where the command line is wrong.
    """
    from asr.lm.packed import LmError
    from asr.runtime.onnx_model import ModelError

    try:
        return new_recognizer(args)
    except (ModelError, LmError) as error:
        print_error(error)
        return None
    except ValueError as error:
        parser.error(str(error))


def print_error(message: object) -> None:
    """A line on standard error."""
    print(f"asr-stream: {message}", file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at most nine digits")
    return int(text)


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds above 0; inf switches the rule off")
    return value
