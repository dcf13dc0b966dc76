"""A virtual microphone: a private PulseAudio server with a null sink whose monitor is the default ALSA input.

Needs the system packages pulseaudio, pulseaudio-utils, libasound2-plugins and libportaudio2, but no sound
card and no rights.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

SAMPLE_RATE = 16000
SINK = "speaker"
MODULE = ("module-null-sink", f"sink_name={SINK}", f"rate={SAMPLE_RATE}", "channels=1", "format=float32le")


class VirtualMicrophone:
    """A running sound server. Programs started with `env` record the 16 kHz WAV files that `play` plays, sample by
    sample."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The path of a socket is limited to 108 characters, so it cannot be in pytest's folders.
        self._socket = Path(tempfile.mkdtemp(prefix="pa-")) / "s"
        self._server: subprocess.Popen[bytes] | None = None
        alsa = folder / "asound.conf"
        device = f'{{ type pulse server "unix:{self._socket}" device "{SINK}.monitor" }}'
        alsa.write_text(f"pcm.!default {device}\nctl.!default {device}\n")
        private = {name: str(folder) for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")}
        self.env = os.environ | private | {"ALSA_CONFIG_PATH": str(alsa), "PULSE_SERVER": f"unix:{self._socket}"}

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        protocol = f"module-native-protocol-unix socket={self._socket} auth-anonymous=1"
        command = [
            "pulseaudio",
            "-n",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
            "--disable-shm=yes",
        ]
        self._socket.unlink(missing_ok=True)
        with open(self._folder / "pulseaudio.log", "ab") as log:
            self._server = subprocess.Popen(
                [*command, "-L", " ".join(MODULE), "-L", protocol], env=self.env, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if subprocess.run(["pactl", "info"], env=self.env, capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError((self._folder / "pulseaudio.log").read_text())

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the server: SIGSTOP silences the microphone, SIGKILL removes it."""
        assert self._server is not None
        self._server.send_signal(number)
        if number == signal.SIGKILL:
            self._server.wait()

    def unplug(self) -> None:
        """Removes the microphone from the running server."""
        self.control("unload-module", MODULE[0])

    def plug_in(self) -> None:
        self.control("load-module", *MODULE)

    def control(self, *command: str) -> str:
        """Runs pactl; returns what it prints."""
        done = subprocess.run(["pactl", *command], env=self.env, check=True, capture_output=True)
        return done.stdout.decode()

    def play(self, path: Path, sink: str = SINK) -> subprocess.Popen[bytes]:
        """Plays a 16 kHz mono file. The process ends when the file has been played to its end.

        Begin the file with half a second of silence, because the first milliseconds of a playback may not reach the
        monitor.
        """
        return subprocess.Popen(["paplay", "-d", sink, str(path)], env=self.env)

    def __enter__(self) -> VirtualMicrophone:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.wait()
        shutil.rmtree(self._socket.parent, ignore_errors=True)
