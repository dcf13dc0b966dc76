"""Switches dictation on and off: by `asr-stream toggle` over the user's socket, or by SIGUSR1.

The socket, asr-stream.sock, is in $XDG_RUNTIME_DIR, which only the user can write to, and has the permissions 0600. Its
process holds a lock; a socket without a lock was left by a killed process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from asr.command import Parser
from asr.streaming.terminal.options import print_error

ANSWER_S = 30.0
"""A session answers late while it loads its model or recognizes the end of an utterance."""
REQUEST_S = 0.2
COMMANDS = ("toggle", "on", "off")

EPILOG = """\
examples:
  asr-stream --type --paused &   starts dictation with the microphone closed
  asr-stream toggle              opens or closes the microphone
  asr-stream toggle on           opens it

Bind these commands to keys of the desktop. A push-to-talk key runs "toggle on"
when it is pressed and "toggle off" when it is released.
"""


class ToggleError(ValueError):
    """The socket cannot be created, or no process answers. The message has a remedy."""


def socket_path() -> Path:
    """The socket's path. Raises ToggleError if there is no folder that only the user can write to."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if not folder:
        raise ToggleError("XDG_RUNTIME_DIR is not set: export XDG_RUNTIME_DIR=/run/user/$(id -u), or a folder of yours")
    try:
        status = os.stat(folder)
    except OSError as error:
        raise ToggleError(f"XDG_RUNTIME_DIR is {folder}, which cannot be used: {error.strerror}") from error
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
        raise ToggleError(f"XDG_RUNTIME_DIR is {folder}, which is not a folder that only you can write to")
    return Path(folder) / "asr-stream.sock"


class Switch:
    """A context manager. `on`: whether the microphone should be open; it changes in `wait` and by SIGUSR1.

    For the main thread.
    """

    def __init__(self, on: bool) -> None:
        """Raises ToggleError, also when another process has the socket."""
        import fcntl

        self.on = on
        self._path = socket_path()
        lock = self._path.with_suffix(".lock")
        try:
            self._lock = open(lock, "w")  # noqa: SIM115, closed by __exit__
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise ToggleError("dictation is already running: asr-stream toggle switches it on and off") from error
        except OSError as error:
            raise ToggleError(f"cannot lock {lock}: {error.strerror}") from error
        self._socket = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)  # left by a killed process
            self._socket.bind(str(self._path))
        except OSError as error:  # such as a path of more than 107 bytes
            self._socket.close()
            self._lock.close()
            raise ToggleError(f"cannot listen at {self._path}: {error.strerror or error}") from error
        finally:
            os.umask(before)
        self._socket.listen()
        self._handler = signal.signal(signal.SIGUSR1, self._toggle)

    def wait(self, seconds: float) -> None:
        """Answers requests that are waiting or come within `seconds`."""
        while select.select([self._socket], [], [], seconds)[0]:
            seconds = 0.0
            connection, _ = self._socket.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(REQUEST_S)
                command = connection.recv(16).decode(errors="replace").strip()
                if command in COMMANDS:
                    self.on = {"on": True, "off": False}.get(command, not self.on)
                    connection.sendall(b"on\n" if self.on else b"off\n")

    def _toggle(self, number: int, frame: FrameType | None) -> None:
        self.on = not self.on

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR1, self._handler)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        self._lock.close()


def request(command: str) -> str:
    """Sends `command` to the running dictation; returns its state, "on" or "off". Raises ToggleError if none runs."""
    path = socket_path()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(str(path))
            connection.sendall(command.encode())
            answer = connection.recv(16).decode().strip()
        except TimeoutError as error:
            raise ToggleError(f"dictation does not answer within {ANSWER_S:g} s") from error
        except OSError as error:
            raise ToggleError("dictation is not running: start it with asr-stream --type") from error
    if answer not in ("on", "off"):
        raise ToggleError("dictation has ended")
    return answer


def main(argv: Sequence[str]) -> int:
    """`asr-stream toggle`; returns its exit status."""
    parser = Parser(
        prog="asr-stream toggle",
        description="Switches the microphone of the running asr-stream --type on or off, and\nprints the new state.",
        epilog=EPILOG,
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="toggle", help="default: toggle")
    args = parser.parse_args(argv)
    try:
        print(request(args.command))
    except ToggleError as error:
        print_error(error)
        return 1
    return 0
