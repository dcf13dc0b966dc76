"""Measures hotwords: python benchmarks/hotwords.py data/dev --distractors words.txt [--plot out.png]

Decodes a data set like finals (full context, language model), with its rare words as hotwords: those that are not in
the language model, or have a lower log-probability than `--rare`. The whole list is used for every utterance, so nearly
all of it is wrong there; `--distractors`, any text, adds rare words that were not spoken.

Recall: rare words of the references that were recognized at their position. Others: word errors of all other words,
including wrong insertions of hotwords. False alarms: hotwords in the output that are not in the reference there.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import jiwer
from command import data_parser, encode, utterances

from asr._core import OPTIONS, LmFusion, NgramLm
from asr.evaluation.engine import Engine, open_engine
from asr.evaluation.plots import new_axes
from asr.lm.packed import load_lm
from asr.runtime.onnx_model import Encoded, bundled_model
from asr.runtime.search import LmWeights, decode_words, new_hotwords, output_symbols


@dataclass
class Counts:
    """Words of the references, and how they were recognized."""

    rare: int = 0
    rare_hits: int = 0
    others: int = 0
    other_errors: int = 0
    false_alarms: int = 0
    boost: float = 0.0
    list_size: int = 0
    search_s: float = field(default=0.0, repr=False)

    @property
    def recall(self) -> float:
        return self.rare_hits / self.rare if self.rare else 0.0

    @property
    def other_wer(self) -> float:
        return self.other_errors / self.others if self.others else 0.0

    def count(self, reference: str, hypothesis: str, rare: frozenset[str], hotwords: frozenset[str]) -> None:
        out = jiwer.process_words(reference, hypothesis)
        reference_words, hypothesis_words = reference.split(), hypothesis.split()
        for chunk in out.alignments[0]:
            words = reference_words[chunk.ref_start_idx : chunk.ref_end_idx]
            found = hypothesis_words[chunk.hyp_start_idx : chunk.hyp_end_idx]
            num_rare = sum(word in rare for word in words)
            self.rare += num_rare
            self.others += len(words) - num_rare
            if chunk.type == "equal":
                self.rare_hits += num_rare
                continue
            self.other_errors += len(words) - num_rare if words else len(found)
            self.false_alarms += sum(word in hotwords for word in found)


def rare_words(texts: Iterable[str], lm: NgramLm, below: float) -> frozenset[str]:
    """Words that are not in `lm`, or have a log-probability below `below` at the beginning of a sentence."""
    words = sorted({word for line in texts for word in line.split()})
    return frozenset(word for word in words if len(word) > 2 and (word not in lm or lm.log_probs([word])[0] < below))


def measure(
    engine: Engine,
    utterances: Sequence[tuple[str, Encoded]],
    lm: NgramLm,
    rare: frozenset[str],
    hotwords: Sequence[str],
    boost: float,
) -> Counts:
    """One row: the utterances (reference and model output) decoded with `hotwords`; no hotwords if the list is
    empty."""
    counts = Counts(boost=boost if hotwords else 0.0, list_size=len(hotwords))
    graph = new_hotwords(hotwords, engine.tokens, boost, lm, engine.phones) if hotwords else None
    weights = asdict(LmWeights(*engine.lm_weights))
    fusion = LmFusion(lm, output_symbols(engine.tokens), **weights, hotwords=graph, phones=list(engine.phones))
    for reference, encoded in utterances:
        started = time.thread_time()
        found = decode_words(
            encoded.log_probs,
            engine.tokens,
            "rescore",
            score=partial(engine.score, encoder_out=encoded.encoder_out),
            ctc_weight=engine.rescore_ctc_weight,
            fusion=fusion,
            phone_log_probs=encoded.phone_log_probs,
        )
        counts.search_s += time.thread_time() - started
        counts.count(reference, " ".join(word.word for word in found), rare, frozenset(hotwords))
    return counts


def plot(rows: Sequence[Counts], path: Path) -> None:
    figure, axes = new_axes(7, 4)
    sizes = sorted({row.list_size for row in rows if row.list_size})
    plain = next(row for row in rows if not row.list_size)
    for size in sizes:
        curve = [plain, *(row for row in rows if row.list_size == size)]
        points = [(100 * row.other_wer, 100 * row.recall) for row in curve]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"list of {size}")
        for row, point in zip(curve, points, strict=True):
            axes.annotate(f"{row.boost:g}", point, textcoords="offset points", xytext=(5, -9), fontsize=8)
    axes.axvline(101 * plain.other_wer, color="gray", linestyle=":", label="1 % more errors")
    axes.set_xlabel("word error rate of the other words in %")
    axes.set_ylabel("recall of the rare words in %")
    axes.set_title("hotwords, at boosts from 0 (none) on")
    axes.legend(loc="lower right")
    figure.savefig(path, format="png")


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--distractors", type=Path, required=True, metavar="TEXT", help="a text with other rare words")
    parser.add_argument("--num-distractors", default="100,1000", metavar="N,...", help="default: %(default)s")
    parser.add_argument(
        "--boosts", default=f"{OPTIONS['hotword_boost'].default:g}", metavar="X,...", help="default: %(default)s"
    )
    parser.add_argument("--rare", type=float, default=-14.0, metavar="LOG_PROB", help="default: %(default)s")
    parser.add_argument("--lm", default="bundled", help="a file of `asr lm` (default: the bundled one)")
    parser.add_argument("--chunk-ms", type=int, default=0, help="0 is full context, as in the second pass (default)")
    parser.add_argument("--plot", type=Path, metavar="OUT.png")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    args = parser.parse_args()

    engine, lm = open_engine(args.model or bundled_model()), load_lm(args.lm)
    encoded = list(encode(engine, utterances(args), args.chunk_ms))
    rare = rare_words((reference for reference, _ in encoded), lm, args.rare)
    others = sorted(rare_words(args.distractors.read_text(encoding="utf-8").splitlines(), lm, args.rare) - rare)
    random.Random(0).shuffle(others)
    rows = [measure(engine, encoded, lm, rare, [], 0.0)]
    for number in map(int, args.num_distractors.split(",")):
        for boost in map(float, args.boosts.split(",")):
            rows.append(measure(engine, encoded, lm, rare, [*sorted(rare), *others[:number]], boost))
    print("list  boost  recall %  others' WER %  false alarms  search s")
    for r in rows:
        print(
            f"{r.list_size:4}  {r.boost:5.2f}  {100 * r.recall:8.1f}  {100 * r.other_wer:13.2f}  {r.false_alarms:12}"
            f"  {r.search_s:8.1f}"
        )
    print(f"{rows[0].rare} rare and {rows[0].others} other words in {len(encoded)} utterances")
    if args.json:
        args.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n", encoding="utf-8")
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
