"""What a few minutes of your own voice are worth: the bundled model, fine-tuned on one speaker of a data set.

Takes `--minutes` of one speaker to train on, and measures word errors before and after on that speaker's other
utterances and on those of all others (how much the model forgets). Everything runs through the commands.

    python benchmarks/finetune.py data/dev.jsonl.gz
    python benchmarks/finetune.py data/dev.jsonl.gz --speaker 2035 --old-data data/train.jsonl.gz
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from lhotse import CutSet

from asr.cli import main as asr
from asr.runtime.onnx_model import bundled_model


def speakers(cuts: list[Any]) -> dict[str, list[Any]]:
    """Utterances of each speaker, in an order that depends on their names alone."""
    out: dict[str, list[Any]] = defaultdict(list)
    for cut in sorted(cuts, key=lambda c: c.id):
        out[str(cut.supervisions[0].speaker)].append(cut)
    return out


def split(cuts: list[Any], seconds: float) -> tuple[list[Any], list[Any]]:
    """Utterances that make up `seconds`, taken evenly, and the rest."""
    total = sum(cut.duration for cut in cuts)
    taken: list[Any] = []
    rest: list[Any] = []
    due = 0.0
    for cut in cuts:
        due += cut.duration * seconds / total
        (taken if due >= sum(c.duration for c in taken) + cut.duration / 2 else rest).append(cut)
    return taken, rest


def evaluate(model: Path, sets: list[Path], folder: Path, lm: str) -> dict[tuple[str, str], float]:
    report = folder / "report.json"
    arguments = ["--lm", lm, "--search", "greedy,rescore+lm", "--chunk-ms", "640", "--json", str(report)]
    assert asr(["evaluate", str(model), "--data", *map(str, sets), *arguments]) == 0
    return {(r["data"], r["search"]): r["wer"] for r in json.loads(report.read_text())["results"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a prepared data set with speakers")
    parser.add_argument("--init", default="bundled", help="the weights to start from (default bundled), as train.init")
    parser.add_argument("--speaker", help="default: the one with the most speech")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--num-others", type=int, default=100, help="utterances of other speakers (default 100)")
    parser.add_argument("--old-data", help="mix this in, half and half: less is forgotten")
    parser.add_argument("--lm", default="bundled")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for asr train")
    args = parser.parse_intermixed_args()

    by_speaker = speakers(list(CutSet.from_jsonl_lazy(args.data)))  # features relative to the data set
    speaker = args.speaker or max(by_speaker, key=lambda s: sum(c.duration for c in by_speaker[s]))
    mine, held_out = split(by_speaker[speaker], 60 * args.minutes)
    others = [cut for name, cuts in by_speaker.items() if name != speaker for cut in cuts]
    others = others[:: max(1, len(others) // args.num_others)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for features in args.data.resolve().parent.glob("*.features"):
            (folder / features.name).symlink_to(features)
        sets = {"mine": mine, "same-speaker": held_out, "others": others}
        for label, cuts in sets.items():
            print(f"{label}: {len(cuts)} utterances, {sum(c.duration for c in cuts) / 60:.1f} minutes")
            CutSet.from_cuts(cuts).to_file(folder / f"{label}.jsonl.gz")
        measured = [folder / "same-speaker.jsonl.gz", folder / "others.jsonl.gz"]
        before = evaluate(bundled_model() if args.init == "bundled" else Path(args.init), measured, folder, args.lm)
        old = [f"{args.old_data}"] if args.old_data else []
        train = json.dumps([str(folder / "mine.jsonl.gz"), *old])
        started = time.monotonic()
        output = folder / "run"
        settings = [f"data.train={train}", f"train.init={args.init}", f"train.output={output}", *args.overrides]
        assert asr(["train", "finetune", *settings]) == 0
        minutes = (time.monotonic() - started) / 60
        assert asr(["export", str(output), "-o", str(folder / "mine.onnx"), "--int8"]) == 0
        after = evaluate(folder / "mine.onnx", measured, folder, args.lm)
    print(f"\nspeaker {speaker}, {args.minutes:g} minutes, {minutes:.1f} minutes of training")
    for (data, search), wer in before.items():
        now = after[data, search]
        print(f"{data:>13} {search:>10}: {100 * wer:.1f} % -> {100 * now:.1f} % ({100 * (now / wer - 1):+.1f} %)")


if __name__ == "__main__":
    main()
