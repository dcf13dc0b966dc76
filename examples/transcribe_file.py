"""Words of an audio file with their times: python examples/transcribe_file.py talk.wav [model.onnx words.lm]"""

import sys

from asr import Recognizer
from asr.streaming import Stream, read_blocks


def show(stream: Stream) -> None:
    for event in stream.events():
        if event.type == "final":
            for word in event.words:
                print(f"{word.start:8.2f} {word.end:8.2f}  {word.confidence:4.0%}  {word.word}", flush=True)


def main(path: str, model: str | None = None, lm: str = "auto") -> None:
    stream = Recognizer(model, lm=lm).stream()
    for samples, sample_rate in read_blocks(path):
        stream.accept_waveform(samples, sample_rate)
        show(stream)  # finals come at the ends of utterances, partials (event.type) with every chunk
    stream.finish()
    show(stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
