"""Errors before and after `asr adapt`, by speaker: python benchmarks/adapt.py --data data/dev.jsonl.gz

Half of a speaker's utterances, at most `--minutes`, adapt the model. Phone errors at 640 ms are measured on the other
half, and on `--num-others` utterances of all other speakers, to show what the model forgets. --words measures word
errors instead: at 640 ms, with one pass and the bundled n-grams.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from lhotse import CutSet
from rich.console import Console

from asr._core import NgramLm
from asr.data.cuts import evenly_spread, load_cuts
from asr.evaluation.wer import WordErrors
from asr.export.adapt import SHARE, learn, mixture, phone_errors, split, word_errors
from asr.lm.packed import load_lm
from asr.training.checkpoint import load_pretrained
from asr.training.pretrained import Pretrained


def halves(cuts: list[Any], minutes: float) -> tuple[list[Any], list[Any]]:
    """Utterances for adaptation, of at most `minutes`, and utterances for measuring."""
    ordered = sorted(cuts, key=lambda cut: cut.id)
    kept: list[Any] = []
    for cut in ordered[::2]:
        if sum(c.duration for c in kept) + cut.duration <= 60 * minutes:
            kept.append(cut)
    return kept, ordered[1::2]


def errors(weights: Pretrained, cuts: list[Any], folder: Path, lm: NgramLm | None) -> WordErrors:
    if lm is None:
        return phone_errors(weights, cuts)
    weights.save(folder / "measured.safetensors")
    return sum(word_errors(str(folder / "measured.safetensors"), cuts, lm), WordErrors())


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
        speakers: dict[str, list[Any]] = defaultdict(list)
        for cut in CutSet.from_jsonl_lazy(path):  # feature paths are relative to the data set
            speakers[str(cut.supervisions[0].speaker)].append(cut)
        longest = sorted(speakers, key=lambda s: -sum(cut.duration for cut in speakers[s]))
        for speaker in longest[: args.num_speakers]:
            mine, rest = halves(speakers[speaker], args.minutes)
            try:
                own, stopping, _ = split(mine)
            except ValueError:  # too short
                continue
            others = [cut for name, cuts in speakers.items() if name != speaker for cut in cuts]
            measured = (rest, evenly_spread(others, args.num_others))
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for features in path.resolve().parent.glob("*.features"):
                    (folder / features.name).symlink_to(features)
                files = [folder / f"{name}.jsonl.gz" for name in ("own", "stopping", "rest", "others")]
                for file, cuts in zip(files, (own, stopping, *measured), strict=True):
                    CutSet.from_cuts(cuts).to_file(file)
                measured = [list(load_cuts(file)) for file in files[2:]]
                row = [tuple(errors(start, cuts, folder, lm) for cuts in measured)]
                learn(args.init, *files[:2], folder / "run", Console(quiet=True), args.overrides)
                for share in shares:
                    mixed = mixture(args.init, folder / "run", share)
                    row.append(tuple(errors(mixed, cuts, folder, lm) for cuts in measured))
            rows.append(row)
            rates = "\t".join(f"{100 * mine.rate:.1f} {100 * other.rate:.1f}" for mine, other in row)
            print(f"{speaker}\t{sum(cut.duration for cut in mine) / 60:.1f}\t{rates}", flush=True)
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
