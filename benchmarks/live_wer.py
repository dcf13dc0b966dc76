"""Word errors of live recognition: python benchmarks/live_wer.py data/dev [--chunk-ms 640,160]

Every utterance of a data set goes through a `Recognizer` in blocks of 20 ms, like a microphone's; endpoints, language
model and rescoring are those of `asr-stream`. Counts the errors of the last partial and of the final separately, with
and without the second pass, and measures how long a final took.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from command import new_parser, progress, show, utterances

from asr import Recognizer
from asr.evaluation.wer import count_errors
from asr.features import SAMPLE_RATE
from asr.streaming import Final, Partial


def utterance(
    recognizer: Recognizer, samples: np.ndarray, sample_rate: int = SAMPLE_RATE
) -> tuple[str, str, list[float]]:
    """Texts of the last partials and of the finals, and the time that each final took in seconds."""
    block = sample_rate // 50
    stream = recognizer.stream()
    partials, finals, delays, last = [], [], [], ""
    for begin in range(0, len(samples) + block, block):
        started = time.perf_counter()
        if begin < len(samples):
            stream.accept_waveform(samples[begin : begin + block], sample_rate)
        else:
            stream.finish()
        elapsed = time.perf_counter() - started
        for event in stream.events():
            if isinstance(event, Partial):
                last = event.raw
            elif isinstance(event, Final):
                partials.append(last)
                finals.append(event.raw)
                delays.append(elapsed)
                last = ""
    return " ".join(partials), " ".join(finals), delays


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--chunk-ms", default="640", metavar="MS,...")
    parser.add_argument("--search", default="rescore", help="beam, rescore (default) or joint")
    parser.add_argument("--lm", choices=["auto", "none"], default="auto", help="none: no language model")
    args = parser.parse_args()

    clips = utterances(args)
    references = [clip.text for clip in clips]
    lm = None if args.lm == "none" else args.lm
    rows: list[dict[str, Any]] = []
    for chunk_ms in map(int, args.chunk_ms.split(",")):
        for second_pass in (False, True):
            recognizer = Recognizer(args.model, chunk_ms=chunk_ms, second_pass=second_pass, search=args.search, lm=lm)
            found = [
                utterance(recognizer, clip.waveform())
                for clip in progress(clips, f"{chunk_ms} ms, {1 + second_pass} of 2")
            ]
            partials, finals, delays = zip(*found, strict=True)
            p50, p95 = np.percentile(1000 * np.concatenate([*delays, [] if any(delays) else [np.nan]]), [50, 95])
            rows.append(
                {
                    "chunk_ms": chunk_ms,
                    "passes": 1 + second_pass,
                    "partial_wer": count_errors(references, list(partials)).rate,
                    "final_wer": count_errors(references, list(finals)).rate,
                    "final_ms_p50": p50,
                    "final_ms_p95": p95,
                    "num_utterances": len(clips),
                }
            )
    show(rows, args)


if __name__ == "__main__":
    main()
