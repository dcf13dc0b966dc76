"""Output of events to files or standard output in some formats, and to the terminal as captions.

Text is written immediately, and a file never ends with half an event. The first text of a recording, or its end without
an error, replaces what a file had before: a recording that cannot be read leaves no file, in any format. If a file
cannot be written, for example because the disk is full, a message reports it and the rest goes to standard output,
starting with the first event that the file lacks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from asr.streaming.terminal.formats import is_folder, is_taken, labeled, new_format, output_path
from asr.streaming.terminal.layout import DEFAULTS, Layout
from asr.streaming.terminal.options import print_error

if TYPE_CHECKING:
    from asr.streaming.events import Event
    from asr.streaming.terminal.captions import Captions


class OutputError(ValueError):
    """An output cannot be opened."""


class Output:
    """A context manager. `failed`: whether some text could not be written to its destination."""

    def __init__(
        self,
        formats: Sequence[str],
        path: str | None = None,
        of_files: bool = False,
        existing: str = "keep",
        layout: Layout = DEFAULTS,
    ) -> None:
        """formats: of `formats.FORMATS`; several of them need a folder. path: a file, a folder for one file per
        recording and format (see `is_folder`), or None for standard output. of_files: the source is files; their
        progress is shown if their text is not on the terminal. existing: for an existing file, "keep" (an error),
        "overwrite" or "append".

        Raises OutputError if the file or the folder cannot be created.
        """
        self.failed = False
        self._is_intact = False
        """Whether a recording has begun without errors."""
        folder = Path(path) if path is not None and is_folder(path) else None
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
            file = TextFile(path, existing) if path is not None and not folder else None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from error
        self._texts = [_Text(self, format, layout, folder, file, existing) for format in formats]
        self._stream = sys.stdout
        self._on_terminal = _is_terminal(sys.stdout)
        self._shows_text = self._on_terminal and (path is not None or "text" in formats)
        self.captions: Captions | None = None
        """The captions on the terminal; None without a terminal."""
        if self._on_terminal or (of_files and _is_terminal(sys.stderr)):
            from asr.streaming.terminal.captions import Captions

            self.captions = Captions(sys.stdout if self._on_terminal else sys.stderr, layout=layout)

    @property
    def wants_partials(self) -> bool:
        """Whether partials are shown; if not, callers may skip them."""
        return self._shows_text or any(text.is_complete for text in self._texts)

    def begin(self, path: str, several: bool) -> None:
        """Begins the output of the recording `path`, which is one of `several` or the only one."""
        self._end()
        if self._shows_text and several and self.captions:
            self.captions.begin(path)
        for text in self._texts:
            text.begin(path, several)
        self._is_intact = True

    def show(self, event: Event, label: str = "") -> None:
        """Writes and displays an event. label: of its source, if there are several."""
        self._is_intact &= event.type != "error"
        is_written = all([text.show(event, label) for text in self._texts])
        if event.type in ("partial", "final"):
            if self._shows_text and self.captions:
                self.captions.show(event, label)
        elif self._shows_text or not is_written:
            text = f"{event.text} at {event.start:.2f} s" if event.type == "gap" else event.text
            self.warn(labeled(text, label))

    def warn(self, message: str) -> None:
        """Shows a message outside the output: in the captions, or on standard error."""
        if self.captions:
            self.captions.warn(message)
        else:
            print_error(message)

    def print(self, text: str, format: str) -> None:
        """Writes text that is not in a file to standard output, unless the captions show it."""
        if not text or (self._shows_text and format == "text"):
            return
        if self._on_terminal and self.captions:
            self.captions.print(text)
        else:
            self._print(text)

    def _print(self, text: str) -> None:
        try:
            print(text, end="", file=self._stream, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._stream is sys.stderr:
                raise
            self.failed, self._stream = True, sys.stderr
            self.warn(f"cannot write to standard output: {error.strerror}; the missing text follows here")
            self._print(text)

    def _end(self) -> None:
        for text in self._texts:
            text.end(self._is_intact)

    def __enter__(self) -> Output:
        if self.captions:
            self.captions.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._is_intact &= exc[0] is None
        try:
            self._end()
        finally:
            if self.captions:
                self.captions.__exit__(*exc)
            for text in self._texts:
                text.close()


class _Text:
    """The text in one format: in a file, in a file of a folder for each recording, or on standard output."""

    def __init__(
        self, output: Output, name: str, layout: Layout, folder: Path | None, file: TextFile | None, existing: str
    ) -> None:
        self._output = output
        self._name = name
        self._format = new_format(name, layout)
        self._folder, self._file, self._existing = folder, file, existing
        self._held = ""
        """Headers and errors, held back until a recording has text or has ended without an error."""

    @property
    def is_complete(self) -> bool:
        """Whether it has every event."""
        return self._format.complete

    def begin(self, path: str, several: bool) -> None:
        if self._folder:
            self.close()
            target = output_path(self._folder, path, self._name)
            try:
                self._file = TextFile(target, self._existing)
                several = False
            except OSError as error:
                self._fall_back(target, error)
        header = self._format.begin(path if several else "")
        if self._file:
            self._held += header
        else:
            self._write(header)

    def show(self, event: Event, label: str) -> bool:
        """Returns whether the format has such events, and this one is not held back."""
        text = self._format.add(event, label)
        is_held = event.type == "error" and self._file is not None and not self._file.has_begun
        if is_held:
            self._held += text
        else:
            self._write(text)
        return self.is_complete and not is_held

    def end(self, is_intact: bool) -> None:
        """is_intact: replace what the file had before even if there is no text."""
        self._write(self._format.end(), begins=is_intact)

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file, self._held = None, ""

    def _write(self, text: str, begins: bool = False) -> None:
        if self._file and (text or begins):
            text, self._held = self._held + text, ""
            try:
                return self._file.write(text)
            except BrokenPipeError:
                raise
            except OSError as error:
                self._fall_back(self._file.path, error)
        self._output.print(text, self._name)

    def _fall_back(self, path: Path, error: OSError) -> None:
        self._output.failed = True
        self.close()
        self._output.warn(f"cannot write {path}: {error.strerror}; the missing text goes to standard output")


class TextFile:
    """A file that is appended to atomically. It is unchanged until the first `write`. Raises OSError."""

    def __init__(self, path: str | Path, existing: str = "keep") -> None:
        """existing: "keep" raises FileExistsError for a nonempty file; "overwrite", "append"."""
        self.path = Path(path)
        is_old = is_taken(path)
        if existing == "keep" and is_old:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self._is_replaced = is_old and existing == "overwrite"
        self._is_unneeded = not os.path.lexists(path)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115, closed by close()

    @property
    def has_begun(self) -> bool:
        """Whether `write` neither creates the file nor replaces its content."""
        return not (self._is_replaced or self._is_unneeded)

    def write(self, text: str) -> None:
        """Appends `text` and passes it to the system."""
        rest = text.encode(errors="backslashreplace")  # a file name may not be UTF-8
        if self._is_replaced:
            self._file.seek(0)
            self._file.truncate()
        self._is_replaced = self._is_unneeded = False
        start = self._file.tell() if self._file.seekable() else None
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            if start is not None:
                with contextlib.suppress(OSError):
                    self._file.truncate(start)
            raise

    def close(self) -> None:
        self._file.close()
        if self._is_unneeded:
            self.path.unlink(missing_ok=True)


def _is_terminal(file: TextIO) -> bool:
    """Whether `file` is a terminal that can move its cursor."""
    return file.isatty() and os.environ.get("TERM") != "dumb"
