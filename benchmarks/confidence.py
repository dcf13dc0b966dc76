"""Calibrates and measures word confidences: python benchmarks/confidence.py data/dev [--plot PNG]

The map from the probabilities of a word's tokens to the probability that it is right is fitted on every second speaker
(csrc/calibration.h has it for the bundled models, `--write` writes it into the file of --model) and tested on the
others: a reliability curve, the expected calibration error over ten bins (ECE; Naeini et al. 2015), the area under the
ROC curve (AUC: probability that a right word has a higher confidence than a wrong one), and normalized cross entropy
(NCE: 0 is as good as the share of right words).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from command import encode_whole, new_parser, progress, recognize, show, utterances, word_tokens

from asr import Recognizer
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import matched_words
from asr.export.calibrate import calibrate
from asr.runtime.search import decode, phone_words, words

NUM_BINS = 10
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


def token_evidence(recognizer: Recognizer, clips: Sequence[Any]) -> Iterator[tuple[float, float, float, float]]:
    """For each word of finals: 1, its least certain token, the mean of its tokens, and whether it is right."""
    onnx, decoder = recognizer.onnx, recognizer.attention_decoder
    for clip in progress(clips, "fit"):
        encoded, fusion = encode_whole(onnx, clip.waveform()), recognizer.fusion
        if fusion and fusion.over_phones:
            best = decode(encoded.phone_log_probs, "beam", recognizer.beam_size, fusion=fusion)
            found, tokens = phone_words(best, fusion, encoded.log_probs, onnx.tokens), fusion.tokens
        else:
            best = decode(
                encoded.log_probs,
                recognizer.search,
                recognizer.beam_size,
                lambda tokens, encoder_out=encoded.encoder_out: decoder.score(tokens, encoder_out),
                onnx.metadata.rescore_ctc_weight,
                fusion,
            )
            found, tokens = words(best, onnx.tokens), onnx.tokens
        right = is_right(clip, [word.word for word in found])
        groups = word_tokens(best.tokens, tokens)
        if len(groups) != len(right):  # an out-of-vocabulary word for which there were no letters
            continue
        for places, flag in zip(groups, right, strict=True):
            certain = [best.confidences[place] for place in places]
            yield 1.0, min(certain), float(np.mean(certain)), flag


def calibration_key(recognizer: Recognizer) -> str:
    """The metadata key of the confidence map that this recognizer uses."""
    if recognizer.fusion and recognizer.fusion.over_phones:
        return "confidence_with_phones"
    return "confidence_with_lm" if recognizer.language_model else "confidence_without_lm"


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

    def recognizer(name: str) -> Recognizer:
        return Recognizer(args.model, **({"lm": args.lm} if args.lm else {}) | MODES[name])

    clips = utterances(args)
    speakers = sorted({clip.speaker or "" for clip in clips})
    if len(speakers) < 2 and not args.no_fit:
        parser.error(f"{args.data} has one speaker: to fit on some and test on others, name them in the column speaker")
    test = [clip for clip in clips if args.no_fit or (clip.speaker or "") in speakers[1::2]]
    rest = [clip for clip in clips if (clip.speaker or "") not in speakers[1::2]]
    rows: list[dict[str, Any]] = []
    for name in () if args.no_fit else ("default", "beam without LM"):
        fitted = recognizer(name)
        evidence = np.array(list(token_evidence(fitted, rest)))
        weights = fit(evidence[:, :3], evidence[:, 3]).round(2).tolist()
        rows.append({"fitted": name} | dict(zip(("bias", "least", "mean"), weights, strict=True)))
        if args.write:
            calibrate(args.model, {calibration_key(fitted): weights})
    scored = {name: score_words(recognizer(name), test, name) for name in modes}
    for name, words_ in scored.items():
        numbers = {"right": words_.right.mean(), "ece": ece(words_), "auc": auc(words_), "nce": nce(words_)}
        rows.append({"mode": name, "num_words": len(words_.right)} | {k: round(v, 4) for k, v in numbers.items()})
    if args.plot:
        plot(scored, args.plot)
    show(rows, args)


if __name__ == "__main__":
    main()
