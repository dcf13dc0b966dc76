"""CPU time of the streaming filterbank against kaldi-native-fbank, same settings, one process, one thread.

    python benchmarks/fbank_vs_kaldi_native.py [--seconds 300] [--repeats 5]

Both get the same audio in pushes of 100 ms. Measures the pushes alone, which compute the features, and the pushes with
every frame fetched as NumPy. The best repeat counts; rounds alternate, so that a change of clock or a busy machine
affects both. Only this benchmark needs kaldi-native-fbank: pip install kaldi-native-fbank
"""

import argparse
import time
from collections.abc import Callable

import kaldi_native_fbank as knf
import numpy as np

from asr._core import Fbank

SAMPLE_RATE = 16000
NUM_BINS = 80
PUSH = SAMPLE_RATE // 10


def speech_like(num_seconds: float) -> np.ndarray:
    """Noise in bursts of 4 Hz, shape (num_samples,) float32."""
    time_s = np.arange(int(num_seconds * SAMPLE_RATE)) / SAMPLE_RATE
    noise = np.random.default_rng(0).normal(0.0, 0.1, time_s.size)
    return (noise * np.sin(2 * np.pi * 2 * time_s) ** 2).astype(np.float32)


def run_ours(samples: np.ndarray, fetch: bool) -> np.ndarray | None:
    fbank = Fbank()
    chunks = []
    num_fetched = 0
    for start in range(0, samples.size, PUSH):
        fbank.accept_waveform(samples[start : start + PUSH])
        if fetch:
            chunks.append(fbank.get_frames(num_fetched, fbank.num_frames_ready - num_fetched))
            num_fetched = fbank.num_frames_ready
            fbank.discard_frames(num_fetched)
    return np.concatenate(chunks) if fetch else None


def run_theirs(samples: np.ndarray, fetch: bool) -> np.ndarray | None:
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = SAMPLE_RATE
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = NUM_BINS
    options.mel_opts.low_freq = 20.0
    options.mel_opts.high_freq = 7600.0
    fbank = knf.OnlineFbank(options)
    frames: list[np.ndarray] = []
    for start in range(0, samples.size, PUSH):
        fbank.accept_waveform(SAMPLE_RATE, samples[start : start + PUSH])
        if fetch:
            frames.extend(fbank.get_frame(i) for i in range(len(frames), fbank.num_frames_ready))
    return np.stack(frames) if fetch else None


def cpu_time_s(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="length of the audio")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    samples = speech_like(arguments.seconds)

    ours, theirs = run_ours(samples, fetch=True), run_theirs(samples, fetch=True)
    assert ours is not None and theirs is not None
    difference = np.abs(ours - theirs).max()
    print(f"{arguments.seconds:.0f} s of audio, {len(ours)} frames; largest difference of log-mel {difference:.1e}")
    print(f"{'':24s}{'asr-stream':>14s}{'kaldi-native':>14s}{'ratio':>8s}")
    for label, fetch in (("pushes", False), ("pushes and fetching", True)):
        times = [
            (cpu_time_s(lambda: run_ours(samples, fetch)), cpu_time_s(lambda: run_theirs(samples, fetch)))  # noqa: B023
            for _ in range(arguments.repeats)
        ]
        our_us, their_us = (min(column) / len(ours) * 1e6 for column in zip(*times, strict=True))
        print(f"{label:24s}{our_us:9.2f} us/f{their_us:9.2f} us/f{our_us / their_us:8.2f}")


if __name__ == "__main__":
    main()
