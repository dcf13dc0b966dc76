"""Capture from one open input device: PortAudio fills a ring buffer without running Python.

PortAudio calls the ring buffer's C function, so capture continues while the interpreter is busy: sounddevice accepts a
function pointer instead of a callable (an idea of python-rtmixer). If a release of sounddevice lacks this private
interface, a Python callback calls the C function.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from typing import Any

from asr._core import RingBuffer
from asr.streaming.audio.reporting_thread import ReportingThread

BLOCK_S = 0.02
"""Audio per callback."""
LATENCY_S = {"ALSA": 0.1}
"""Latency for host APIs with a different default. ALSA's callbacks run on an ordinary thread, so a busy machine
sometimes loses audio with the default of 40 ms."""
RING_S = 30.0
"""Number of seconds that recognition may lag behind before audio is lost."""
CLOSE_TIMEOUT_S = 2.0

_PA_STREAM_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p
)
_PA_INPUT_OVERFLOW = 2


class Capture:
    """A running input stream. `ring` holds the captured audio; it can be read after `close`, too."""

    def __init__(
        self, sounddevice: Any, device: int, host_api: str, sample_rate: int, num_channels: int, channel: int
    ) -> None:
        """Opens and starts the device with `num_channels`; keeps `channel`, counted from 0.

        Raises sounddevice.PortAudioError.
        """
        self.sample_rate = sample_rate
        self._portaudio_error = sounddevice.PortAudioError
        self.ring = RingBuffer(int(RING_S * sample_rate))
        self._callback = self.ring.callback_pointers(channel, num_channels, sample_rate)
        options: dict[str, Any] = {
            "samplerate": sample_rate,
            "blocksize": int(BLOCK_S * sample_rate),
            "device": device,
            "channels": num_channels,
            "dtype": "float32",
            "latency": LATENCY_S.get(host_api),
        }
        self._stream = self._open_native(sounddevice, options) or self._open_python(sounddevice, options)
        try:
            self._stream.start()
        except BaseException:
            self._stream.close()  # otherwise the device stays busy and cannot be opened again
            raise

    def _open_native(self, sounddevice: Any, options: dict[str, Any]) -> Any:
        function, userdata = self._callback
        try:
            return sounddevice._StreamBase(
                kind="input",
                callback=sounddevice._ffi.cast("PaStreamCallback*", function),
                userdata=sounddevice._ffi.cast("void*", userdata),
                **options,
            )
        except (AttributeError, TypeError, AssertionError):  # the private names may change
            return None

    def _open_python(self, sounddevice: Any, options: dict[str, Any]) -> Any:
        function, userdata = self._callback
        native = _PA_STREAM_CALLBACK(function)

        def write(data: Any, num_frames: int, times: Any, status: Any) -> None:
            address = ctypes.addressof(ctypes.c_char.from_buffer(data))
            native(address, None, num_frames, None, _PA_INPUT_OVERFLOW * status.input_overflow, userdata)

        return sounddevice.RawInputStream(callback=write, **options)

    @property
    def num_received(self) -> int:
        """Samples received so far, including lost ones."""
        return self.ring.num_written + self.ring.num_dropped

    @property
    def num_input_overflows(self) -> int:
        """How often the sound system reported lost audio."""
        return self.ring.num_input_overflows

    @property
    def first_sample_ns(self) -> int:
        """Time of the first sample on the clock of `time.monotonic_ns`; 0 before it."""
        first = self.ring.first_callback_ns
        return first and first - int(BLOCK_S * 1e9)

    @property
    def last_sample_ns(self) -> int:
        """Time of the last sample on the same clock; 0 before the first."""
        return self.ring.last_callback_ns

    @property
    def active(self) -> bool:
        """False if the stream has ended by itself, or PortAudio no longer knows it."""
        try:
            return bool(self._stream.active)
        except self._portaudio_error:
            return False

    def close(self, abort: bool = False) -> bool:
        """Stops the device, after its pending audio was delivered or immediately (`abort`).

        Returns False if the device does not respond within two seconds, as after unplugging; it is then abandoned.
        """

        def stop() -> None:  # sounddevice ignores errors of a lost device
            (self._stream.abort if abort else self._stream.stop)()
            self._stream.close()

        thread = ReportingThread("close-microphone", stop)
        thread.join(CLOSE_TIMEOUT_S)
        thread.check()
        if thread.is_alive():
            skip_cleanup_at_exit()
            return False
        return True


def skip_cleanup_at_exit() -> None:
    """Lets the process end although the sound system hangs: sounddevice's cleanup at the exit would wait for it."""
    if cleanup := getattr(sys.modules.get("sounddevice"), "_exit_handler", None):
        atexit.unregister(cleanup)
