"""Prints words as they are spoken: python examples/microphone.py [model.onnx words.lm]; Ctrl-C ends."""

import contextlib
import sys

from asr import Recognizer
from asr.streaming import Microphone


def main(model: str | None = None, lm: str = "auto") -> None:
    stream = Recognizer(model, lm=lm, chunk_ms=320).stream()
    with Microphone(rescan=True) as microphone, contextlib.suppress(KeyboardInterrupt):
        print("Listening to", microphone.device.name, flush=True)
        while True:
            microphone.read_into(stream)
            for event in stream.events():
                print(f"{event.start:7.2f}  {event.type:7}  {event.text}", flush=True)
    stream.finish()  # the last words
    for event in stream.events():
        print(f"{event.start:7.2f}  {event.type:7}  {event.text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
