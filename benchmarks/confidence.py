"""Calibrates and measures word confidences: python benchmarks/confidence.py data/dev [--plot PNG]

The map to the probability that a word is right, from the probabilities of its tokens and its posterior among the
alternatives, is fitted on every second speaker (`--write` writes it into the file of --model; csrc/calibration.h has
the defaults) and tested on the others: a reliability curve, the expected calibration error over ten bins (ECE; Naeini
et al. 2015), the area under the ROC curve (AUC: probability that a right word has a higher confidence than a wrong
one), and normalized cross entropy (NCE: 0 is as good as the share of right words).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from command import new_parser, progress, recognize, show, utterances

from asr import Recognizer
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import matched_words
from asr.export.calibrate import calibrate

NUM_BINS = 10
MAPS = ("confidence_with_lm", "confidence_without_lm", "confidence_with_phones", "confidence_with_posteriors")
RIDGE = 1e-3  # regularization; if all words are right, the most likely weights are infinite
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "one pass, 640 ms": {"second_pass": False},
    "one pass, 160 ms": {"second_pass": False, "chunk_ms": 160},
    "beam without LM": {"search": "beam", "lm": None},
    "greedy": {"search": "greedy", "lm": None},
}


class Scored(NamedTuple):
    """Words of a recognizer: (N,) confidences, and whether each word is right."""

    confidence: np.ndarray
    right: np.ndarray


def ece(scored: Scored) -> float:
    """Mean distance between confidence and share of right words, over the words."""
    bins = np.minimum((scored.confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    surplus = np.bincount(bins, scored.right - scored.confidence, NUM_BINS)
    return float(np.abs(surplus).sum() / len(bins))


def auc(scored: Scored) -> float:
    """Probability that a right word has a higher confidence than a wrong one; ties count a half."""
    right, wrong = (np.sort(scored.confidence[scored.right == value]) for value in (1, 0))
    below, not_above = (np.searchsorted(wrong, right, side) for side in ("left", "right"))
    return float((below + not_above).mean() / 2 / len(wrong))


def nce(scored: Scored) -> float:
    def entropy(p: np.ndarray) -> float:
        return float(-np.log(np.where(scored.right == 1, p, 1 - p)).mean())

    share = np.full(len(scored.right), scored.right.mean())
    return 1 - entropy(np.clip(scored.confidence, 1e-6, 1 - 1e-6)) / entropy(share)


def fit(inputs: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Logistic regression by Newton's method: (N, D) with a column of ones -> (D,)."""
    weights = np.zeros(inputs.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-inputs @ weights))
        curvature = (inputs.T * (p * (1 - p))) @ inputs + RIDGE * np.eye(len(weights))
        weights -= np.linalg.solve(curvature, inputs.T @ (p - right) + RIDGE * weights)
    return weights


def is_right(clip: Any, found: Sequence[str]) -> np.ndarray:
    """(len(found),) 1 where a word is right."""
    flags = np.zeros(len(found))
    for _, place in matched_words(clip.text.split(), found):
        flags[place] = 1
    return flags


def probed(recognizer: Recognizer, options: dict[str, Any], maps: dict[str, tuple[float, ...]]) -> Recognizer:
    """Another one that differs in its confidence maps."""
    onnx = copy.copy(recognizer.onnx)
    onnx.metadata = dataclasses.replace(onnx.metadata, **maps)
    return Recognizer(onnx, **options)


def evidence(recognizer: Recognizer, options: dict[str, Any], clips: Sequence[Any]) -> tuple[str, np.ndarray]:
    """The metadata key of the map that finals use, and for each word of them what the map takes, and whether the word
    is right: (num_words, 4 or 5) 1, least, mean, posterior if it takes that, right. A map that takes only one of these
    shows it."""
    width = {key: len(getattr(recognizer.onnx.metadata, key)) for key in MAPS}
    biases = {key: (float(number), *[0.0] * (width[key] - 1)) for number, key in enumerate(MAPS)}
    shown = [{key: tuple(np.eye(4)[column, : width[key]].tolist()) for key in MAPS} for column in (1, 2, 3)]
    first, *others = (probed(recognizer, options, maps) for maps in (biases, *shown))
    numbers, rows = set(), []
    for clip in progress(clips, "fit"):
        found = recognize(first, clip.waveform())
        numbers |= {round(float(log_odds(word.confidence))) for word in found}
        inputs = [[log_odds(word.confidence) for word in recognize(other, clip.waveform())] for other in others]
        rows += zip(np.ones(len(found)), *inputs, is_right(clip, [word.word for word in found]), strict=True)
    (number,) = numbers
    table = np.array(rows)
    return MAPS[number], np.column_stack([table[:, : width[MAPS[number]]], table[:, -1]])


