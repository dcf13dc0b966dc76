"""Errors of word times: python benchmarks/word_times.py data/dev [--num-utterances N]

Start and end of the right words in finals, compared with three references:

- forced: the forced alignment (command.aligned) of the transcript with the float32 model in full context, with words
  made from tokens as in recognition; `tokens` uses a word's first and last token directly. It shares the model's bias,
  and shows the effect of chunks, int8 and the search on the times.
- pauses: words next to a pause of the recording must end and begin where its energy does.
- festival: sentences of the data set spoken by a synthesizer, which reports the times of its words (Debian: festival,
  festvox-kallpc16k, festvox-kdlpc16k). The first lines compare it with the forced alignment itself, with tokens as they
  are.

`align` is `asr align` with the transcript. Its first and last quarter are the words of the joined utterances, compared
with those of each utterance alone: a difference between the two quarters would be drift.

Bias is the median difference (above 0: too late); then come the median and the 95th percentile of the absolute one.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from command import aligned, new_parser, progress, recognize, show, utterances, word_tokens

from asr import Recognizer, align
from asr.data.speech import Clip, evenly_spread
from asr.evaluation.wer import matched_words
from asr.features import ENCODER_FRAME_S
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import Word, words

VOICES = ("kal_diphone", "ked_diphone")
MIN_PAUSE_S, MAX_MISS_S = 0.2, 0.4
SHARE = 0.35  # threshold between quiet and loud, in dB, at which sound begins

Times = list[tuple[str, float, float]]
Differences = dict[tuple[str, str], list[float]]
"""Differences in ms, by reference and edge."""


def aligned_times(aligner: OnnxModel, samples: np.ndarray, text: str) -> tuple[Times, Times]:
    """Forced alignment of `text`: words made as in recognition, and words from first to last token."""
    found = aligned(aligner, samples, text)
    as_words = [(word.word, word.start, word.end) for word in words(found, aligner.tokens)]
    places = word_tokens(found.tokens, aligner.tokens)
    as_tokens = [
        (word, ENCODER_FRAME_S * found.start_frames[place[0]], ENCODER_FRAME_S * found.end_frames[place[-1]])
        for (word, _, _), place in zip(as_words, places, strict=True)
    ]
    return as_words, as_tokens


def pauses(samples: np.ndarray) -> list[tuple[float, float]]:
    """Begin and end in seconds of the parts of `samples` (16 kHz) that are quiet for at least MIN_PAUSE_S."""

    frames = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    level = np.convolve(10 * np.log10((frames**2).mean(1) + 1e-9), np.ones(3) / 3, "same")
    low, high = np.percentile(level, [5, 90])
    quiet = np.concatenate([[False], level < low + SHARE * (high - low), [False]])
    edges = np.flatnonzero(quiet[1:] != quiet[:-1]).reshape(-1, 2) / 100
    return [(begin, end) for begin, end in edges.tolist() if end - begin >= MIN_PAUSE_S]


def next_to_pauses(found: list[Word], samples: np.ndarray, into: Differences) -> None:
    """Compares words with the edges of the pauses next to them."""
    for begin, end in pauses(samples):
        before = [w.end - begin for w in found if (w.start + w.end) / 2 < begin]
        after = [w.start - end for w in found if (w.start + w.end) / 2 > end]
        into["pauses", "end"] += [1000 * d for d in before[-1:] if abs(d) < MAX_MISS_S]
        into["pauses", "start"] += [1000 * d for d in after[:1] if abs(d) < MAX_MISS_S]


def compare(found: list[Word], truth: Times, name: str, into: Differences) -> None:
    for i, j in matched_words([word for word, _, _ in truth], [word.word for word in found]):
        into.setdefault((name, "start"), []).append(1000 * (found[j].start - truth[i][1]))
        into.setdefault((name, "end"), []).append(1000 * (found[j].end - truth[i][2]))


def festival(texts: Iterable[str], voice: str) -> list[tuple[np.ndarray, Times]]:
    """Synthesizes `texts`: 16 kHz samples, and the words with their times."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"(voice_{voice})"]
        for number, text in enumerate(texts):
            lines += [
                f'(set! u (utt.synth (Utterance Text "{text.lower()}")))',
                f'(utt.save.wave u "{folder}/{number}.wav" \'riff)',
                f'(mapcar (lambda (w) (format t "{number} %s %f %f\\n" (item.name w) (item.feat w "word_start")',
                '  (item.feat w "word_end"))) (utt.relation.items u \'Word))',
            ]
        script = Path(folder, "speak.scm")
        script.write_text("\n".join(lines))
        done = subprocess.run(["festival", "-b", str(script)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"festival cannot speak as {voice}: {done.stderr.strip()}\nChoose others with --voices")
        times: dict[int, Times] = {}
        for line in done.stdout.splitlines():
            number_, word, start, end = line.split()
            times.setdefault(int(number_), []).append((word.upper(), float(start), float(end)))
        spoken = []
        for number, truth in times.items():
            samples, rate = soundfile.read(f"{folder}/{number}.wav", dtype="float32")
            spoken.append((soxr.resample(samples, rate, 16000).astype(np.float32), truth))
        return spoken


def known_words(recognizer: Recognizer, samples: np.ndarray, text: str) -> list[Word]:
    """The words of a known text by `asr align`."""
    found = align(samples, text, recognizer).words
    return [Word(word.text, word.start, word.end, 1.0) for word in found if word.start is not None and word.end]


def alignments(clips: list[Clip], synthetic: list[tuple[np.ndarray, Times]]) -> list[dict[str, Any]]:
    recognizer = Recognizer()
    differences: Differences = {(truth, edge): [] for truth in ("pauses", "festival") for edge in ("start", "end")}
    alone: list[Times] = []
    waveforms = [clip.waveform() for clip in clips]
    for clip, samples in zip(progress(clips, "align"), waveforms, strict=True):
        found = known_words(recognizer, samples, clip.text)
        next_to_pauses(found, samples, differences)
        alone.append([(word.word, word.start, word.end) for word in found])
    for samples, truth in synthetic:
        found = known_words(recognizer, samples, " ".join(word for word, _, _ in truth))
        compare(found, truth, "festival", differences)
    text = "\n\n".join(clip.text for clip in clips)
    joined = align(np.concatenate(waveforms), text, recognizer).words
    quarter = len(clips) // 4
    begin_s = 0.0
    for number, (samples, truth) in enumerate(zip(waveforms, alone, strict=True)):
        words = [(w.text, w.start - begin_s, w.end - begin_s) for w in joined if w.paragraph == number and w.start]
        name = "first quarter" if number < quarter else "last quarter" if number >= len(clips) - quarter else "middle"
        compare([Word(*times, 1.0) for times in words], truth, name, differences)
        begin_s += len(samples) / 16000
    return summary("align", differences)


def summary(how: str, differences: Differences) -> list[dict[str, Any]]:
    rows = []
    for (truth, edge), values in differences.items():
        bias, (median, p95) = np.median(values or [np.nan]), np.percentile(np.abs(values or [np.nan]), [50, 95])
        row = {"how": how, "truth": truth, "edge": edge, "num_words": len(values)}
        rows.append(row | {"bias_ms": round(bias, 1), "median_ms": round(median, 1), "p95_ms": round(p95, 1)})
    return rows


def main() -> None:
    parser = new_parser(__doc__, model="default: the bundled one; it is aligned with the bundled float32 one")
    parser.add_argument("--aligner", help="an exported float32 model to align with")
    parser.add_argument("--chunk-ms", default="640,160", metavar="MS,...")
    parser.add_argument("--num-synthetic", type=int, default=40, metavar="N", help="of each voice (default 40)")
    parser.add_argument("--voices", default=",".join(VOICES), help="of festival (default %(default)s)")
    args = parser.parse_args()

    aligner = OnnxModel(args.aligner or bundled_model("float32"))
    clips = utterances(args)
    texts = [clip.text for clip in evenly_spread(clips, min(args.num_synthetic, len(clips)))]
    synthetic = [item for voice in args.voices.split(",") for item in festival(texts, voice)]

    forced = [aligned_times(aligner, clip.waveform(), clip.text) for clip in progress(clips, "alignment")]
    plain: Differences = {("festival", "start"): [], ("festival", "end"): []}
    for samples, truth in synthetic:
        _, as_tokens = aligned_times(aligner, samples, " ".join(word for word, _, _ in truth))
        compare([Word(*times, 1.0) for times in as_tokens], truth, "festival", plain)
    rows = summary("forced, tokens", plain) + alignments(clips, synthetic)
    for chunk_ms in map(int, args.chunk_ms.split(",")):
        for second_pass in (True, False):
            recognizer = Recognizer(args.model, chunk_ms=chunk_ms, second_pass=second_pass)
            name = f"{chunk_ms} ms, {1 + second_pass} pass{'es' * second_pass}"
            differences: Differences = {
                (truth, edge): [] for truth in ("forced", "tokens", "pauses", "festival") for edge in ("start", "end")
            }
            for clip, (as_words, as_tokens) in zip(progress(clips, name), forced, strict=True):
                samples = clip.waveform()
                found = recognize(recognizer, samples)
                compare(found, as_words, "forced", differences)
                compare(found, as_tokens, "tokens", differences)
                next_to_pauses(found, samples, differences)
            for samples, truth in synthetic:
                compare(recognize(recognizer, samples), truth, "festival", differences)
            rows += summary(name, differences)
    show(rows, args)


if __name__ == "__main__":
    main()
