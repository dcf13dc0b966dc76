"""`asr-stream`: live captions from the microphone, or from files.

Starts fast: nothing heavy is imported before the command line is understood, and the microphone listens while
the model is still being loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import asr

if TYPE_CHECKING:
    from asr.streaming.captions import Output
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.stream import Stream

SAMPLE = Path(asr.__file__).parent / "samples" / "sample.wav"

EPILOG = """\
examples:
  asr-stream                               captions from the default microphone; Ctrl-C ends
  asr-stream --list-devices                which microphones there are
  asr-stream --device 3 --chunk-ms 320     another microphone, text sooner, a little less accurate
  asr-stream --file talk.mp3 notes.wav     files, of any format libsndfile reads
  asr-stream --file talk.flac --json       one event per line, for programs
  asr-stream --sample                      a recording that comes with the package
  asr-stream serve                         a server for other programs and browsers; serve --help

exit status:
  0     done; also after Ctrl-C at the microphone, and when the reader of the output has gone
  1     a model, a file or the microphone cannot be used (other files are still read)
  2     the command line is wrong
  130   Ctrl-C while a file was read (143 after SIGTERM); what was heard until then is printed
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["serve"]:
        from asr.streaming.server.cli import main as serve

        return serve(argv[1:])
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return _run(args, parser)
    except BrokenPipeError:
        # Whoever read the output is done. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asr-stream",
        description="Live captions: speech from the microphone, or from files, becomes text as it is spoken.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_argument_group("source").add_mutually_exclusive_group()
    source.add_argument("--device", metavar="ID", help="microphone: a number or part of a name from --list-devices")
    source.add_argument("--file", nargs="+", metavar="PATH", help="recognise files instead")
    source.add_argument("--sample", action="store_true", help="recognise the recording that comes with the package")
    source.add_argument("--list-devices", action="store_true", help="list microphones and end")
    parser.add_argument(
        "--channel", type=int, default=1, metavar="N", help="of the microphone's channels the one to hear (default 1)"
    )
    parser.add_argument("--realtime", action="store_true", help="read files no faster than they were spoken")
    parser.add_argument("--json", action="store_true", help="one JSON event per line")
    how = parser.add_argument_group("recognition")
    how.add_argument("--model", metavar="PATH", help="a file from `asr export`; default: the bundled one")
    how.add_argument("--chunk-ms", type=int, default=640, metavar="MS", help="text appears this often (default 640)")
    how.add_argument(
        "--left-context-ms",
        type=int,
        default=2560,
        metavar="MS",
        help="how far the encoder looks back (default 2560)",
    )
    how.add_argument("--search", choices=("greedy", "beam", "rescore"), default="rescore", help="default rescore")
    how.add_argument(
        "--no-second-pass",
        dest="second_pass",
        action="store_false",
        help="do not go over each utterance once more with full context when it has ended",
    )
    how.add_argument(
        "--lm",
        default="auto",
        metavar="PATH",
        help="language model from `asr lm`, or none; default: the bundled one with the bundled model",
    )
    how.add_argument("--beam", type=int, default=128, metavar="N", help="hypotheses kept (default 128)")
    how.add_argument("--provider", choices=("cpu", "cuda"), default="cpu", help="where the model runs (default cpu)")
    parser.add_argument("--version", action="version", version=f"asr-stream {asr.__version__}")
    return parser


def _run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    interrupt = _Interrupt()
    if args.list_devices:
        return _list_devices()
    if args.file or args.sample:
        recognizer = _recognizer(args, parser)
        return 1 if recognizer is None else _files(recognizer, args, interrupt)
    return _microphone(args, parser, interrupt)


class _Interrupt:
    """Remembers the first SIGINT or SIGTERM, so that the tail can be flushed; a second one ends at once."""

    def __init__(self) -> None:
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._remember)

    def __bool__(self) -> bool:
        return self.signal != 0

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _complain(message: object) -> None:
    print(f"asr-stream: {message}", file=sys.stderr, flush=True)


