"""`asr-stream`: live captions from the microphone or from files.

Starts fast: nothing heavy is imported before the command line is parsed, and the microphone already records while the
model is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import asr
from asr._core import StreamFailed
from asr.command import (
    Parser,
    discard_output,
    ending_signals,
    explained,
    leave_closed_terminal,
    prepare_output,
    silence_libraries,
)
from asr.cores import share_cores
from asr.streaming.terminal.arguments import new_parser, parse
from asr.streaming.terminal.options import print_error, recognizer_or_error

if TYPE_CHECKING:
    from asr.streaming.audio.microphone import Microphone
    from asr.streaming.recognizer import Recognizer
    from asr.streaming.terminal.live import Live
    from asr.streaming.terminal.output import Output
    from asr.streaming.terminal.stats import Stats

T = TypeVar("T")
SAMPLE = Path(asr.__file__).parent / "samples" / "sample.wav"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    try:
        return _command(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130


def _command(argv: Sequence[str]) -> int:
    prepare_output()
    share_cores()
    try:
        return _run(argv)
    except BrokenPipeError:
        discard_output()
        return 0
    except MemoryError as error:
        print_error(explained(error))
    except StreamFailed as failure:
        from asr.runtime.onnx_model import ModelError

        if not isinstance(failure.__cause__, (ModelError, MemoryError)):
            raise
        print_error(explained(failure.__cause__))
    return 1


def _run(argv: Sequence[str]) -> int:
    if argv[:1] == ["serve"]:
        from asr.streaming.server.cli import main as serve

        return serve(argv[1:])
    if argv[:1] == ["toggle"]:
        from asr.streaming.terminal.toggle import main as toggle

        return toggle(argv[1:])
    parser = new_parser()
    args = parse(parser, argv)
    from asr.streaming.terminal.output import OutputError

    try:
        return _recognize(args, parser)
    except OutputError as error:
        print_error(error)
        return 1


def _recognize(args: argparse.Namespace, parser: Parser) -> int:
    interrupt = _Interrupt()
    with _libraries_silenced():
        if args.list_devices:
            return _list_devices(interrupt)
        if args.file or args.sample:
            recognizer = recognizer_or_error(args, parser)
            return 1 if recognizer is None else _files(recognizer, args, interrupt)
        return _microphone(args, parser, interrupt)


PATIENCE_S = 10.0
"""Seconds in which a sound system should answer."""


class _Interrupt:
    """Stores the first termination signal, so that the last words are still recognized. A second one exits
    immediately, but for SIGHUP, which both the shell and the kernel send when a terminal is closed."""

    def __init__(self) -> None:
        self.signal = 0
        self._numbers = ending_signals()
        for number in self._numbers:
            signal.signal(number, self._remember)

    def __bool__(self) -> bool:
        return self.signal != 0

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        leave_closed_terminal()
        for other in self._numbers:
            signal.signal(other, signal.default_int_handler if other == signal.SIGINT else signal.SIG_DFL)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _files(recognizer: Recognizer, args: argparse.Namespace, interrupt: _Interrupt) -> int:
    from asr.cores import num_cores
    from asr.streaming.audio.audio_file import duration_s
    from asr.streaming.audio.open_file import STDIN
    from asr.streaming.terminal.files import Reading, Transcriber, show_files

    paths = [str(SAMPLE)] if args.sample else args.file
    realtime = args.realtime or (args.sample and sys.stdout.isatty())  # shows that it streams
    live = realtime or paths == [STDIN]
    reading = Reading(args.raw_rate, args.channel or "mix", realtime, args.start, args.duration)
    with _output(args, of_files=not live) as output:
        transcriber = Transcriber(
            recognizer,
            paths,
            1 if realtime else args.jobs or num_cores(),
            interrupt.__bool__,
            reading=reading,
            wants_partials=output.wants_partials and (live or "json" in args.format),
        )
        shows_progress = output.captions and not live
        total_s = None
        if shows_progress:
            lengths_s = [duration_s(path, args.raw_rate) for path in paths if Path(path).is_file()]
            total_s = sum(map(reading.read_s, lengths_s)) if all(lengths_s) else 0.0
        with transcriber:
            stats = show_files(transcriber, output, total_s, args.stats)
    _print_stats(args, stats)
    if interrupt:
        return 128 + interrupt.signal
    return int(output.failed or any(each.error for each in transcriber.transcriptions))


def _microphone(args: argparse.Namespace, parser: Parser, interrupt: _Interrupt) -> int:
    from asr.streaming.audio.microphone import MicrophoneError
    from asr.streaming.terminal.toggle import ToggleError
    from asr.streaming.terminal.typing_tools import TypingError

    with contextlib.ExitStack() as stack:
        try:
            run = _dictation if args.type else _captions
            return run(args, parser, interrupt, stack)
        except (TypingError, ToggleError) as error:
            print_error(error)
        except MicrophoneError as error:
            print_error(error)
            if args.device is None and args.channel is None and not args.system_audio:
                print("Without a microphone, try the bundled recording:  asr-stream --sample", file=sys.stderr)
    return 1


def _captions(args: argparse.Namespace, parser: Parser, interrupt: _Interrupt, stack: contextlib.ExitStack) -> int:
    begun_ns = time.monotonic_ns()
    opened: list[tuple[str, Microphone]] = []
    if not args.system_audio or args.microphone:
        opened.append(("me", stack.enter_context(_open_microphone(args, interrupt))))
    if args.system_audio:
        from asr.streaming.audio.system_audio import SystemAudio

        opened.append(("others", stack.enter_context(SystemAudio())))
    _tell("Listening on " + " and ".join(microphone.device.name for _, microphone in opened) + " ... Ctrl-C ends")
    recognizer = recognizer_or_error(args, parser)
    if recognizer is None:
        return 1
    from asr.streaming.terminal.live import Live, Source

    several = len(opened) > 1
    sources = [
        Source(microphone, recognizer.stream(), label if several else "", may_be_silent=label == "others")
        for label, microphone in opened
    ]
    from asr.streaming.terminal.echo import Echoes

    echoes = Echoes() if several and not args.keep_echo else None
    return _live(lambda output: Live(sources, output, args.stats, begun_ns, echoes), args, interrupt)


def _dictation(args: argparse.Namespace, parser: Parser, interrupt: _Interrupt, stack: contextlib.ExitStack) -> int:
    from asr.streaming.terminal.toggle import Switch
    from asr.streaming.terminal.typing_tools import find_tool

    tool = find_tool(args.type)
    switch = stack.enter_context(Switch(not args.paused))
    microphone = None if args.paused else stack.enter_context(_open_microphone(args, interrupt))
    _tell(
        f"{'Paused' if args.paused else 'Listening'}; {tool.name} types into the focused window; asr-stream toggle "
        "switches it on and off; Ctrl-C ends"
    )
    recognizer = recognizer_or_error(args, parser)
    if recognizer is None:
        return 1
    from asr.streaming.terminal.dictation import Dictation
    from asr.streaming.terminal.live import Source
    from asr.streaming.terminal.typing_thread import TypingThread

    def new_live(output: Output) -> Live:
        source = Source(microphone, recognizer.stream())
        reopen = partial(_open_microphone, args, interrupt)
        return Dictation(source, reopen, switch, TypingThread(tool), output, args.stats)

    return _live(new_live, args, interrupt)


def _open_microphone(args: argparse.Namespace, interrupt: _Interrupt) -> Microphone:
    from asr.streaming.audio.microphone import Microphone, device_of, list_devices

    channel, device = 1 if args.channel is None else args.channel, device_of(args.device)
    microphone = _answered(lambda: Microphone(device, rescan=True, channel=channel), interrupt)
    if isinstance(device, int):
        name = microphone.device.name
        is_only = [other.name for other in list_devices()].count(name) == 1
        args.device = name if is_only else args.device  # numbers change when PortAudio looks for devices again
    return microphone


def _live(new_live: Callable[[Output], Live], args: argparse.Namespace, interrupt: _Interrupt) -> int:
    with _output(args) as output:
        live = new_live(output)
        while not interrupt:
            live.step()
        live.finish()
    _print_stats(args, live.stats)  # the status line has been removed
    return int(output.failed)


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _output(args: argparse.Namespace, of_files: bool = False) -> Output:
    from asr.streaming.terminal.output import Output

    return Output(args.format, args.output, of_files, args.existing, args.layout)


def _print_stats(args: argparse.Namespace, stats: Stats) -> None:
    if args.stats:
        print(stats.summary(), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _libraries_silenced() -> Iterator[None]:
    """Keeps messages of C libraries out of the captions. Python's messages are still written."""
    ours, kept = sys.stderr, os.dup(2)
    ours.flush()
    with contextlib.suppress(OSError):  # in tests, it is not a file
        if ours.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    silence_libraries()
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        sys.stderr = ours