def log_odds(p: float) -> float:
    return float(np.log(p / (1 - p)))


def score_words(recognizer: Recognizer, clips: Sequence[Any], name: str) -> Scored:
    confidence: list[float] = []
    right: list[float] = []
    for clip in progress(clips, name):
        found = recognize(recognizer, clip.waveform())
        confidence += [word.confidence for word in found]
        right += is_right(clip, [word.word for word in found]).tolist()
    return Scored(np.array(confidence), np.array(right))


def plot(scored: dict[str, Scored], path: str) -> None:
    figure, axes = new_axes(6, 5)
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="calibrated")
    for name, (confidence, right) in scored.items():
        bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
        shown = [b for b in range(NUM_BINS) if (bins == b).sum() >= 20]
        points = [(confidence[bins == b].mean(), right[bins == b].mean(), (bins == b).mean()) for b in shown]
        x, y, share = zip(*points, strict=True) if points else ((), (), ())
        line = axes.plot(x, y, label=f"{name}: ECE {100 * ece(scored[name]):.1f} %")[0]
        axes.scatter(x, y, s=[20 + 400 * s for s in share], color=line.get_color(), alpha=0.5)
    axes.set_xlabel("confidence (a dot's size is the share of the words)")
    axes.set_ylabel("share of these words that is right")
    axes.legend(fontsize=8)
    figure.savefig(path, format="png")


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--modes", default="default", help=f"',' between; of {', '.join(MODES)}; or all")
    parser.add_argument("--lm", help="a file of `asr lm`; default: the bundled one with the bundled model, else none")
    parser.add_argument("--no-fit", action="store_true", help="test on all speakers")
    parser.add_argument("--write", action="store_true", help="write the fitted map into the file of --model")
    parser.add_argument("--plot", metavar="PNG")
    args = parser.parse_args()
    modes = list(MODES) if args.modes == "all" else args.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"mode {unknown.pop()!r} is not known: choose among {', '.join(MODES)}")
    if args.write and (args.no_fit or not args.model):
        parser.error("--write writes a fitted map into the file of --model: give --model, and not --no-fit")

    def options(name: str) -> dict[str, Any]:
        return {"lm": args.lm or ("auto" if args.model else "bundled")} | MODES[name]

    def recognizer(name: str) -> Recognizer:
        return Recognizer(args.model, **options(name))

    clips = utterances(args)
    speakers = sorted({clip.speaker or "" for clip in clips})
    if len(speakers) < 2 and not args.no_fit:
        parser.error(f"{args.data} has one speaker: to fit on some and test on others, name them in the column speaker")
    test = [clip for clip in clips if args.no_fit or (clip.speaker or "") in speakers[1::2]]
    rest = [clip for clip in clips if (clip.speaker or "") not in speakers[1::2]]
    rows: list[dict[str, Any]] = []
    for name in () if args.no_fit else ("default", "beam without LM"):
        key, found = evidence(recognizer(name), options(name), rest)
        weights = fit(found[:, :-1], found[:, -1]).round(2).tolist()
        rows.append({"fitted": key} | dict(zip(("bias", "least", "mean", "posterior"), weights, strict=False)))
        if args.write:
            calibrate(args.model, {key: weights})
    scored = {name: score_words(recognizer(name), test, name) for name in modes}
    for name, words_ in scored.items():
        numbers = {"right": words_.right.mean(), "ece": ece(words_), "auc": auc(words_), "nce": nce(words_)}
        rows.append({"mode": name, "num_words": len(words_.right)} | {k: round(v, 4) for k, v in numbers.items()})
    if args.plot:
        plot(scored, args.plot)
    show(rows, args)


if __name__ == "__main__":
    main()