def _recognizer(args: argparse.Namespace, parser: argparse.ArgumentParser) -> Recognizer | None:
    """None when the model cannot be used; what is wrong has then been said."""
    from asr.lm import LmError
    from asr.onnx_model import ModelError
    from asr.streaming.recognizer import Recognizer

    try:
        return Recognizer(
            args.model,
            chunk_ms=args.chunk_ms,
            left_context_ms=args.left_context_ms,
            search=args.search,
            second_pass=args.second_pass,
            lm=None if args.lm == "none" else args.lm,
            beam_size=args.beam,
            provider=args.provider,
        )
    except (ModelError, LmError) as error:
        _complain(error)
        return None
    except ValueError as error:
        parser.error(str(error))


def _show(stream: Stream, output: Output) -> None:
    for event in stream.events():
        output.show(event)


def _files(recognizer: Recognizer, args: argparse.Namespace, interrupt: _Interrupt) -> int:
    from asr.streaming.audio_file import read_blocks
    from asr.streaming.captions import open_output

    paths = [str(SAMPLE)] if args.sample else args.file
    status = 0
    with open_output(sys.stdout, args.json) as output:
        for path in paths:
            if interrupt:
                break
            if len(paths) > 1:
                output.begin(path)
            stream = recognizer.stream()
            started = time.monotonic()
            trouble = ""
            try:
                for samples, sample_rate in read_blocks(path):
                    stream.accept_waveform(samples, sample_rate)
                    _show(stream, output)
                    if args.realtime:
                        time.sleep(max(0.0, started + stream.sample_offset / 16000 - time.monotonic()))
                    if interrupt:
                        break
            except ValueError as error:  # the file's, or a sample rate that the stream refuses
                trouble = str(error)
                status = 1
            stream.finish()
            if trouble:
                stream.report_error(trouble)
            _show(stream, output)
    return 128 + interrupt.signal if interrupt else status


def _microphone(args: argparse.Namespace, parser: argparse.ArgumentParser, interrupt: _Interrupt) -> int:
    from asr.streaming.captions import open_output
    from asr.streaming.microphone import Microphone, MicrophoneError

    _silence_sound_libraries()
    device = int(args.device) if args.device and args.device.isdigit() else args.device
    try:
        microphone = Microphone(device, rescan=True, channel=args.channel)
    except MicrophoneError as error:
        _complain(error)
        print(f"Without a microphone, try the bundled recording:\n  asr-stream --file {SAMPLE}", file=sys.stderr)
        return 1
    with microphone:
        if sys.stderr.isatty():
            print(f"Listening on {microphone.device.name} ... Ctrl-C ends", file=sys.stderr, flush=True)
        recognizer = _recognizer(args, parser)
        if recognizer is None:
            return 1
        stream = recognizer.stream()
        with open_output(sys.stdout, args.json) as output:
            while not interrupt:
                microphone.read_into(stream)
                _show(stream, output)
            microphone.close()
            while microphone.read_into(stream):
                _show(stream, output)
            stream.finish()
            _show(stream, output)
    return 0


def _silence_sound_libraries() -> None:
    """PortAudio and ALSA write pages to file descriptor 2 when a device is lost or refuses a rate, in the
    middle of captions. Python's own messages keep their way out; what fails is raised as an exception."""
    sys.stderr.flush()
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _list_devices() -> int:
    from asr.streaming.microphone import MicrophoneError, list_devices

    _silence_sound_libraries()
    try:
        devices = list_devices()
    except MicrophoneError as error:
        _complain(error)
        return 1
    for device in devices:
        mark = "*" if device.is_default else " "
        print(
            f"{mark} {device.index:3}  {device.name}  ({device.host_api}, {device.num_channels} channels, "
            f"{device.default_sample_rate} Hz)"
        )
    if not devices:
        _complain("there is no microphone: PortAudio finds no input device")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
