"""Tunes the weights of the search and measures the effect of each: benchmarks/search_weights.py data/dev

Encodes data sets once, then decodes them with many weights. Every other utterance is for tuning, the rest for
reporting; for several sets, the mean of their error rates counts. A search over phones is not rescored. Starting from
the defaults, each round makes the one change that saves the most errors (`--rounds 0`: none); the table then changes
each weight of the best setting on its own, which shows its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import numpy as np
from command import encode, plain_parser

from asr._core import CtcPrefixBeamSearch, LmFusion, NgramLm
from asr.data.speech import Speech, evenly_spread
from asr.evaluation.engine import Engine, open_engine
from asr.evaluation.wer import count_errors
from asr.lm.packed import load_lm
from asr.runtime.onnx_model import Encoded, bundled_model
from asr.runtime.search import BEAM_SIZE, BEAM_THRESHOLD, NUM_RESCORED, LmWeights, decode_words, rescore, text


@dataclass(frozen=True)
class Setting:
    """All settings that are tuned."""

    lm: LmWeights = field(default_factory=LmWeights)
    beam_size: int = BEAM_SIZE
    num_rescored: int = NUM_RESCORED
    """1 means without the decoder."""
    ctc_weight: float = 0.7
    recombine: bool = True

    def __str__(self) -> str:
        names = ("weight", "word_bonus", "oov_penalty", "prior_weight")
        lm = "  ".join(f"{name} {getattr(self.lm, name):<5.3g}" for name in names)
        return f"{lm}  beam {self.beam_size:<3}  rescored {self.num_rescored:<2}  ctc_weight {self.ctc_weight:.2f}"


@dataclass
class Utterance:
    data: str
    """Name of its data set."""
    reference: str
    encoded: Encoded
    scores: dict[tuple[int, ...], float] = field(default_factory=dict)
    """Decoder scores of every hypothesis that was scored so far."""


class Search:
    """Word error rates of settings, each computed once."""

    def __init__(self, engine: Engine, lm: NgramLm | None) -> None:
        self.engine, self.lm = engine, lm

    def errors(self, utterances: Sequence[Utterance], setting: Setting) -> float:
        """Mean over the data sets."""
        fusion = self.lm and setting.lm.fusion(self.lm, self.engine.tokens, phones=self.engine.phones)
        names = dict.fromkeys(utterance.data for utterance in utterances)
        sets = [[utterance for utterance in utterances if utterance.data == name] for name in names]
        return float(np.mean([self._errors(one, setting, fusion) for one in sets]))

    def _errors(self, utterances: Sequence[Utterance], setting: Setting, fusion: LmFusion | None) -> float:
        found = []
        for utterance in utterances:
            if fusion and fusion.over_phones:
                heads = utterance.encoded.log_probs, utterance.encoded.phone_log_probs
                words = decode_words(
                    heads[0], self.engine.tokens, "beam", setting.beam_size, fusion=fusion, phone_log_probs=heads[1]
                )
                found.append(" ".join(word.word for word in words))
                continue
            search = CtcPrefixBeamSearch(
                beam_size=setting.beam_size,
                beam_threshold=BEAM_THRESHOLD,
                recombine=setting.recombine,
                lm=fusion,
            )
            search.advance(utterance.encoded.log_probs)
            hypotheses = search.hypotheses(setting.num_rescored, finished=True)
            best = hypotheses[0]
            if len(hypotheses) > 1:
                tokens = [tuple(h.tokens) for h in hypotheses]
                if new := [t for t in tokens if t not in utterance.scores]:
                    scores = self.engine.score([list(t) for t in new], utterance.encoded.encoder_out)
                    utterance.scores.update(zip(new, scores, strict=True))
                best = hypotheses[rescore(hypotheses, [utterance.scores[t] for t in tokens], setting.ctc_weight)]
            found.append(text(best, self.engine.tokens))
        return count_errors([u.reference for u in utterances], found).rate


def neighbors(setting: Setting, with_lm: bool) -> Iterator[Setting]:
    """Each weight moved one step down and one step up."""
    steps = {"weight": 0.1, "word_bonus": 0.8, "oov_penalty": 4.0, "prior_weight": 0.1} if with_lm else {}
    for name, step in steps.items():
        low = -20.0 if name == "word_bonus" else 0.0
        for value in (getattr(setting.lm, name) - step, getattr(setting.lm, name) + step):
            if value >= low:
                yield replace(setting, lm=replace(setting.lm, **{name: round(value, 3)}))
    for weight in (setting.ctc_weight - 0.1, setting.ctc_weight + 0.1) if setting.num_rescored > 1 else ():
        if 0 <= weight <= 1:
            yield replace(setting, ctc_weight=round(weight, 3))


def descend(start: Setting, rate: Callable[[Setting], float], rounds: int, with_lm: bool) -> Setting:
    """Moves to the best neighbor as long as that is an improvement."""
    best, lowest = start, rate(start)
    for _ in range(rounds):
        rates = {setting: rate(setting) for setting in neighbors(best, with_lm)}
        if not rates or min(rates.values()) >= lowest:
            break
        best = min(rates, key=rates.__getitem__)
        lowest = rates[best]
        print(f"{100 * lowest:6.2f} %  {best}", flush=True)
    return best


def ablations(best: Setting, with_lm: bool) -> Iterator[tuple[str, Setting]]:
    """The setting without each of the weights, and with different beam and list sizes."""
    yield "as it is", best
    if with_lm:
        for name in ("word_bonus", "oov_penalty", "prior_weight"):
            yield f"without {name}", replace(best, lm=replace(best.lm, **{name: 0.0}))
        # The other weights compensate for the prior; these values were tuned without it.
        yield "never a prior", replace(best, lm=LmWeights(0.8, 0.8, 22.0, 0.0))
        yield "without recombination", replace(best, recombine=False)
    for size in (32, 64, 128, 512):
        yield f"beam of {size}", replace(best, beam_size=size)
    for number in (1, 4, 8, 16, 32) if best.num_rescored > 1 else ():
        yield f"{number} rescored" if number > 1 else "no rescoring", replace(best, num_rescored=number)


def main() -> None:
    parser = plain_parser(__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="written by `asr prepare`")
    parser.add_argument("--model", type=Path, default=bundled_model(), help="default: the bundled one")
    parser.add_argument("--lm", default="bundled", help="a file of `asr lm`, or none (default: the bundled one)")
    parser.add_argument("--chunk-ms", type=int, default=0, help="0 is full context, as in the second pass (default)")
    parser.add_argument(
        "--num-utterances", type=int, metavar="N", help="of a set, evenly spread, half of them to tune on; default: all"
    )
    parser.add_argument("--rounds", type=int, default=4, help="of tuning (default: 4)")
    args = parser.parse_args()

    engine = open_engine(args.model)
    utterances = []
    for data in args.data:
        clips = evenly_spread(Speech.load(data), args.num_utterances)
        for reference, encoded in encode(engine, clips, args.chunk_ms, f"encoding {data.name}"):
            utterances.append(Utterance(str(data), reference, encoded))
    search = Search(engine, None if args.lm == "none" else load_lm(args.lm))
    with_lm = search.lm is not None
    over_phones = bool(search.lm and search.lm.phones and engine.phones)
    start = Setting(ctc_weight=engine.rescore_ctc_weight, num_rescored=1 if over_phones else NUM_RESCORED)
    best = descend(start, lambda setting: search.errors(utterances[::2], setting), args.rounds, with_lm)
    print(f"best: {best}")
    if with_lm:
        print(f"asr calibrate {args.model} --lm-weights={','.join(f'{number:g}' for number in astuple(best.lm))}")
    for name, setting in ablations(best, with_lm):
        rates = [search.errors(part, setting) for part in (utterances[::2], utterances[1::2])]
        print(f"{name:22} {100 * rates[0]:6.2f} % tuned on  {100 * rates[1]:6.2f} % apart", flush=True)


if __name__ == "__main__":
    main()
