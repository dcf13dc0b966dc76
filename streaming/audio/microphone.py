"""The microphone: finds and opens the input device, detects its loss, and opens it again.

A device that disappears raises no error: its callbacks stop. So missing callbacks are detected, the loss is reported
and ends the utterance, the device is reopened with back-off, and the time without it counts as a gap.

    with Microphone(rescan=True) as microphone:
        while True:
            microphone.read_into(stream)
            for event in stream.events(): ...
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.features import SAMPLE_RATE
from asr.streaming.audio.capture import BLOCK_S, CLOSE_TIMEOUT_S, Capture, skip_cleanup_at_exit
from asr.streaming.audio.reporting_thread import ReportingThread

if TYPE_CHECKING:
    from asr.streaming.audio.system_audio import MonitorCapture
    from asr.streaming.stream import Stream

POLL_S = 0.01
BACK_OFF_S = (0.25, 0.5, 1.0, 2.0, 5.0)
OVERFLOW_REPORT_S = 10.0
MAX_CHANNELS = 1024

INSTALL_LINE = "sudo apt-get install libportaudio2"


class MicrophoneError(ValueError):
    """There is no microphone, it cannot be opened, or PortAudio is missing. The message has a remedy."""


@dataclass(frozen=True)
class InputDevice:
    """An input device of PortAudio. default_sample_rate: Hz."""

    index: int
    name: str
    host_api: str
    num_channels: int
    default_sample_rate: int
    is_default: bool


@dataclass(frozen=True)
class Block:
    """Audio, float32 in ±1, shape (num_samples,), of `sample_rate` Hz; `gap` samples were lost just before.

    error: a problem of the device before this block, as a sentence; empty if there is none.
    lost: the device is gone, and no audio follows until it has been reopened.
    """

    samples: np.ndarray
    sample_rate: int
    gap: int = 0
    error: str = ""
    lost: bool = False

    def put_into(self, stream: Stream) -> None:
        """Passes the error, the gap and the audio to `stream`."""
        if self.lost:
            stream.end_utterance()
        if self.error:
            stream.report_error(self.error)
        stream.gap(self.gap, self.sample_rate)
        stream.accept_waveform(self.samples, self.sample_rate)


def list_devices() -> list[InputDevice]:
    """The input devices. Raises MicrophoneError if PortAudio is missing or fails."""
    sounddevice = _import_sounddevice()
    with _errors_of_portaudio(sounddevice):
        apis = sounddevice.query_hostapis()
        default = sounddevice.default.device["input"]
        return [
            InputDevice(
                index,
                device["name"],
                apis[device["hostapi"]]["name"],
                device["max_input_channels"],
                int(device["default_samplerate"]),
                index == default,
            )
            for index, device in enumerate(sounddevice.query_devices())
            if device["max_input_channels"] > 0
        ]


def device_of(option: str | None) -> int | str | None:
    """Parses the option --device into a device number or name."""
    return int(option) if option and option.isascii() and option.isdigit() else option


class Microphone:
    """An open microphone. One thread reads it; capture does not wait for that thread.

    device: the `InputDevice` in use; it changes if another one is found after a loss.
    """

    KIND = "microphone"
    SILENCE_LIMIT_S: float = max(0.5, 10 * BLOCK_S)
    """A device that delivers no audio for this many seconds is considered lost."""
    START_LIMIT_S: float = 5.0
    """The same limit before the first sample, because a sound server may take seconds to start."""

    def __init__(self, device: int | str | None = None, rescan: bool = False, channel: int = 1) -> None:
        """Opens `device`: an index of `list_devices`, a part of a name, or None for the default.

        channel: which of the device's channels to record, counted from 1.
        rescan: whether PortAudio may be restarted to find a device that was plugged in again, or the current default
            device. Off by default, because a restart closes every other PortAudio stream of the process.

        A default device is kept until it is lost, unless the sound server moves open streams, as PulseAudio and
        PipeWire do.
        Raises MicrophoneError if there is none, it cannot be opened, or it does not have the channel.
        """
        if isinstance(channel, bool) or not isinstance(channel, int) or not 1 <= channel <= MAX_CHANNELS:
            raise MicrophoneError(f"channel is {channel!r}; it must be a whole number in [1, {MAX_CHANNELS}]")
        self._rescan = rescan
        self._channel = channel
        self._sounddevice = _import_sounddevice()
        self._wanted = device
        try:
            self.device = _find_device(device)
            self._begin()
        except MicrophoneError:
            if not rescan:
                raise
            self._find_again()  # PortAudio knows only the devices that were there when it was started
            self._begin()

    def _begin(self) -> None:
        """Opens `device`."""
        # Numbers change when devices come and go, so a lost device is found by name. A default device is replaced by
        # the current default.
        self._wanted = None if self._wanted is None else self.device.name
        self._capture: Capture | MonitorCapture = self._open()
        self._closed = False
        self._opening: ReportingThread | None = None
        self._reopened: Capture | MonitorCapture | None = None
        self._lost_name = ""
        self._watch_from_now()

    @property
    def sample_rate(self) -> int:
        """Sample rate of the samples, in Hz: 16000, or the device's own rate if it refuses 16000."""
        return self._capture.sample_rate

    @property
    def first_sample_ns(self) -> int:
        """Time of the first sample since the device was opened, on the clock of `time.monotonic_ns`."""
        return self._capture.first_sample_ns

    @property
    def last_sample_ns(self) -> int:
        """Time of the last sample captured so far, on the same clock."""
        return self._capture.last_sample_ns

    def read(self, timeout_s: float = 0.1) -> Block | None:
        """The next audio, or an event of the device; None if nothing came within `timeout_s`.

        After `close`: the rest of the captured audio, then None immediately.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            capture = self._capture
            samples, gap = capture.ring.read(capture.ring.capacity)
            if len(samples) or gap:
                return Block(samples, capture.sample_rate, gap)
            block = self._overflow_error() or (None if self._closed else self._watch())
            if self._closed or block is not None or time.monotonic() >= deadline:
                return block
            time.sleep(POLL_S)

    def read_into(self, stream: Stream, timeout_s: float = 0.1) -> bool:
        """Moves the next audio, gap or error into `stream`. False if nothing came within `timeout_s`."""
        block = self.read(timeout_s)
        if block is not None:
            block.put_into(stream)
        return block is not None

    def close(self) -> None:
        """Stops capture. Audio captured until now can still be read."""
        if not self._closed:
            self._closed = True
            if self._opening is None:
                self._capture.close()
            else:
                self._opening.join(CLOSE_TIMEOUT_S)
                if self._opening.is_alive():
                    skip_cleanup_at_exit()
                if self._reopened is not None:
                    self._reopened.close()

    def __enter__(self) -> Microphone:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch_from_now(self) -> None:
        self._watched = time.monotonic()
        self._num_received = 0
        self._silent_s = 0.0
        self._num_overflows = 0
        self._overflow_reported = -OVERFLOW_REPORT_S

    def _overflow_error(self) -> Block | None:
        """An error about audio lost by the sound system, unless one was reported within the last seconds."""
        capture = self._capture
        num_new = capture.num_input_overflows - self._num_overflows
        now = time.monotonic()
        if num_new == 0 or (now - self._overflow_reported < OVERFLOW_REPORT_S and not self._closed):
            return None
        self._num_overflows += num_new
        self._overflow_reported = now
        times = "once" if num_new == 1 else f"{num_new} times"
        return Block(_EMPTY, capture.sample_rate, error=f"the sound system lost audio before it got here, {times}")

    def _watch(self) -> Block | None:
        """Returns an error about the device, if there is one."""
        if self._opening is not None:
            self._opening.check()
            return self._take_over() if self._reopened is not None else None
        capture = self._capture
        now = time.monotonic()
        # While this process did not run (busy or suspended), the device was not necessarily silent.
        self._silent_s += min(now - self._watched, 10 * POLL_S)
        self._watched = now
        if capture.num_received != self._num_received:
            self._num_received = capture.num_received
            self._silent_s = 0.0
        if self._silent_s > (self.SILENCE_LIMIT_S if self._num_received else self.START_LIMIT_S) or not capture.active:
            self._lost_name = self.device.name
            self._opening = ReportingThread("reopen-microphone", self._reopen)
            text = f"{self.KIND} {self._lost_name!r} stopped; opening it again"
            return Block(_EMPTY, capture.sample_rate, error=text, lost=True)
        return None

    def _reopen(self) -> None:
        """Reopens the device in its own thread, because a dead device may block every call for seconds."""
        released = self._capture.close(abort=True)
        attempt = 0
        while not self._closed:
            time.sleep(BACK_OFF_S[min(attempt, len(BACK_OFF_S) - 1)])
            attempt += 1
            try:
                if self._rescan and released:
                    self._find_again()
                capture = self._open()
            except MicrophoneError:
                continue
            deadline = time.monotonic() + self.START_LIMIT_S
            while not capture.num_received and capture.active and time.monotonic() < deadline and not self._closed:
                time.sleep(POLL_S)
            if capture.num_received and not self._closed:
                self._reopened = capture
                return
            released = capture.close(abort=True)

    def _take_over(self) -> Block:
        """Continues with the reopened device; the time without it is a gap."""
        lost, self._capture = self._capture, self._reopened
        assert self._capture is not None
        self._opening, self._reopened = None, None
        self._watch_from_now()
        rate = self._capture.sample_rate
        lost_ns = self._capture.first_sample_ns - lost.last_sample_ns if lost.last_sample_ns else 0
        name = self.device.name
        error = "" if name == self._lost_name else f"{self.KIND} {self._lost_name!r} is gone; listening to {name!r} now"
        return Block(_EMPTY, rate, max(0, round(lost_ns * rate / 1e9)), error)

    def _find_again(self) -> None:
        """Looks up the device among those present."""
        # Terminating fails if an earlier attempt failed after it had terminated PortAudio.
        with contextlib.suppress(self._sounddevice.PortAudioError):
            self._sounddevice._terminate()
        with _errors_of_portaudio(self._sounddevice):
            self._sounddevice._initialize()
        self.device = _find_device(self._wanted)

    def _open(self) -> Capture | MonitorCapture:
        """Opens the device at 16 kHz, or at its default rate."""
        device, channel = self.device, self._channel
        if channel > device.num_channels:
            raise MicrophoneError(
                f"microphone {device.name!r} has no channel {channel}: it must be in [1, {device.num_channels}]"
            )
        attempts = [
            (rate, channels)
            for channels in dict.fromkeys((channel, max(channel, min(2, device.num_channels)), device.num_channels))
            for rate in dict.fromkeys((SAMPLE_RATE, device.default_sample_rate))
        ]
        for rate, channels in attempts:
            try:
                return Capture(self._sounddevice, device.index, device.host_api, rate, channels, channel - 1)
            except (self._sounddevice.PortAudioError, ValueError) as error:
                reason = error
        raise MicrophoneError(f"cannot open microphone {device.name!r}: {reason}; is another program using it?")


_EMPTY = np.zeros(0, np.float32)


@contextlib.contextmanager
def _errors_of_portaudio(sounddevice: Any) -> Iterator[None]:
    """Converts PortAudio errors to MicrophoneError."""
    try:
        yield
    except sounddevice.PortAudioError as error:
        raise MicrophoneError(f"PortAudio fails: {error}") from error


def _import_sounddevice() -> Any:
    try:
        import sounddevice
    except OSError as error:  # importing sounddevice loads the library
        raise MicrophoneError(
            f"PortAudio is not installed ({error}), so no microphone can be opened.\n"
            f"  Debian, Ubuntu:  {INSTALL_LINE}\n"
            "  Fedora:          sudo dnf install portaudio\n"
            "  macOS, Windows:  pip install --force-reinstall sounddevice"
        ) from error
    except Exception as error:  # includes PortAudioError, because importing also initializes PortAudio
        raise MicrophoneError(
            f"the sounddevice package cannot be imported ({error}): pip install sounddevice"
        ) from error
    return sounddevice


def _find_device(wanted: int | str | None) -> InputDevice:
    devices = list_devices()
    if not devices:
        raise MicrophoneError(
            "there is no microphone: PortAudio finds no input device. Plug one in or, in a container or on a "
            "remote machine, pass a sound device through."
        )
    if wanted is None:
        chosen = [device for device in devices if device.is_default] or devices[:1]
    elif isinstance(wanted, int):
        chosen = [device for device in devices if device.index == wanted]
    else:
        chosen = [device for device in devices if device.name == wanted] or [
            device for device in devices if wanted.lower() in device.name.lower()
        ]
    if not chosen:
        names = ", ".join(f"{device.index} {device.name!r}" for device in devices)
        raise MicrophoneError(f"no input device {wanted!r}; there are: {names}")
    return chosen[0]
