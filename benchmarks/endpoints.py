"""Evaluates endpoint rules: python benchmarks/endpoints.py data/dev [--silence-ms 500-1600,800,1200]

The utterances of each speaker are concatenated with their own silence, so that pauses are those of reading. For each
rule:

- found: utterances whose end was an endpoint (within 1.5 s of it). The others run into the next one.
- cut: utterances split by an endpoint: the reader paused within a sentence.
- forced in a word: endpoints by length that are within a word of the forced alignment, by more than a frame on either
  side.
- wait: from the end of the last word of the alignment to the final, for the utterances found. `--pause-s` adds noise
  after each utterance, as quiet as its quietest part; otherwise the next one would begin before.
- WER of the finals, and how long they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
from command import aligned_words, new_parser, progress, show, timed_events, utterances

from asr import Recognizer
from asr.evaluation.wer import count_errors
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import Word
from asr.streaming import Final

MARGIN_S = 0.06  # more than a frame, which is the resolution of times
NEAR_S = 1.5
BLOCK = 640  # samples


def room_tone(samples: np.ndarray, seconds: float) -> np.ndarray:
    """Noise at the level of the quietest 5 % of `samples`."""
    frames = samples[: len(samples) // 400 * 400].reshape(-1, 400)
    level = np.percentile(np.sqrt((frames**2).mean(1)), 5)
    return np.random.default_rng(0).normal(0, level, int(16000 * seconds)).astype(np.float32)


def by_speaker(clips: Iterable[Any]) -> list[list[Any]]:
    """The utterances of each speaker, in order."""

    def speaker(clip: Any) -> str:
        return str(clip.speaker)

    return [list(group) for _, group in groupby(sorted(clips, key=speaker), speaker)]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--aligner", help="an exported float32 model to align with; default: the bundled one")
    parser.add_argument("--silence-ms", default="500-1600,500,800,1200", metavar="MS-MS,...", help="bounds; one: fixed")
    parser.add_argument(
        "--pause-s", type=float, default=0.0, metavar="S", help="noise after each utterance (default 0)"
    )
    parser.add_argument("--max-utterance-s", default="20", metavar="S,...")
    parser.add_argument("--no-punctuation", action="store_true", help="without the punctuation network")
    args = parser.parse_args()

    aligner = OnnxModel(args.aligner or bundled_model("float32"))
    readings: list[tuple[np.ndarray, list[Word], list[tuple[float, float]], str]] = []
    for group in by_speaker(utterances(args)):
        spoken: list[Word] = []
        pieces: list[np.ndarray] = []
        spans: list[tuple[float, float]] = []
        texts: list[str] = []
        start_s = 0.0
        for clip in group:
            samples = clip.waveform()
            aligned = aligned_words(aligner, samples, clip.text)
            spoken += [Word(w.word, w.start + start_s, w.end + start_s, w.confidence) for w in aligned]
            spans.append((start_s + aligned[0].start, start_s + aligned[-1].end))
            pieces += [samples, room_tone(samples, args.pause_s)]
            texts.append(clip.text)
            start_s += len(samples) / 16000 + args.pause_s
        readings.append((np.concatenate(pieces), spoken, spans, " ".join(texts)))

    rows = []
    for max_s in map(float, args.max_utterance_s.split(",")):
        for silence_ms in args.silence_ms.split(","):
            recognizer = Recognizer(
                args.model,
                chunk_ms=160,
                punctuation=None if args.no_punctuation else "auto",
                second_pass=False,
                silence_after_speech_s=float(silence_ms.split("-")[-1]) / 1000,
                min_silence_after_speech_s=float(silence_ms.split("-")[0]) / 1000,
                max_utterance_s=max_s,
            )
            found = cut_in_two = num_cuts = forced = forced_in_word = 0
            waits: list[float] = []
            lengths: list[float] = []
            hypotheses = []
            for samples, spoken, spans, _ in progress(readings, f"{silence_ms} ms"):
                timed = [(e, time) for time, e in timed_events(recognizer, samples, BLOCK) if isinstance(e, Final)]
                finals = [final for final, _ in timed]
                ended = [final for final in finals if final.endpoint != "end_of_audio"]
                arrivals = [(final.end, time) for final, time in timed if final.endpoint != "end_of_audio"]
                num_cuts += len(ended)
                forced += sum(final.endpoint == "max_utterance" for final in ended)
                lengths += [final.end - final.start for final in finals]
                hypotheses.append(" ".join(final.raw for final in finals))
                for begin, end in spans:
                    near = [time for final_end, time in arrivals if abs(final_end - end) < NEAR_S and time > end]
                    found += bool(near)
                    waits += [near[-1] - end] if near else []
                    cut_in_two += any(begin < final.end < end - NEAR_S for final in ended)
                for final in ended:
                    within = any(w.start + MARGIN_S < final.end < w.end - MARGIN_S for w in spoken)
                    forced_in_word += final.endpoint == "max_utterance" and within
            total = sum(len(spans) for _, _, spans, _ in readings)
            rows.append(
                {
                    "silence_ms": silence_ms,
                    "max_utterance_s": max_s,
                    "found": found / total,
                    "cut": cut_in_two / total,
                    "endpoints": num_cuts,
                    "forced": forced,
                    "forced_in_word": forced_in_word,
                    "wait_s_p50": float(np.median(waits or [np.nan])),
                    "wait_s_p95": float(np.percentile(waits or [np.nan], 95)),
                    "wer": count_errors([text for *_, text in readings], hypotheses).rate,
                    "final_s_p50": float(np.median(lengths)),
                    "final_s_max": max(lengths),
                }
            )
    show(rows, args)


if __name__ == "__main__":
    main()