def _answered(ask: Callable[[], T], interrupt: _Interrupt) -> T:
    """What `ask` gets from the sound system, which may hang: Ctrl-C ends the wait."""
    from asr.streaming.audio.capture import skip_cleanup_at_exit
    from asr.streaming.audio.reporting_thread import run_apart

    deadline = time.monotonic() + PATIENCE_S

    def wait() -> None:
        nonlocal deadline
        if interrupt:
            skip_cleanup_at_exit()
            sys.exit(128 + interrupt.signal)
        if time.monotonic() >= deadline:
            deadline = math.inf
            print_error(f"the sound system has not answered for {PATIENCE_S:g} s; still waiting, Ctrl-C ends")

    return run_apart("sound-system", ask, wait)


def _list_devices(interrupt: _Interrupt) -> int:
    from asr.streaming.audio.microphone import MicrophoneError, list_devices

    try:
        devices = _answered(list_devices, interrupt)
    except MicrophoneError as error:
        print_error(error)
        return 1
    for device in devices:
        mark = "*" if device.is_default else " "
        print(
            f"{mark} {device.index:3}  {device.name}  ({device.host_api}, {device.num_channels} channels, "
            f"{device.default_sample_rate} Hz)"
        )
    if not devices:
        print_error("there is no microphone: PortAudio finds no input device")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
