"""A display for tests: Xvfb, with windows whose text ends in a file. Needs the packages xvfb, xterm and xdotool."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path


class Window:
    """An xterm. `text`: what was typed into it."""

    def __init__(self, display: XServer, file: Path) -> None:
        file.touch()
        self._file, self._env = file, display.env
        command = ["xterm", "-title", str(file), "-e", "sh", "-c", f"stty raw -echo; cat > '{file}'"]
        self._process = subprocess.Popen(command, env=self._env)
        found = self._xdotool("search", "--sync", "--onlyvisible", "--name", f"^{file}$")
        self._id = found.strip()

    def focus(self) -> None:
        """Gives this window the keyboard focus."""
        self._xdotool("windowfocus", "--sync", self._id)

    @property
    def text(self) -> str:
        return self._file.read_text()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _xdotool(self, *command: str) -> str:
        done = subprocess.run(["xdotool", *command], env=self._env, check=True, capture_output=True, timeout=60)
        return done.stdout.decode()


class XServer:
    """A context manager. Programs started with `env` show their windows there."""

    def __init__(self) -> None:
        read, write = os.pipe()
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"]
        command += ["-ardelay", "60000"]  # on a busy machine a key may stay pressed for a long time: it must not repeat
        self._server = subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as number:
            self._name = f":{number.readline().strip()}"
        assert self._name != ":", "Xvfb does not start"
        self.env = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
        self.env["DISPLAY"] = self._name
        self._x11 = ctypes.CDLL("libX11.so.6")
        self._x11.XOpenDisplay.restype = ctypes.c_void_p
        self._display = ctypes.c_void_p(self._x11.XOpenDisplay(self._name.encode()))
        self._windows: list[Window] = []

    def window(self, file: Path) -> Window:
        """A new window, returned when it is visible."""
        self._windows.append(Window(self, file))
        return self._windows[-1]

    @property
    def num_keys_pressed(self) -> int:
        """The number of keys that are pressed now."""
        keys = (ctypes.c_ubyte * 32)()
        self._x11.XQueryKeymap(self._display, keys)
        return sum(byte.bit_count() for byte in keys)

    def __enter__(self) -> XServer:
        return self

    def __exit__(self, *_: object) -> None:
        for window in self._windows:
            window.close()
        self._x11.XCloseDisplay(self._display)
        self._server.terminate()
        self._server.wait()
