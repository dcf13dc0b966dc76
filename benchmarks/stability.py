"""Stability and delay of partials: python benchmarks/stability.py data/dev [--plot PNG]

Every utterance goes through a `Recognizer` in blocks of 40 ms. For the words in partials, for each chunk size:

- changed: share of the shown words that a later partial changes (the unstable partial word ratio of Shangguan et al.
  2020, "Analyzing the quality and stability of a streaming end-to-end on-device speech recognizer"). The growth of an
  incomplete word is a change, too.
- stable: the same for words that a partial called stable (`Partial.num_stable`), their share of all words, and the
  share that the final changes, after the second pass and from one pass.
- delay: position of the audio when a right word was first shown for good, relative to the word's end in the forced
  alignment of the transcript; and when it was called stable. Computing time is not included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from command import aligned_words, new_parser, progress, show, timed_events, utterances

from asr import Recognizer
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import matched_words
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.streaming import Event, Final, Partial

BLOCK = 640  # samples


@dataclass
class Shown:
    """A word at its position, shown since `shown_s` of audio; `stable_s` if it was called stable."""

    word: str
    shown_s: float
    stable_s: float | None = None


@dataclass
class Tally:
    """Counts of what partials showed and changed."""

    shown: int = 0
    changed: int = 0
    stable: int = 0
    stable_changed: int = 0
    stable_not_in_final: int = 0
    shown_delays: list[float] = field(default_factory=list)
    stable_delays: list[float] = field(default_factory=list)


def follow(events: Iterable[tuple[float, Event]], tally: Tally) -> list[Shown]:
    """Counts what the partials among `events`, each with its time, show and change; returns the final words."""
    ended: list[Shown] = []
    now: list[Shown] = []
    for time, event in events:
        if isinstance(event, Final):
            kept = {place for place, _ in matched_words([item.word for item in now], event.raw.split())}
            stable = [place for place, item in enumerate(now) if item.stable_s is not None]
            tally.stable_not_in_final += len(set(stable) - kept)
            ended, now = ended + now, []
        if not isinstance(event, Partial):
            continue
        found = event.raw.split()
        alike = 0
        while alike < min(len(found), len(now)) and found[alike] == now[alike].word:
            alike += 1
        tally.changed += len(now) - alike
        tally.stable_changed += sum(item.stable_s is not None for item in now[alike:])
        tally.shown += len(found) - alike
        now = now[:alike] + [Shown(word, time) for word in found[alike:]]
        for item in now[: event.num_stable]:
            if item.stable_s is None:
                item.stable_s = time
                tally.stable += 1
    return ended + now


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--aligner", help="an exported float32 model to align with; default: the bundled one")
    parser.add_argument("--chunk-ms", default="160,320,640,1280", metavar="MS,...")
    parser.add_argument("--one-pass", action="store_true", help="finals of one pass only: half the time")
    parser.add_argument("--plot", metavar="PNG")
    args = parser.parse_args()

    aligner = OnnxModel(args.aligner or bundled_model("float32"))
    clips = utterances(args)
    truths = []
    for clip in progress(clips, "alignment"):
        truths.append(aligned_words(aligner, clip.waveform(), clip.text))
    num_words = sum(map(len, truths))

    rows: list[dict[str, Any]] = []
    for chunk_ms in map(int, args.chunk_ms.split(",")):
        revised = {}
        for second_pass in (False,) if args.one_pass else (False, True):
            recognizer = Recognizer(args.model, chunk_ms=chunk_ms, second_pass=second_pass, text="plain")
            tally = Tally()
            name = f"{chunk_ms} ms, {1 + second_pass}"
            for clip, truth in zip(progress(clips, name), truths, strict=True):
                stood = follow(timed_events(recognizer, clip.waveform(), BLOCK), tally)
                for i, j in matched_words([word.word for word in truth], [item.word for item in stood]):
                    tally.shown_delays.append(1000 * (stood[j].shown_s - truth[i].end))
                    stable_s = stood[j].stable_s
                    if stable_s is not None:
                        tally.stable_delays.append(1000 * (stable_s - truth[i].end))
            revised[second_pass] = tally.stable_not_in_final / max(tally.stable, 1)
        row: dict[str, Any] = {"chunk_ms": chunk_ms, "changed": tally.changed / max(tally.shown, 1)}
        row |= {"stable_changed": tally.stable_changed / max(tally.stable, 1), "stable": tally.stable / num_words}
        row |= {f"final_differs_{1 + passes}": share for passes, share in revised.items()}
        for kind, delays in (("shown", tally.shown_delays), ("stable", tally.stable_delays)):
            p50, p95 = np.percentile(delays or [np.nan], [50, 95])
            row |= {f"{kind}_ms_p50": p50, f"{kind}_ms_p95": p95}
        rows.append({key: round(value, 4) for key, value in row.items()})
    if args.plot:
        plot(rows, args.plot)
    show(rows, args)


def plot(rows: list[dict[str, Any]], path: str) -> None:
    figure, axes = new_axes(6.5, 4.5)
    for kind, label in (("shown", "shown for good"), ("stable", "called stable")):
        delays = [[row[f"{kind}_ms_{p}"] for row in rows] for p in ("p50", "p95")]
        line = axes.plot(range(len(rows)), delays[0], marker="o", label=f"{label}, median")[0]
        axes.plot(range(len(rows)), delays[1], ":", marker="o", color=line.get_color(), label=f"{label}, p95")
    labels = [
        f"{row['chunk_ms']} ms\n{row['changed']:.0%} changed\nof stable {row['stable_changed']:.1%}" for row in rows
    ]
    axes.set_xticks(range(len(rows)), labels)
    axes.set_xlabel("chunk, and share of the words shown that a later partial has otherwise")
    axes.set_ylabel("ms of audio after the word's end")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, format="png")


if __name__ == "__main__":
    main()
