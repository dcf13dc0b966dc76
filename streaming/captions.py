"""Events for people and programs: captions on a terminal, plain lines, JSON lines.

On a terminal the partial text stands dimmed in one line and changes in place; when it outgrows the line, its
end stays visible. A final becomes a firm line in its stead. Elsewhere each final is a line, and troubles go
to stderr.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from asr.streaming.events import Event


class Output(Protocol):
    """Where events go. A context manager; `begin` names the file that the following events are about."""

    def begin(self, name: str) -> None: ...
    def show(self, event: Event) -> None: ...
    def __enter__(self) -> Output: ...
    def __exit__(self, *exc: Any) -> None: ...


class JsonLines:
    """One event per line, written at once. With several files each event also names its `file`."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._about: dict[str, str] = {}

    def begin(self, name: str) -> None:
        self._about = {"file": name}

    def show(self, event: Event) -> None:
        print(json.dumps(event.to_dict() | self._about, ensure_ascii=False), file=self._file, flush=True)

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


class PlainText:
    """Finals, a line each, written at once; troubles go to stderr."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def begin(self, name: str) -> None:
        print(f"== {name} ==", file=self._file, flush=True)

    def show(self, event: Event) -> None:
        if event.type == "final":
            print(event.text, file=self._file, flush=True)
        elif event.type != "partial":
            print(f"asr-stream: {_trouble(event)}", file=sys.stderr, flush=True)

    def __enter__(self) -> PlainText:
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


class Captions:
    """The view on a terminal. Honours NO_COLOR: then nothing is dimmed or coloured."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        """`width` in columns; None follows the terminal, also when it is resized."""
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._console = Console(file=file, width=width, force_terminal=True, highlight=False, legacy_windows=False)
        # Drawn when something changed and at no other time, in one write: it cannot flicker.
        self._live = Live(
            Text(""),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        plain = self._console.no_color
        self._dim, self._warning = ("", "") if plain else ("dim", "yellow")

    def begin(self, name: str) -> None:
        self._print_line(f"== {name} ==", self._dim)

    def show(self, event: Event) -> None:
        if event.type == "partial":
            self._live.update(self._partial(event.text), refresh=True)
        elif event.type == "final":
            with self._console:  # one write for both: the partial goes as its successor comes
                self._live.update(self._text(""), refresh=True)
                self._print_line(event.text, "")
        else:
            self._print_line(_trouble(event), self._warning)

    def _print_line(self, text: str, style: str) -> None:
        """A line that stays, above the partial."""
        self._console.print(self._text(text, style))

    def _partial(self, text: str) -> Any:
        """As much of the end of `text` as fits into a line, on a word boundary."""
        from rich.cells import cell_len

        room = self._console.width - 1  # a full line would make some terminals wrap
        if cell_len(text) > room:
            mark = "… " if self._console.encoding.startswith("utf") else "... "
            words = text.split(" ")
            while len(words) > 1 and cell_len(mark + " ".join(words)) > room:
                del words[0]
            text = mark + " ".join(words)
            while cell_len(text) > room:  # a single word, longer than the line
                text = mark + text[len(mark) + 1 :]
        return self._text(text, self._dim, end="")

    def __enter__(self) -> Captions:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def _trouble(event: Event) -> str:
    return f"{event.text} at {event.start:.2f} s" if event.type == "gap" else event.text


def open_output(file: TextIO, as_json: bool) -> Output:
    """JSON lines if asked for, captions on a terminal that can move its cursor, else plain lines."""
    import os

    if as_json:
        return JsonLines(file)
    if file.isatty() and os.environ.get("TERM") != "dumb":
        return Captions(file)
    return PlainText(file)
