"""Captions on the terminal, of the microphone or of files.

The partial changes in place, what is stable of it firm and the rest dimmed. It is wrapped over at most MAX_ROWS rows;
of a longer one the end is visible. A final is printed in its stead, and scrolls up. Each source of audio has a partial
of its own. Below them there may be a row of status.
Terminals wrap these rows when they become narrower; all of them are erased then.
"""

from __future__ import annotations

import os
from typing import TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from asr.streaming.events import Event, Partial
from asr.streaming.terminal.formats import labeled

MAX_ROWS = 3
"""Rows of a partial."""


class Captions:
    """The view on a terminal, a context manager. Honors NO_COLOR: then nothing is dimmed or colored."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        """`width` in columns; None follows the terminal, also when it is resized."""
        self._console = Console(file=file, width=width, force_terminal=True, highlight=False, legacy_windows=False)
        # Drawn when something changed and at no other time, in one write: it cannot flicker.
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
        """Columns that a line may fill: a full one would make some terminals wrap."""
        return self._console.width - 1

    @property
    def unicode(self) -> bool:
        """Whether the terminal takes more than ASCII."""
        return self._console.encoding.startswith("utf")

    def begin(self, name: str) -> None:
        """Begins the captions of the recording of this name."""
        self._print_line(f"== {name} ==", self._dim)

    def show(self, event: Event, label: str = "") -> None:
        """A partial, or a final. label: of its source, where there are several."""
        if isinstance(event, Partial) and event.text:
            self._partials[label] = event
            self._draw()
        else:
            with self._console:  # one write for both: the partial goes as its successor comes
                self._partials.pop(label, None)
                self._draw()
                if not isinstance(event, Partial) and event.text.strip():
                    self._print_line(labeled(event.text, label), "")

    def warn(self, message: str) -> None:
        """Prints a sentence above the partial."""
        self._print_line(message, self._warning)

    def print(self, text: str) -> None:
        """Lines of some format, that stay as they are."""
        with self._console:
            self._erase_wrapped()
            self._console.print(Text(text), end="", soft_wrap=True)

    def status(self, text: Text | None) -> None:
        """The last line, at most `width` columns of it; None takes it away."""
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
        """Erases the rows that the lines fill beyond one each, from the last one upwards."""
        columns = self._console.width
        num_wrapped = sum(max(length - 1, 0) // columns for length in self._drawn)
        if num_wrapped and "XTERM_VERSION" not in os.environ:  # xterm does not wrap them
            erase = (ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))
            self._console.control(Control(*erase * num_wrapped))
        self._drawn = [min(length, columns) for length in self._drawn]

    def _print_line(self, text: str, style: str) -> None:
        """A line that stays, above the partial."""
        with self._console:
            self._erase_wrapped()
            self._console.print(Text(text, style))

    def _rows(self, event: Partial, label: str) -> list[Text]:
        """The last rows of the text, the label before the first of them.

        It is wrapped from its beginning on, so that shown words stay where they are while more come.
        """
        before = labeled("", label)
        width = max(self.width - cell_len(before), 1)
        rows: list[tuple[list[str], list[str]]] = []  # stable words of each row, and the others
        used = width
        line_break = "⏎" if self.unicode else "/"
        words = [word.word.replace("\n", line_break) for word in event.words] or event.text.split(" ")
        for number, word in enumerate(words):
            for piece in chop_cells(word, width) or [""]:  # a word may be longer than the row
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
        """Rows of a partial: fewer in a low window, which shows the last final and the status too."""
        return max(1, min(MAX_ROWS, (self._console.height - 2) // max(len(self._partials), 1)))

    def __enter__(self) -> Captions:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
