"""Captions on the terminal, from the microphone or from files.

The partial is updated in place, with its stable words at full brightness and the rest dimmed. It is wrapped to at most
a third of the window; of a longer one the end is shown. A final replaces it and scrolls up. Each source of audio has
its own partial. A status row may follow.
Terminals wrap these rows when they become narrower; then all of them are erased.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any, TextIO, cast

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from asr.command import leave_closed_terminal
from asr.streaming.events import Event, Partial
from asr.streaming.terminal.formats import labeled, utterance
from asr.streaming.terminal.layout import DEFAULTS, Layout
from asr.text import printable

MIN_ROWS = 3
"""Minimum number of rows that a partial may use, if the window has them. In a taller window it may use a third of the
rows; these still fit if the window becomes narrower."""


class _Terminal:
    """A terminal's file. When the terminal has been closed, nothing is shown, and recognition goes on."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with self._may_be_closed():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._may_be_closed():
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @staticmethod
    @contextlib.contextmanager
    def _may_be_closed() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            leave_closed_terminal()


class Captions:
    """Shows captions on a terminal; a context manager. Honors NO_COLOR: nothing is dimmed or colored then."""

    def __init__(self, file: TextIO, width: int | None = None, layout: Layout = DEFAULTS) -> None:
        """`width` in columns; None uses the terminal's width, also after it is resized. layout: of finals."""
        self._layout = layout
        terminal = cast(TextIO, _Terminal(file))
        self._console = Console(file=terminal, width=width, force_terminal=True, highlight=False, legacy_windows=False)
        # Drawn only on changes and with a single write, to avoid flicker.
        self._live = Live(
            Group(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        plain = self._console.no_color
        self._dim, self._warning = ("", "") if plain else ("dim", "yellow")
        self._partials: dict[str, Partial] = {}
        self._status: Text | None = None
        self._drawn: list[int] = []
        """Columns of the lines on the screen."""

    @property
    def width(self) -> int:
        """Maximum columns of a line. A full line would wrap in some terminals."""
        return self._console.width - 1

    @property
    def unicode(self) -> bool:
        """Whether the terminal supports more than ASCII."""
        return self._console.encoding.startswith("utf")

    def begin(self, name: str) -> None:
        """Begins the captions of the recording `name`."""
        self._print_line(f"== {printable(name)} ==", self._dim)

    def show(self, event: Event, label: str = "") -> None:
        """Shows a partial or a final. label: of its source, if there are several."""
        if isinstance(event, Partial) and event.text:
            self._partials[label] = event
            self._draw()
        else:
            with self._console:  # a single write removes the partial and prints its successor
                self._partials.pop(label, None)
                self._draw()
                if not isinstance(event, Partial) and event.text.strip():
                    self._print_line(utterance(event, label, self._layout), "")

    def warn(self, message: str) -> None:
        """Prints a message above the partial."""
        self._print_line(message, self._warning)

    def print(self, text: str) -> None:
        """Prints lines of an output format, which stay."""
        with self._console:
            self._erase_wrapped()
            self._console.print(Text(text), end="", soft_wrap=True)

    def status(self, text: Text | None) -> None:
        """Sets the last line, cut to `width` columns; None removes it."""
        self._status = text
        self._draw()

    def _draw(self) -> None:
        lines = [row for label, event in self._partials.items() for row in self._rows(event, label)]
        lines += [] if self._status is None else [self._status]
        if self._console.no_color:
            lines = [Text(line.plain) for line in lines]
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        with self._console:
            self._erase_wrapped()
            self._live.update(Group(*lines), refresh=True)
        self._drawn = [min(line.cell_len, self._console.width) for line in lines]

    def _erase_wrapped(self) -> None:
        """Erases the extra rows of lines that the terminal wrapped, from the last one upward."""
        columns = self._console.width
        num_wrapped = sum(max(length - 1, 0) // columns for length in self._drawn)
        if num_wrapped and "XTERM_VERSION" not in os.environ:  # xterm does not wrap them
            erase = (ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
            self._console.control(Control(*erase * num_wrapped))
        self._drawn = [min(length, columns) for length in self._drawn]

    def _print_line(self, text: str, style: str) -> None:
        """Prints a line that stays, above the partial."""
        with self._console:
            self._erase_wrapped()
            self._console.print(Text(text, style))

    def _rows(self, event: Partial, label: str) -> list[Text]:
        """The last rows of the text, with the label before the first of them.

        Wrapping starts at the beginning of the text, so that shown words stay in place while others are added.
        """
        before = labeled("", label)
        width = max(self.width - cell_len(before), 1)
        rows: list[tuple[list[str], list[str]]] = []  # per row, the stable words and the others
        used = width
        line_break = "⏎" if self.unicode else "/"
        words = [word.word.replace("\n", line_break) for word in event.words] or event.text.split(" ")
        for number, word in enumerate(words):
            for piece in chop_cells(word, width) or [""]:  # a word may be longer than a row
                if used + 1 + cell_len(piece) > width:
                    rows.append(([], []))
                    used = -1
                rows[-1][number >= event.num_stable].append(piece)
                used += 1 + cell_len(piece)
        shown = []
        for firm, rest in rows[-self._num_rows() :]:
            gap = " " if firm and rest else ""
            shown.append(Text.assemble((before, self._dim), " ".join(firm), gap, (" ".join(rest), self._dim)))
            before = " " * cell_len(before)
        return shown

    def _num_rows(self) -> int:
        """Number of rows for a partial. In a small window it leaves room for the last final and the status."""
        height = self._console.height
        return max(1, min(max(MIN_ROWS, height // 3), (height - 2) // max(len(self._partials), 1)))

    def __enter__(self) -> Captions:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
