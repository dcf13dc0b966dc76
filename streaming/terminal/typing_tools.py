"""External programs that type into the focused window: wtype, dotool, ydotool, xdotool.

Each reads the text from standard input, types it key by key, and exits. Which of them works depends on the display
server: X11 accepts keys from any client; a Wayland compositor only if it has the virtual keyboard protocol (wlroots has
it, GNOME and KDE do not); dotool and ydotool create a keyboard in the kernel (/dev/uinput), which works with any.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from asr.text import printable

TIMEOUT_S = 10.0
"""Timeout in addition to the time for the keys of a text."""
KEYS_PER_S = 8.0
"""Minimum speed of a program; the time limit of a text follows from it."""
MOST_KEYS = 100
"""Maximum keys of one command line."""


class TypingError(ValueError):
    """No program can type here, or one has failed. The message says what to do."""


@dataclass(frozen=True)
class TypingTool:
    """A program. command: with its arguments. before: text that precedes the text on its standard input."""

    name: str
    command: tuple[str, ...]
    before: str = ""
    enter: str = ""
    """The input that types a line break if `before` is set; otherwise it is a character of the text."""
    backspace: tuple[str, ...] = ()
    """The command that presses the named keys; empty: nothing can be deleted."""
    slow: tuple[str, ...] = ()
    """The command for characters beyond ASCII, which often have no key; empty: `command`."""
    focus: tuple[str, ...] = ()
    """The command that prints which window has the focus; empty: unknown."""

    def type(self, text: str) -> None:
        """Types `text` and waits until its last key is released. Empty text is a test. Raises TypingError."""
        lines = text.split("\n") if self.enter else [text]
        content = f"\n{self.enter}\n".join(f"{self.before}{line}" if line else "" for line in lines)
        runs = re.findall(r"[\0-\x7f]+|[^\0-\x7f]+", content) if self.slow else []
        for run in runs or [content]:
            self._run(self.slow if self.slow and not run.isascii() else self.command, run, len(run))

    def erase(self, num_characters: int) -> None:
        """Presses the backspace key `num_characters` times. Raises TypingError."""
        for begin in range(0, num_characters, MOST_KEYS):
            count = min(MOST_KEYS, num_characters - begin)
            self._run((*self.backspace, *["BackSpace"] * count), "", count)

    def window(self) -> str:
        """The window that has the focus; "" if unknown."""
        if not self.focus:
            return ""
        try:
            found = subprocess.run(self.focus, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return ""
        return found.stdout.strip()

    def _run(self, command: tuple[str, ...], content: str, num_keys: int) -> None:
        try:
            # Its own session: Ctrl-C, or a signal to this process group, must not end it while it holds a key.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TypingError(f"{self.name} cannot be started: {error.strerror}") from error
        try:
            _, errors = process.communicate(content.encode(), TIMEOUT_S + num_keys / KEYS_PER_S)
        except subprocess.TimeoutExpired as error:  # not killed, because it may hold a key
            raise TypingError(f"{self.name} does not end") from error
        if process.returncode:
            lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
            raise TypingError(f"{self.name}: {printable(lines[-1]) if lines else f'exit status {process.returncode}'}")


TOOLS = {
    tool.name: tool
    for tool in (
        # Milliseconds before the first key and between keys. Without the first delay, a window misses the first key if
        # no keyboard was connected before.
        TypingTool("wtype", ("wtype", "-s", "50", "-d", "5", "-")),
        TypingTool("dotool", ("dotool",), before="type ", enter="key enter"),
        TypingTool("ydotool", ("ydotool", "type", "--file", "-")),
        # A letter without a key temporarily gets one; a busy window needs time to notice.
        # With a known focus, typed text can be deleted.
        TypingTool(
            "xdotool",
            ("xdotool", "type", "--delay", "30", "--file", "-"),
            slow=("xdotool", "type", "--delay", "100", "--file", "-"),
            backspace=("xdotool", "key", "--delay", "30"),
            focus=("xdotool", "getwindowfocus"),
        ),
    )
}
_ADVICE = {
    "X11": "sudo apt-get install xdotool",
    "Wayland": "sudo apt-get install wtype (sway, Hyprland, river, ...); for GNOME and KDE dotool "
    "(https://sr.ht/~geb/dotool), or ydotool with ydotoold running, either with access to /dev/uinput",
}


def find_tool(wanted: str = "auto") -> TypingTool:
    """The first tool that works on this display server, or `wanted`, a name in TOOLS. Raises TypingError."""
    # An X11 program on Wayland reaches only X11 windows.
    server = "Wayland" if os.environ.get("WAYLAND_DISPLAY") else "X11" if os.environ.get("DISPLAY") else ""
    by_kernel = ["dotool", "ydotool"]
    names = {"Wayland": ["wtype", *by_kernel], "X11": ["xdotool", *by_kernel]}.get(server, [])
    if wanted != "auto":
        names = [wanted]
    faults = []
    for name in names:
        if shutil.which(name) is None:
            faults.append(f"{name} is not installed")
            continue
        try:
            TOOLS[name].type("")
            return TOOLS[name]
        except TypingError as error:
            faults.append(str(error))
    if not server:
        faults.insert(0, "neither WAYLAND_DISPLAY nor DISPLAY is set: start it in the desktop's session")
    reasons = "".join(f"\n  {fault}" for fault in faults)
    advice = f"\ninstall one that does: {_ADVICE[server]}" if server else ""
    where = f" ({server})" if server else ""
    raise TypingError(f"--type: no program can type into windows here{where}:{reasons}{advice}")
