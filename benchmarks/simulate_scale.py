"""Simulates how many replicas a number of live streams needs, how long they wait, and what fails first.

    python benchmarks/simulate_scale.py [--chunk 2.9 1.4]

The cost of a chunk is measured at the start, on this machine, as CPU time (--chunk gives the two numbers instead): of a
single chunk, and of each additional one in the same run of the network. Everything else is simulated. Streams arrive
one after the other, and each goes to the less loaded of two random replicas, as with Ray's router. A replica has one
core; its streams send chunk by chunk with random phases; the core takes waiting chunks, up to --max-batch streams per
run. The delay of a chunk is the time from its arrival to the end of its run, plus --hop-ms for Ray.

A row has the fewest replicas for which 99 % of the delays of the fullest ones are below --limit-ms. The last columns
are loads of shared resources, as fractions of their capacity: `lock`, Python's interpreter lock in a replica; `proxy`,
the core of Ray's own proxy on each machine, which passes on each message.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

CHUNK_S = 0.64
NUM_MEASURED = 40  # chunks per stream
NUM_FULLEST = 8  # simulated replicas per row


@dataclass(frozen=True)
class Costs:
    """CPU times in milliseconds."""

    alone_ms: float
    """a chunk of one stream: features, network, search"""
    more_ms: float
    """each further stream in the same run"""
    sockets_ms: float
    """messages, JSON and event loop, for the messages of a chunk; holds the interpreter lock"""
    locked_ms: float
    """the part of recognition that holds the GIL"""
    proxy_ms: float
    """of Ray's own proxy, for the messages of a chunk"""

    def run_s(self, num_streams: int) -> float:
        return (self.alone_ms + (num_streams - 1) * self.more_ms + num_streams * self.sockets_ms) / 1000


def measure_chunk(num_streams: int) -> float:
    """CPU time in milliseconds of a run of `num_streams` streams with the bundled model and greedy search."""
    from asr import Recognizer
    from asr.streaming.stream import Stream
    from asr.streaming.work import compute

    recognizer = Recognizer(search="greedy", lm=None, second_pass=False)
    streams = [Stream(recognizer, deferred=True) for _ in range(num_streams)]
    generator = np.random.default_rng(1)
    took = []
    for _ in range(NUM_MEASURED):
        audio = (generator.standard_normal((num_streams, round(16000 * CHUNK_S))) * 500).astype(np.int16)
        began = time.process_time()
        for stream, samples in zip(streams, audio, strict=True):
            stream.accept_waveform(samples)
        while any(waiting := [stream.pending() for stream in streams]):
            compute([work for work in waiting if work is not None])
        took.append(time.process_time() - began)
    return 1000 * float(np.median(took))


def assign(num_streams: int, num_replicas: int, generator: random.Random) -> list[int]:
    """Streams of each replica."""
    loads = [0] * num_replicas
    for _ in range(num_streams):
        one, other = generator.randrange(num_replicas), generator.randrange(num_replicas)
        loads[one if loads[one] <= loads[other] else other] += 1
    return loads


def delays_s(num_streams: int, costs: Costs, max_batch: int, seconds: float, generator: random.Random) -> np.ndarray:
    """Delays of the chunks of a replica, in order of arrival."""
    phases = [generator.uniform(0, CHUNK_S) for _ in range(num_streams)]
    arrivals = deque(sorted(phase + CHUNK_S * k for phase in phases for k in range(round(seconds / CHUNK_S))))
    now, delays = 0.0, []
    while arrivals:
        now = max(now, arrivals[0])
        batch = [arrivals.popleft()]
        while arrivals and arrivals[0] <= now and len(batch) < max_batch:
            batch.append(arrivals.popleft())
        now += costs.run_s(len(batch))
        delays += [now - arrival for arrival in batch]
    return np.array(delays)


def p99_ms(num_streams: int, num_replicas: int, costs: Costs, args: argparse.Namespace) -> tuple[float, int]:
    """The 99th percentile of the delays of the fullest replicas, and the number of streams of the fullest."""
    generator = random.Random(num_streams)
    loads = sorted(assign(num_streams, num_replicas, generator))[-NUM_FULLEST:]
    delays = [delays_s(load, costs, args.max_batch, args.seconds, generator) for load in loads if load]
    hop_ms = args.hop_ms if num_replicas > 1 else 0.0
    return 1000 * float(np.percentile(np.concatenate(delays), 99)) + hop_ms, loads[-1]


def fewest_replicas(num_streams: int, costs: Costs, args: argparse.Namespace) -> int:
    """The fewest replicas for which the delays stay below the limit."""
    low, high = 0, 1
    least_ms = p99_ms(1, 2, costs, args)[0]  # of a stream alone in one of several replicas
    while p99_ms(num_streams, high, costs, args)[0] >= args.limit_ms:
        if least_ms >= args.limit_ms:
            raise SystemExit(f"--limit-ms {args.limit_ms:g} cannot be met: a stream alone takes {least_ms:.1f} ms")
        low, high = high, 2 * high
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        if p99_ms(num_streams, middle, costs, args)[0] < args.limit_ms:
            high = middle
        else:
            low = middle
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 10, 100, 10_000, 100_000], metavar="N")
    parser.add_argument("--chunk", type=float, nargs=2, metavar="MS", help="alone, and each further one: not measured")
    parser.add_argument("--sockets-ms", type=float, default=0.6, help="for the messages of a chunk (default 0.6)")
    parser.add_argument("--locked-ms", type=float, default=0.2, help="of Python in recognizing a chunk (default 0.2)")
    parser.add_argument("--proxy-ms", type=float, default=8.6, help="of Ray's proxy for them (default 8.6)")
    parser.add_argument("--hop-ms", type=float, default=2.4, help="round trip through Ray (default 2.4)")
    parser.add_argument("--limit-ms", type=float, default=300.0, help="for 99 %% of the delays (default 300)")
    parser.add_argument("--cores", type=int, default=16, help="of a machine (default 16)")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0, help="that are simulated (default 60)")
    args = parser.parse_args()
    if min(args.streams) < 1 or args.seconds < 2 * CHUNK_S:
        parser.error(f"--streams must be at least 1 and --seconds at least {2 * CHUNK_S:g}")

    alone, more = args.chunk or (measure_chunk(1), 0.0)
    if not args.chunk:
        more = max(0.0, (measure_chunk(16) - alone) / 15)
    costs = Costs(alone, more, args.sockets_ms, args.locked_ms, args.proxy_ms)
    print(f"a chunk of {CHUNK_S:g} s: {alone:.2f} ms alone, {more:.2f} ms each further one in a run")
    print(
        "| streams | replicas, a core each | machines | streams of the fullest | p99 ms | lock | proxy | fails first |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---|")
    for num_streams in args.streams:
        replicas = fewest_replicas(num_streams, costs, args)
        p99, fullest = p99_ms(num_streams, replicas, costs, args)
        machines = -(-replicas // args.cores)
        lock = fullest * (costs.sockets_ms + costs.locked_ms) / 1000 / CHUNK_S
        proxy = num_streams / machines * costs.proxy_ms / 1000 / CHUNK_S if replicas > 1 else 0.0
        work = fullest * costs.run_s(args.max_batch) / args.max_batch / CHUNK_S
        first = max((work, "a replica's core"), (lock, "the lock"), (proxy, "Ray's proxy"))[1]
        print(
            f"| {num_streams} | {replicas} | {machines} | {fullest} | {p99:.0f} | {lock:.2f} | {proxy:.2f} | {first} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
