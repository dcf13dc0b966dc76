"""Captions on the terminal, of the microphone or of files.

The partial stands in one line and changes in place, what is stable of it firm and the rest dimmed; when it outgrows the
line, its end stays visible. A final becomes a firm line in its stead. Each source of audio has a line of its own. Below
the partials there may be a line of status.
Terminals wrap these lines when they become narrower; all rows of them are erased then.
"""

from __future__ import annotations

import os
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from asr.streaming.events import Event, Partial
from asr.streaming.terminal.formats import labeled


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
        self._partials: dict[str, Text] = {}
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
            self._partials[label] = self._line(event, labeled("", label))
            self._draw()
        else:
            with self._console:  # one write for both: the partial goes as its successor comes
                self._partials.pop(label, None)
                self._draw()
                if not isinstance(event, Partial):
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
        lines = [*self._partials.values(), *([] if self._status is None else [self._status])]
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

    def _line(self, event: Partial, before: str) -> Text:
        """`before`, and as much of the end of the text as fits into a line, on a word boundary."""
        words = event.text.split(" ")
        stable = event.num_stable
        width = self.width - cell_len(before)
        if cell_len(event.text) > width:
            mark = "…" if self.unicode else "..."
            while len(words) > 1 and cell_len(" ".join([mark, *words])) > width:
                del words[0]
                stable -= 1
            room = width - cell_len(mark) - 1
            if cell_len(words[0]) > room:  # a single word, longer than the line
                words[0] = set_cell_size(words[0][::-1], room)[::-1].strip()
            words.insert(0, mark)
            stable += stable > 0
        firm = " ".join(words[: max(stable, 0)])
        rest = " ".join(words[max(stable, 0) :])
        return Text.assemble((before, self._dim), firm, " " if firm and rest else "", (rest, self._dim))

    def __enter__(self) -> Captions:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
