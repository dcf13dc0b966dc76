"""Helpers for all commands: one-line errors, output of any characters, Ctrl-C. Standard library only."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from asr.text import NOISE_TAG_POLICIES


class Parser(argparse.ArgumentParser):
    """Prints errors on one line that refers to --help, and its description and examples with their line breaks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.formatter_class = argparse.RawDescriptionHelpFormatter

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_option(parser: argparse._ActionsContainer, name: str, default: float | str, metavar: str, help: str) -> None:
    """Declares an option with a value of the type of `default`, which ends its help."""
    parser.add_argument(name, type=type(default), default=default, metavar=metavar, help=f"{help} (%(default)s)")


def add_noise_tags(parser: argparse._ActionsContainer) -> None:
    """Declares --noise-tags of all commands that read transcripts."""
    parser.add_argument(
        "--noise-tags",
        choices=NOISE_TAG_POLICIES,
        default="drop",
        help="rows with [noise], {noise}, (laughter), <unk> or cut-off words such as w-: leave them out (drop, the "
        "default), remove these from the text (strip), or read these as words (keep)",
    )


def prepare_output() -> None:
    """Lets standard output and error accept any text: characters that their encoding lacks are escaped.

    Opens those of the three standard files that are closed, so that no other file gets their descriptors, which C
    libraries write to. A closed standard input stays None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115, as long as the process
        if hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Redirects standard output, whose reader has exited, to /dev/null, so that Python's flush at exit does not
    fail."""
    _discard(sys.stdout.fileno())


def leave_closed_terminal() -> None:
    """Redirects standard output and error to /dev/null if their terminal was closed, so that writing does not fail."""
    for number in (1, 2):
        try:
            os.get_terminal_size(number)
        except OSError as error:
            if error.errno == errno.EIO:  # other files have other errors
                _discard(number)


def explained(error: Exception) -> str:
    """The error message for users; for a system error, the file and the reason without the error number."""
    if isinstance(error, MemoryError):
        return str(error) if "memory" in str(error) else "there is not enough memory"
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if isinstance(error.filename, str) else error.strerror


def how_to_install(extra: str) -> str:
    """How to install an extra of the package, which differs between a clone and a wheel."""
    targets = {"train": "make train-tools", "export": "make train-tools", "server": "make serve"}
    in_a_clone = targets.get(extra, f"pip install -e '.[{extra}]'")
    return f"run `{in_a_clone}` in a clone, or `pip install 'WHEEL[{extra}]'` for a wheel"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"


def split_weight(text: str, name: str, most: float = sys.float_info.max) -> tuple[str, float]:
    """ "PATH*WEIGHT" -> path and weight, which defaults to 1. Raises ValueError, which calls it `name`, unless it is
    above 0 and at most `most`."""
    path, _, number = text.partition("*")
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= most:
        allowed = "above 0" if most > 1 else f"in (0, {most:g}]"
        raise ValueError(f"{text!r}: the {name} after * must be a number {allowed}")
    return path, weight


def silence_libraries() -> None:
    """Discards what this process writes to file descriptor 2.

    PortAudio and ALSA write pages to it when a device is lost or refuses a rate; libmpg123 a line for each damaged
    frame. Failures are raised as exceptions.
    """
    _discard(2)


def _discard(number: int) -> None:
    """Redirects a file descriptor to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def ending_signals() -> list[signal.Signals]:
    """The signals that ask this process to end: SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal was closed) unless
    it is ignored, as under nohup."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


@contextlib.contextmanager
def on_ending_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """In this context, all `ending_signals` call `handler`; signal.default_int_handler raises KeyboardInterrupt."""
    former = {number: signal.signal(number, handler) for number in ending_signals()}
    try:
        yield
    finally:
        for number, previous in former.items():
            signal.signal(number, previous)


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Makes processes started in this context ignore Ctrl-C from the start, so that workers print no traceback."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may change signals
        yield
        return
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
