"""Closed phrases against free speech: python benchmarks/phrases.py data/answers [--id an4] [--plot out.png]

Decodes a data set of short utterances like finals (full context): as free speech, with the n-grams, and with a closed
list. The list comes from the transcripts of the data set: its words (--list words), or every other one of its distinct
sentences (--list sentences). The utterances of `--other`, any data set, and the other sentences are not in the list.

Right: utterances recognized completely. Rejected: utterances not in the list that became [unk] or nothing. False: words
of the list recognized in `--other` that were not spoken, per word spoken there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from command import data_parser, encode

from asr._core import OPTIONS, CtcPhraseSearch, Phrases, words
from asr.data.speech import Speech, evenly_spread
from asr.evaluation.engine import Engine, open_engine
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import count_errors
from asr.lm.packed import load_lm
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import LmWeights, decode_words, output_symbols

UNKNOWN = "[unk]"


@dataclass(frozen=True)
class Utterance:
    reference: str
    log_probs: np.ndarray
    encoder_out: np.ndarray
    phone_log_probs: np.ndarray | None


@dataclass(frozen=True)
class Row:
    name: str
    wer: float
    right: float
    rejected: float = float("nan")
    false: float = float("nan")


def load(engine: Engine, data: Path, id: str, number: int | None) -> list[Utterance]:
    """Utterances whose id contains `id`, without copies at a different speed."""
    clips = evenly_spread([clip for clip in Speech.load(data) if id in clip.id and "_sp" not in clip.id], number)
    return [Utterance(text, *encoded) for text, encoded in encode(engine, clips, 0, f"encoding {data.name}")]


def measure(
    name: str,
    recognize: Callable[[Utterance], str],
    listed: Sequence[Utterance],
    left_out: Sequence[Utterance],
    other: Sequence[Utterance],
) -> Row:
    references, found = [u.reference for u in listed], [recognize(u) for u in listed]
    wer = count_errors(references, found).rate
    right = float(np.mean([a == b for a, b in zip(references, found, strict=True)]))
    if not name.startswith(UNKNOWN):
        return Row(name, wer, right)
    rejected = [recognize(u) in (UNKNOWN, "") for u in left_out] or [float("nan")]
    num_words = sum(len(u.reference.split()) for u in other)
    false = sum(word not in {UNKNOWN, *u.reference.split()} for u in other for word in recognize(u).split())
    return Row(name, wer, right, float(np.mean(rejected)), false / num_words if num_words else float("nan"))


def plot(rows: Sequence[Row], path: Path, title: str) -> None:
    figure, axes = new_axes(7, 4)
    place = np.arange(len(rows))
    axes.bar(place - 0.2, [100 * row.right for row in rows], 0.4, label="right")
    second = "rejected" if not np.isnan(rows[-1].rejected) else "false"
    axes.bar(place + 0.2, [100 * getattr(row, second) for row in rows], 0.4, label=second)
    axes.set_xticks(place, [row.name for row in rows])
    axes.set_ylabel("%")
    axes.set_title(title)
    axes.legend(loc="upper left")
    figure.savefig(path, format="png")


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--id", default="", metavar="PART", help="only utterances whose id holds this")
    parser.add_argument("--list", choices=("words", "sentences"), default="words", help="default: %(default)s")
    parser.add_argument("--other", type=Path, metavar="DATA", help="speech that is not of the list")
    parser.add_argument(
        "--unknown-costs", default=f"{OPTIONS['unknown_cost'].default:g}", metavar="X,...", help="default: %(default)s"
    )
    parser.add_argument("--lm", default="bundled", help="of free speech, and pronounces the list: a file of `asr lm`")
    parser.add_argument("--plot", type=Path, metavar="OUT.png")
    args = parser.parse_args()

    engine = open_engine(args.model or bundled_model())
    data = load(engine, args.data, args.id, args.num_utterances)
    other = load(engine, args.other, "", args.num_utterances) if args.other else []
    sentences = sorted({u.reference for u in data})
    entries = sentences[::2] if args.list == "sentences" else sorted({w for s in sentences for w in s.split()})
    listed = [u for u in data if args.list == "words" or u.reference in entries]
    left_out = [u for u in data if args.list == "sentences" and u.reference not in entries]
    lm = load_lm(args.lm)
    fusion = LmWeights().fusion(lm, engine.tokens, phones=engine.phones)

    def free(utterance: Utterance, search: str) -> str:
        found = decode_words(
            utterance.log_probs,
            engine.tokens,
            search,
            score=partial(engine.score, encoder_out=utterance.encoder_out),
            ctc_weight=engine.rescore_ctc_weight,
            fusion=None if search == "greedy" else fusion,
            phone_log_probs=utterance.phone_log_probs,
        )
        return " ".join(word.word for word in found)

    def closed(utterance: Utterance, phrases: Phrases) -> str:
        search = CtcPhraseSearch(phrases)
        search.advance(utterance.phone_log_probs if phrases.over_phones else utterance.log_probs)
        return " ".join(word[0] for word in words(search.hypotheses(1, True)[0], phrases.tokens))

    rows = [
        measure("free, greedy", lambda u: free(u, "greedy"), listed, left_out, other),
        measure("free", lambda u: free(u, "rescore"), listed, left_out, other),
    ]
    for cost in map(float, args.unknown_costs.split(",")):
        phrases = Phrases("\n".join(entries), output_symbols(engine.tokens), cost, engine.phones, lm)
        rows.append(measure(f"{UNKNOWN} at {cost:g}", lambda u, p=phrases: closed(u, p), listed, left_out, other))  # type: ignore[misc]
    print(f"{len(listed)} utterances of a list of {len(entries)}, {len(left_out)} left out, {len(other)} others")
    print("                WER %  right %  rejected %  false %")
    for r in rows:
        print(f"{r.name:14} {100 * r.wer:6.1f}  {100 * r.right:7.1f}  {100 * r.rejected:10.1f}  {100 * r.false:7.1f}")
    if args.plot:
        plot(rows, args.plot, f"{len(listed)} utterances, a list of {len(entries)} {args.list}")


if __name__ == "__main__":
    main()
