"""CPU time and word errors beside Whisper: python benchmarks/vs_whisper.py data/dev --whisper FOLDER

Whisper runs in faster-whisper (pip install 'asr-stream[teacher]'; FOLDER: a model as it uses them), in int8. It gets
whole utterances, and encodes half of its window of 30 s for those of at most 14 s, as `asr label` does. asr-stream gets
blocks of 20 ms and also writes partials. Each has one thread; they take turns, utterance by utterance. Abbreviations
such as "Mr." are spelled as in the transcripts; numbers in digits count as errors.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from command import new_parser, progress, show, utterances
from live_wer import utterance

from asr import Recognizer
from asr.evaluation.wer import count_errors
from asr.features import SAMPLE_RATE
from asr.lm.utterances import ABBREVIATIONS
from asr.streaming.corpus.label import Teacher
from asr.text import plain_apostrophes


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--whisper", type=Path, required=True, metavar="FOLDER", help="of a faster-whisper model")
    parser.add_argument("--beam-size", default="5", metavar="N,...", help="of Whisper (5)")
    args = parser.parse_args()

    recognizer = Recognizer(args.model, num_threads=1)
    programs = {"asr-stream": lambda samples: utterance(recognizer, samples)[1]}
    for beam_size in map(int, args.beam_size.split(",")):
        teacher = Teacher(args.whisper, "en", beam_size, 1)
        programs[f"Whisper, beam of {beam_size}"] = lambda samples, teacher=teacher: teacher(samples).text
    clips = utterances(args)
    texts: dict[str, list[str]] = {name: [] for name in programs}
    cpu_s = dict.fromkeys(programs, 0.0)
    for clip in progress(clips, "recognizing"):
        samples = clip.waveform()
        for name, recognize in programs.items():
            started = time.process_time()
            text = recognize(samples)
            cpu_s[name] += time.process_time() - started
            words = re.findall("[A-Z']+", plain_apostrophes(text).upper())
            texts[name].append(" ".join(ABBREVIATIONS.get(word, word) for word in words))
    seconds = sum(len(clip.waveform()) for clip in clips) / SAMPLE_RATE
    references = [clip.text for clip in clips]
    show(
        [
            {
                "program": name,
                "wer": count_errors(references, texts[name]).rate,
                "cpu_ms_per_s": 1000 * cpu_s[name] / seconds,
                "num_utterances": len(clips),
            }
            for name in programs
        ],
        args,
    )


if __name__ == "__main__":
    main()
