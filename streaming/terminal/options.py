"""Command-line options of recognition, shared by `asr-stream` and its server."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from asr.options import LISTS, OPTIONS, described, flag

if TYPE_CHECKING:
    from asr.streaming.recognizer import Recognizer

ASSETS = ("model", "lm", "neural_lm", "punctuation", "decoder", "provider")
"""Parameters of the recognizer beside the options."""
_FILES = {
    "model": "a file from `asr export`; default: bundled, in int8, or float32 with cuda",
    "lm": "language model from `asr lm`, bundled, or none; default: the bundled one with the bundled model",
    "neural_lm": "neural language model that rescores finals, bundled, or none; default: the bundled one if the model "
    "is English and --lm has at least 100,000 words, as the bundled one has; if given, also with --lm none",
    "punctuation": "model for case and punctuation, or none; default: the bundled one if the model is English",
    "decoder": "attention decoder for search rescore and joint, or none; default: NAME.decoder.onnx beside the model",
}
"""Help of the options that are files."""
_OPTIONAL = ("lm", "neural_lm", "punctuation", "decoder")
"""Those that the recognizer finds by itself, with "auto", and that may be none."""
_NAMES = "|".join((*ASSETS, *OPTIONS))
_NAME = re.compile(rf"^(?P<name>{_NAMES})\b|\b(?P<set>{_NAMES})=")


def add_recognition_options(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Declares the options of `new_recognizer`. without: those that the command leaves at their defaults."""
    parser.set_defaults(**dict.fromkeys(without))
    how = parser.add_argument_group("recognition")
    for name, what in _FILES.items():
        default = "auto" if name in _OPTIONAL else None
        how.add_argument(flag(name), default=default, metavar="PATH", help=what)
    how.add_argument("--provider", choices=("cpu", "cuda"), default="cpu", help="where the model runs (default cpu)")
    for name, option in ((name, option) for name, option in OPTIONS.items() if name not in without):
        kind: dict[str, Any] = {"action": _Parsed, "metavar": name[name.rfind("_") + 1 :].upper()}
        if option.type == "integer":
            kind["metavar"] = "N"
        elif option.type == "list":
            kind = {"metavar": "FILE"}
        elif option.type == "choice":
            kind = {"choices": option.choices}
        elif option.type == "flag":
            kind = {"action": argparse.BooleanOptionalAction}
        how.add_argument(flag(name), help=described(option), **kind)


class _Parsed(argparse.Action):
    """A number parsed by the core and within its range."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        try:
            setattr(namespace, self.dest, OPTIONS[self.dest].parse(values))
        except ValueError as error:
            parser.error(_in_words_of_the_command_line(error))


def _in_words_of_the_command_line(error: ValueError | str) -> str:
    return _NAME.sub(lambda found: flag(found["name"]) if found["name"] else f"{flag(found['set'])} ", str(error))


def new_recognizer(args: argparse.Namespace) -> Recognizer:
    """The recognizer for `args`. Raises the same errors as `Recognizer`."""
    from asr.lm.packed import SPECIAL_WORDS, LmError, few_words
    from asr.runtime.onnx_model import ModelError
    from asr.streaming.recognizer import Recognizer

    if args.model == "":
        raise ValueError("--model is empty; name a file, or leave it out for the bundled model")
    for name in LISTS:
        path = getattr(args, name)
        try:
            if path is not None:
                os.stat(path)
        except FileNotFoundError:
            sentence = f"{flag(name)}: there is no file {path}; write the words into a file, one per line"
            raise ValueError(sentence) from None
        except OSError as error:
            raise ValueError(f"{flag(name)}: {path} cannot be read: {error.strerror}") from error
    given = {name: getattr(args, name) for name in (*ASSETS, *OPTIONS)}
    for name in _OPTIONAL:
        given[name] = None if given[name] == "none" else given[name]
    try:
        recognizer = Recognizer(**given)
        if args.lm not in ("auto", "bundled", "none") and recognizer.language_model:
            num_words = recognizer.language_model.num_ngrams[0] - len(SPECIAL_WORDS)
            if warning := few_words(num_words, args.lm, recognizer.onnx.metadata.language):
                print_error(warning)
        if warning := recognizer.spelling_warning:
            print_error(_in_words_of_the_command_line(warning))
        for warning in recognizer.skipped_lines:
            print_error(f"left out: {warning}")
        return recognizer
    except (ModelError, LmError):
        raise
    except ValueError as error:
        raise ValueError(_in_words_of_the_command_line(error)) from error


def recognizer_or_error(args: argparse.Namespace, parser: argparse.ArgumentParser) -> Recognizer | None:
    """The recognizer for `args`; None, after an error message, if a model cannot be used.

    Exits if the command line is wrong.
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
    """Prints a line to standard error."""
    print(f"asr-stream: {message}", file=sys.stderr, flush=True)
