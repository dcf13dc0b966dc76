"""The Python interface of the ring buffer; threads, index wrap and allocation are tested in C++."""

import ctypes
import time

import numpy as np
import pytest

from asr._core import RingBuffer

CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
)
INPUT_OVERFLOW = 0x2  # paInputOverflow


def ramp(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.float32)


def test_samples_come_out_in_order() -> None:
    ring = RingBuffer(1000)
    assert ring.capacity == 1024
    assert ring.write(ramp(0, 600)) == 600
    assert ring.num_available == 600
    samples, gap = ring.read(100)
    np.testing.assert_array_equal(samples, ramp(0, 100))
    assert samples.dtype == np.float32
    assert gap == 0
    assert ring.write(ramp(600, 500)) == 500  # across the end of the memory
    samples, gap = ring.read(5000)
    np.testing.assert_array_equal(samples, ramp(100, 1000))
    assert (ring.sample_offset, ring.num_written, ring.num_dropped) == (1100, 1100, 0)
    samples, gap = ring.read(10)
    assert (samples.shape, gap) == ((0,), 0)


def test_int16_is_scaled() -> None:
    ring = RingBuffer(4)
    ring.write(np.array([-32768, 0, 16384, 32767], np.int16))
    np.testing.assert_array_equal(ring.read(4)[0], np.array([-1, 0, 0.5, 32767 / 32768], np.float32))


def test_full_ring_drops_new_samples_and_reports_where() -> None:
    ring = RingBuffer(8)
    assert ring.write(ramp(0, 11)) == 8
    assert ring.num_dropped == 3
    np.testing.assert_array_equal(ring.read(2)[0], ramp(0, 2))
    assert ring.write(ramp(11, 1)) == 1
    samples, gap = ring.read(100)  # stops in front of the gap
    np.testing.assert_array_equal(samples, ramp(2, 6))
    assert gap == 0
    samples, gap = ring.read(100)
    np.testing.assert_array_equal(samples, ramp(11, 1))
    assert gap == 3
    assert ring.sample_offset - len(samples) == 11
    ring.write(ramp(12, 10))
    ring.read(100)
    samples, gap = ring.read(100)  # a gap at the end
    assert (samples.shape, gap, ring.sample_offset) == ((0,), 2, 22)


def test_portaudio_callback_writes_without_python() -> None:
    ring = RingBuffer(64)
    function, userdata = ring.callback_pointers(channel=1, num_channels=2)
    callback = CALLBACK(function)
    frames = np.arange(20, dtype=np.float32).reshape(10, 2)
    assert (ring.num_callbacks, ring.first_callback_ns, ring.last_callback_ns) == (0, 0, 0)
    before = time.monotonic_ns()
    assert callback(frames.ctypes.data, None, 10, None, 0, userdata) == 0
    assert callback(frames.ctypes.data, None, 10, None, INPUT_OVERFLOW, userdata) == 0
    after = time.monotonic_ns()
    assert (ring.num_callbacks, ring.num_input_overflows) == (2, 1)
    assert before <= ring.first_callback_ns <= ring.last_callback_ns <= after
    np.testing.assert_array_equal(ring.read(100)[0], np.tile(frames[:, 1], 2))
    assert ring.callback_pointers(1, 2) == (function, userdata)


@pytest.mark.parametrize("capacity", [0, -5, 2**30 + 1])
def test_capacity_is_checked(capacity: int) -> None:
    assert RingBuffer(1).capacity == 1
    with pytest.raises(ValueError, match=f"between 1 and 2\\*\\*30 samples, got {capacity}"):
        RingBuffer(capacity)


@pytest.mark.parametrize(
    ("samples", "error"),
    [
        (np.zeros(4), TypeError),
        (np.zeros(4, np.uint8), TypeError),
        (b"1234", TypeError),
        (np.zeros((4, 1), np.float32), ValueError),
        (np.zeros(8, np.int16)[::2], ValueError),
    ],
)
def test_samples_are_not_cast(samples: object, error: type[Exception]) -> None:
    ring = RingBuffer(8)
    with pytest.raises(error, match="samples must"):
        ring.write(samples)  # type: ignore[arg-type]
    assert ring.num_written == 0


def test_negative_read_is_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        RingBuffer(8).read(-1)
