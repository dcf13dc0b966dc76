"""`asr train-gpu`: trains a network for some minutes, with all recordings in the memory of a GPU."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from asr.command import add_noise_tags, add_option, split_weight
from asr.cores import num_cores
from asr.data.audio import find_sounds
from asr.files import require_folder
from asr.lexicon.lexicon import load_lexicon
from asr.options import flag
from asr.tables import print_left_out
from asr.training.gpu.options import Options
from asr.training.short import TrainBar

DESCRIPTION = """\
Trains a network for some minutes on a GPU, which holds all recordings and
draws their speed, room, noise, telephone line and masks anew for every batch.
Instead of data sets of `asr prepare` it reads tables of recordings and texts.
It writes the moving average of the weights. Without a GPU it trains on the
CPU, slowly.
"""
EXAMPLES = """\
examples:
  asr train-gpu train.tsv --minutes 10 -o new.safetensors --noise sounds \\
    --valid dev.tsv
  asr train-gpu train.tsv 'more.tsv*0.7' --minutes 60 -o new.safetensors \\
    --lexicon lexicon.txt
"""
NUM_ROOMS = 500
"""Default number of simulated rooms."""
NUM_NAMED = 3
"""Maximum number of recordings named per reason for leaving some out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument(
        "tables",
        nargs="+",
        metavar="TABLE*SHARE",
        help="recordings and texts, as for `asr prepare manifest`; SHARE of them is drawn in each epoch, 1 by default",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.safetensors", help="the new weights")
    parser.add_argument(
        "--minutes",
        type=float,
        required=True,
        metavar="M",
        help="minutes of training, not counting the time to read the recordings",
    )
    add_option(parser, "--init", "bundled", "WEIGHTS", "weights to start from, as for train.init")
    parser.add_argument("--valid", nargs="+", default=[], metavar="TABLE", help="recordings and texts to validate on")
    add_noise_tags(parser)
    parser.add_argument("--noise", type=Path, metavar="DIR", help="recordings without speech (default: synthesized)")
    parser.add_argument("--rooms", type=Path, metavar="DIR", help="room impulse responses (default: simulated)")
    parser.add_argument("--num-rooms", type=int, metavar="N", help=f"number of simulated rooms ({NUM_ROOMS})")
    parser.add_argument(
        "--lexicon",
        default="bundled",
        metavar="FILE",
        help="pronunciations for a network with phones, of `asr lexicon make` (default: those of the bundled "
        "language model)",
    )
    add_option(parser, "--lr", Options.lr, "RATE", "peak learning rate")
    parser.add_argument(
        "--batch-s",
        type=float,
        default=Options.batch_s,
        metavar="S",
        help="seconds of audio in a batch, with padding; it is used in two views (%(default)g)",
    )
    add_option(parser, "--jobs", num_cores(), "N", "processes that read")
    add_option(parser, "--seed", Options.seed, "N", "random seed")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr train-gpu`. Raises ValueError for arguments and recordings that it cannot use."""
    for name, least in (("num_rooms", 1), ("jobs", 1), ("seed", 0)):
        if (value := getattr(args, name)) is not None and value < least:
            raise ValueError(f"{flag(name)} {value} must be at least {least}")
    for name in ("minutes", "lr", "batch_s"):
        if not 0 < (value := getattr(args, name)) < float("inf"):
            raise ValueError(f"{flag(name)} {value:g} must be a number above 0")
    if args.rooms and args.num_rooms:
        raise ValueError(f"--num-rooms {args.num_rooms} is for simulated rooms: --rooms reads all of {args.rooms}")
    if args.output.suffix != ".safetensors":
        raise ValueError(f"{args.output} must end with .safetensors")
    require_folder(args.output)
    import torch

    from asr.training.checkpoint import load_pretrained
    from asr.training.gpu.recordings import read_noise, read_rooms, read_speech
    from asr.training.gpu.train import held_out, train
    from asr.training.inputs import load_phones

    start = load_pretrained(args.init)
    tables = [split_weight(text, "share", 1.0) for text in args.tables]
    console = Console(stderr=True)
    for folder, kind in ((args.noise, "noise"), (args.rooms, "impulse response")):
        if folder:
            find_sounds(folder, kind)  # raises ValueError before the recordings are decoded
    if args.lexicon != "bundled":
        if not start.phones:
            raise ValueError(f"--lexicon {args.lexicon}: the weights of {args.init} have no phones; leave it out")
        load_lexicon(args.lexicon)  # the same
    with console.status("reading recordings"):
        read = partial(read_speech, tokenizer=start.tokenizer, num_jobs=args.jobs, noise_tags=args.noise_tags)
        speech = read(tables)
        valid = read([(name, 1.0) for name in args.valid]) if args.valid else None
        noise = read_noise(args.noise, args.jobs, args.seed)
    with console.status("rooms"):
        rooms = read_rooms(args.rooms, args.num_rooms or NUM_ROOMS, args.jobs, args.seed)
    print_left_out(console, [*speech.refusals, *(valid.refusals if valid else ())], NUM_NAMED)
    texts = [*speech.texts, *(valid.texts if valid else ())]
    phones = load_phones(args.lexicon, texts, start.phones) if start.phones else None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    console.print(
        f"{len(speech.texts)} utterances, {speech.hours:.2f} hours; {noise.num_recorded} recordings of noise; "
        f"{len(rooms)} rooms; {device.type}",
        highlight=False,
    )
    unit = "phone" if phones else "word"
    with TrainBar(console, "s of audio") as bar:

        def on_rates(step: int, rates: dict[str, float]) -> None:
            listed = ", ".join(f"{name} {100 * rate:.2f} %" for name, rate in rates.items())
            bar.scores(step, f"{unit} errors", listed)

        completed = train(
            start,
            speech,
            noise,
            rooms,
            held_out(valid) if valid else [],
            phones,
            Options(args.minutes, args.batch_s, args.lr, args.seed),
            args.output,
            device,
            on_step=bar.step,
            on_rates=on_rates,
        )
    if not completed:
        print(f"asr train-gpu: stopped; {args.output} has the weights so far", file=sys.stderr)
        return 130
    print(f"{args.output}: trained; convert it for apps: asr export {args.output} -o model.onnx --int8")
    return 0
