"""Where endpoint rules cut: python benchmarks/endpoints.py data/dev.jsonl.gz [--silence-ms 500,800,1200]

The utterances of each speaker are read one after the other as they are, with their own silence around them, so that
speech pauses as it does in reading. Of each rule:

- found: utterances whose end was an endpoint (within 1.5 s of it). The rest run into the next one.
- cut: utterances that an endpoint within cut in two: the reader paused, the sentence went on.
- in a word: endpoints that lie within a word of the forced alignment, by more than a frame on either side; those of the
  rule of length (forced) apart.
- WER of the finals, and how long they are.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from command import new_parser, progress, show, utterances

from asr import Recognizer
from asr.evaluation.alignment import forced_align
from asr.evaluation.wer import count_errors
from asr.features import fbank
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import Word
from asr.streaming import Final

MARGIN_S = 0.06  # more than a frame, which times are whole numbers of
NEAR_S = 1.5


def recognize(recognizer: Recognizer, samples: np.ndarray) -> list[Final]:
    stream = recognizer.stream()
    stream.accept_waveform(samples)
    stream.finish()
    return [event for event in stream.events() if isinstance(event, Final)]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--aligner", help="an exported float32 model to align with; default: the bundled one")
    parser.add_argument("--silence-ms", default="500,800,1200", metavar="MS,...")
    parser.add_argument("--max-utterance-s", default="20", metavar="S,...")
    args = parser.parse_args()

    aligner = OnnxModel(args.aligner or bundled_model("float32"))
    cuts = utterances(args)

    def speaker(cut: Any) -> str:
        return str(cut.supervisions[0].speaker)

    readings: list[tuple[np.ndarray, list[Word], list[tuple[float, float]], str]] = []
    for _, group in groupby(sorted(cuts, key=speaker), speaker):
        spoken: list[Word] = []
        pieces: list[np.ndarray] = []
        spans: list[tuple[float, float]] = []
        texts: list[str] = []
        start_s = 0.0
        for cut in group:
            samples = cut.load_audio()[0]
            features = fbank(samples).numpy()
            log_probs = aligner.encode(features, len(features) // 4, 0).log_probs
            aligned = forced_align(log_probs, cut.supervisions[0].text, aligner.tokens)
            spoken += [Word(w.word, w.start_s + start_s, w.end_s + start_s, w.confidence) for w in aligned]
            spans.append((start_s + aligned[0].start_s, start_s + aligned[-1].end_s))
            pieces.append(samples)
            texts.append(cut.supervisions[0].text)
            start_s += len(samples) / 16000
        readings.append((np.concatenate(pieces), spoken, spans, " ".join(texts)))

    rows = []
    for max_s in map(float, args.max_utterance_s.split(",")):
        for silence_ms in map(float, args.silence_ms.split(",")):
            recognizer = Recognizer(
                args.model,
                chunk_ms=160,
                second_pass=False,
                silence_after_speech_s=silence_ms / 1000,
                max_utterance_s=max_s,
            )
            found = cut_in_two = num_cuts = forced = 0
            in_word = {True: 0, False: 0}  # by the rule of length, or of silence
            lengths: list[float] = []
            hypotheses = []
            for samples, spoken, spans, _ in progress(readings, f"{silence_ms:g} ms"):
                finals = recognize(recognizer, samples)
                ended = [final for final in finals if final.endpoint != "end_of_audio"]
                num_cuts += len(ended)
                forced += sum(final.endpoint == "max_utterance" for final in ended)
                lengths += [final.end - final.start for final in finals]
                hypotheses.append(" ".join(final.raw for final in finals))
                for begin, end in spans:
                    found += any(abs(final.end - end) < NEAR_S for final in ended)
                    cut_in_two += any(begin < final.end < end - NEAR_S for final in ended)
                for final in ended:
                    # The rule of silence fires that much after the last word, that of length just behind it.
                    by_length = final.endpoint == "max_utterance"
                    time = final.end + (0 if by_length else silence_ms / 1000)
                    in_word[by_length] += any(w.start_s + MARGIN_S < time < w.end_s - MARGIN_S for w in spoken)
            total = sum(len(spans) for _, _, spans, _ in readings)
            rows.append(
                {
                    "silence_ms": silence_ms,
                    "max_utterance_s": max_s,
                    "found": found / total,
                    "cut": cut_in_two / total,
                    "endpoints": num_cuts,
                    "forced": forced,
                    "in_word": in_word[False],
                    "forced_in_word": in_word[True],
                    "wer": count_errors([text for *_, text in readings], hypotheses).rate,
                    "final_s_p50": float(np.median(lengths)),
                    "final_s_max": max(lengths),
                }
            )
    show(rows, args)


if __name__ == "__main__":
    main()
