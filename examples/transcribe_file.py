"""Words of an audio file with their times: python examples/transcribe_file.py talk.wav [model.onnx]"""

import sys

import soundfile

from asr import Recognizer


def main(path: str, model: str | None = None) -> None:
    stream = Recognizer(model).stream()
    for block in soundfile.blocks(path, blocksize=16000, dtype="float32", always_2d=True):
        stream.accept_waveform(block.mean(axis=1), soundfile.info(path).samplerate)
    stream.finish()
    for event in stream.events():
        if event.type == "final":
            for word in event.words:
                print(f"{word.start_s:8.2f} {word.end_s:8.2f}  {word.confidence:4.0%}  {word.word}")


if __name__ == "__main__":
    main(*sys.argv[1:])
