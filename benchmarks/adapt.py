"""Errors before and after `asr adapt`, by speaker: python benchmarks/adapt.py --data data/dev

Half of a speaker's utterances, at most `--minutes`, adapt the model. Phone errors at 640 ms are measured on the other
half, and on `--num-others` utterances of all other speakers, to show what the model forgets. --words measures word
errors instead: at 640 ms, with one pass and the bundled n-grams.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from asr._core import NgramLm
from asr.data.speech import Clip, Speech, evenly_spread, write_subset
from asr.evaluation.wer import WordErrors
from asr.export.adapt import SHARE, learn, mixture, phone_errors, split, word_errors
from asr.lm.packed import load_lm
from asr.tables import UTTERANCES
from asr.training.checkpoint import load_pretrained
from asr.training.pretrained import Pretrained


def halves(speech: Speech, numbers: list[int], minutes: float) -> tuple[list[int], list[int]]:
    """The numbers of utterances for adaptation, of at most `minutes`, and of utterances for measuring."""
    ordered = sorted(numbers, key=lambda number: speech.ids[number])
    kept: list[int] = []
    for number in ordered[::2]:
        if speech.only([*kept, number]).seconds <= 60 * minutes:
            kept.append(number)
    return kept, ordered[1::2]


def errors(weights: Pretrained, clips: Sequence[Clip], folder: Path, lm: NgramLm | None) -> WordErrors:
    if lm is None:
        return phone_errors(weights, clips)
    weights.save(folder / "measured.safetensors")
    return sum(word_errors(str(folder / "measured.safetensors"), clips, lm), WordErrors())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="prepared data sets with speakers")
    parser.add_argument("--init", default="bundled", help="the weights to start from (bundled)")
    parser.add_argument(
        "--num-speakers", type=int, default=10, help="of each data set, those with the most speech (10)"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="speech to adapt with, at most (5)")
    parser.add_argument("--num-others", type=int, default=40, help="utterances of other speakers (40)")
    parser.add_argument("--words", action="store_true", help="measure word errors instead of phone errors")
    parser.add_argument("--shares", default=str(SHARE), metavar="S,...", help="of what was learned, in the mean")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the recipe adapt")
    args = parser.parse_intermixed_args()

    start = load_pretrained(args.init)
    lm = load_lm("bundled") if args.words else None
    shares = [float(share) for share in args.shares.split(",")]
    print("speaker\tminutes\terrors of the same speaker\terrors of others\tboth with each share", flush=True)
    rows: list[list[tuple[WordErrors, WordErrors]]] = []
    for path in args.data:
        speech = Speech.load(path)
        speakers: dict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(speech.speakers):
            speakers[str(name)].append(number)
        longest = sorted(speakers, key=lambda name: -speech.only(speakers[name]).seconds)
        for speaker in longest[: args.num_speakers]:
            mine, rest = halves(speech, speakers[speaker], args.minutes)
            try:
                own, stopping, _ = split(speech.only(mine))
            except ValueError:  # too short
                continue
            others = speech.only(n for name, numbers in speakers.items() if name != speaker for n in numbers)
            measured = (speech.only(rest), evenly_spread(others, args.num_others))
            with tempfile.TemporaryDirectory(dir=path) as name:  # tables are next to the samples
                folder = Path(name)
                files = [path / f"{folder.name}-{part}.tsv" for part in ("own", "stopping")]
                for file, numbers in zip(files, (own, stopping), strict=True):
                    write_subset(path / UTTERANCES, [mine[number] for number in numbers], file)
                row = [tuple(errors(start, clips, folder, lm) for clips in measured)]
                learn(args.init, *files, folder / "run", Console(quiet=True), args.overrides)
                for file in files:
                    file.unlink()
                for share in shares:
                    mixed = mixture(args.init, folder / "run", share)
                    row.append(tuple(errors(mixed, clips, folder, lm) for clips in measured))
            rows.append(row)
            rates = "\t".join(f"{100 * mine.rate:.1f} {100 * other.rate:.1f}" for mine, other in row)
            print(f"{speaker}\t{speech.only(mine).seconds / 60:.1f}\t{rates}", flush=True)
    for number, share in enumerate(shares, 1):
        better = sum(row[number][0].rate <= 0.9 * row[0][0].rate for row in rows)
        changes = [
            sum((row[number][which] for row in rows), WordErrors()).rate
            / sum((row[0][which] for row in rows), WordErrors()).rate
            for which in (0, 1)
        ]
        print(
            f"share {share:g}: {100 * changes[0] - 100:+.1f} % errors of the same speaker, at least a tenth fewer for "
            f"{better} of {len(rows)}; {100 * changes[1] - 100:+.1f} % of others"
        )


if __name__ == "__main__":
    main()
