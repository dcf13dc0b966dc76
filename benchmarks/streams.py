"""Measures how many real-time streams a core can serve: our server's, and sherpa-onnx's with the same weights.

    asr export bundled --target sherpa-onnx -o sherpa
    python benchmarks/streams.py data/dev --sherpa sherpa [--plot streams.png]

Each client sends real utterances with pauses of a second, in real time, in messages of 100 ms. The delay of a chunk is
the time from its last sample until the reply that covers it. Doubling and bisection find the largest number of streams
for which 95 % of the delays are below --limit-ms; each number is tried for --seconds with a new server. The server has
one core to itself and the clients another, if there are two.

    batched      asr-stream serve, greedy search, one pass: up to 32 streams in one run of the network
    unbatched    the same, one stream a run
    sherpa-onnx  its websocket server, greedy search, up to 32 streams a run; sherpa-int8 with the file in int8
    default      asr-stream serve as it is by default: language model, second pass, rescoring

Streams wait for each other, so times grow steeply near the limit. CPU is the server's time per second of one stream's
audio, which hardly depends on other programs. --saturated measures only that, also on a busy machine: --first clients
send as fast as they are answered, one chunk ahead, each variant in turn for --rounds. It needs:
pip install 'asr-stream[train,server]' sherpa-onnx-bin
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

SAMPLE_RATE = 16000
MESSAGE = SAMPLE_RATE // 10  # samples
MAX_BATCH = 32
SKIPPED_S = 2.0  # skipped at the start of each stream
GREEDY = ("--search", "greedy", "--no-second-pass")
VARIANTS = {
    "batched": ("--max-batch", str(MAX_BATCH), *GREEDY),
    "unbatched": ("--max-batch", "1", *GREEDY),
    "sherpa-onnx": (),
    "sherpa-int8": (),
    "default": ("--max-batch", str(MAX_BATCH)),
}
THEIRS = {"sherpa-onnx": ".onnx", "sherpa-int8": ".int8.onnx"}


@dataclass
class Step:
    """The result for a number of streams."""

    num_streams: int
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    """CPU time of the server per second of a stream's audio, for the audio that was answered"""
    client_load: float
    """share of their core that the clients used; near 1, the clients are the limit"""


def messages_of_chunk(chunk: int, chunk_ms: int, more_frames: int) -> int:
    """The number of messages until `chunk` can be decoded: its frames of 10 ms have centered windows of 25 ms."""
    last_frame = (chunk + 1) * (chunk_ms // 10) + 2 + more_frames
    return -(-(last_frame * 160 + 280) // MESSAGE)


class Client:
    """A stream. For each chunk: when its last sample was spoken, and when the reply came."""

    def __init__(self, websocket: ClientConnection, messages: list[bytes], server: Server) -> None:
        self._websocket, self._messages, self._server = websocket, messages, server
        self._replied: list[float] = []
        self._began = self._ended = 0.0

    async def run(self, begin: float, seconds: float) -> None:
        self._began, self._ended = begin, begin + seconds + 1.0
        receiving = asyncio.create_task(self._receive())
        with suppress(asyncio.TimeoutError):  # the server accepts no more
            await asyncio.wait_for(self._speak(round(10 * seconds)), self._ended - time.monotonic())
        await asyncio.sleep(self._ended - time.monotonic())
        receiving.cancel()

    async def _speak(self, num_messages: int) -> None:
        for number in range(num_messages):
            await asyncio.sleep(self._began + 0.1 * (number + 1) - time.monotonic())
            await self._websocket.send(self._messages[number % len(self._messages)])

    async def _receive(self) -> None:
        async for _ in self._websocket:
            self._replied.append(time.monotonic())

    async def hurry(self) -> None:
        """Sends endlessly, one chunk ahead of the replies."""
        for number in itertools.count():
            await self._websocket.send(self._messages[number % len(self._messages)])
            while 0.1 * number - self.answered_s > self._server.chunk_ms / 1000 + 0.1:
                await self._websocket.recv()
                self._replied.append(time.monotonic())

    @property
    def answered_s(self) -> float:
        """Seconds of audio that replies have covered."""
        return len(self._replied) * (0.1 if self._server.answers_all else self._server.chunk_ms / 1000)

    def delays(self, skipped_s: float) -> Iterator[float]:
        """Seconds for each chunk; for one without a reply, its waiting time."""
        for chunk in itertools.count():
            message = messages_of_chunk(chunk, self._server.chunk_ms, more_frames=0 if self._server.answers_all else 1)
            spoken = self._began + 0.1 * message
            if spoken > self._ended - 1.0:
                return
            reply = message - 1 if self._server.answers_all else chunk
            if spoken > self._began + skipped_s:
                yield (self._replied[reply] if reply < len(self._replied) else self._ended) - spoken


@dataclass
class Server:
    """A server to be measured."""

    command: list[str]
    url: str
    answers_all: bool
    """whether each message has a reply (vosk-server's protocol); otherwise each chunk has one, a frame after its end
    (sherpa-onnx)"""
    chunk_ms: int

    @contextmanager
    def running(self, core: int | None) -> Iterator[subprocess.Popen[bytes]]:
        """The process, once it listens; ended on exit. core: its own core."""
        pinned = ["taskset", "-c", str(core)] if core is not None else []
        address = urlsplit(self.url)
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([*pinned, *self.command], stdout=log, stderr=log, cwd=folder)
            try:
                while True:
                    with socket.socket() as probe:
                        if probe.connect_ex((address.hostname, address.port)) == 0:
                            break
                    if process.poll() is not None:
                        log.seek(0)
                        raise SystemExit(f"{' '.join(self.command)} ended:\n{log.read().decode()}")
                    time.sleep(0.05)
                yield process
            finally:
                process.kill()
                process.wait()


def max_sessions() -> int:
    """The maximum that the limit of open files allows; a session may need three."""
    return min(100_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 3 - 100)


def their_file(variant: str, args: argparse.Namespace) -> Path:
    return (args.sherpa or Path("sherpa")) / f"zipformer2_ctc.{args.chunk_ms}ms{THEIRS[variant]}"


def make_server(variant: str, args: argparse.Namespace) -> Server:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if variant not in THEIRS:
        more = [
            "--port",
            str(port),
            "--chunk-ms",
            str(args.chunk_ms),
            "--max-sessions",
            str(max_sessions()),
            "--max-load",
            "1e9",
        ]
        more += ["--model", str(args.model.resolve())] if args.model else []
        command = [sys.executable, "-m", "asr.streaming.terminal.cli", "serve", *more, *VARIANTS[variant]]
        return Server(command, f"ws://127.0.0.1:{port}/vosk", True, args.chunk_ms)
    program = "sherpa-onnx-online-websocket-server"
    model = their_file(variant, args).resolve()
    command = [
        shutil.which(program, path=sysconfig.get_path("scripts")) or program,
        f"--port={port}",
        f"--tokens={model.with_name('tokens.txt')}",
        f"--zipformer2-ctc-model={model}",
        f"--max-batch-size={MAX_BATCH}",
        "--num-work-threads=1",
        "--rule1-min-trailing-silence=5",
        "--rule2-min-trailing-silence=0.8",
    ]
    return Server(command, f"ws://127.0.0.1:{port}", False, args.chunk_ms)


def cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def join(stack: AsyncExitStack, server: Server, audio: np.ndarray, num_streams: int) -> list[Client]:
    """Connects `num_streams` clients, each with a different part of the audio."""
    samples = audio if server.answers_all else audio.astype(np.float32) / 32768.0
    messages = [samples[begin : begin + MESSAGE].tobytes() for begin in range(0, len(samples), MESSAGE)]
    clients = []
    for number in range(num_streams):
        websocket = await stack.enter_async_context(
            connect(server.url, compression=None, ping_interval=None, max_queue=None, close_timeout=0)
        )
        if server.answers_all:
            await websocket.send(json.dumps({"config": {"sample_rate": SAMPLE_RATE}}))
        first = number * len(messages) // num_streams
        clients.append(Client(websocket, messages[first:] + messages[:first], server))
    return clients


async def saturated(server: Server, pid: int, audio: np.ndarray, num_streams: int, seconds: float) -> float:
    """CPU time in milliseconds per second of audio while each client sends `seconds` of audio as fast as it is
    answered."""
    async with AsyncExitStack() as stack:
        clients = await join(stack, server, audio, num_streams)
        tasks = [asyncio.create_task(client.hurry()) for client in clients]

        async def until_answered(total_s: float) -> tuple[float, float]:
            while not any(task.done() for task in tasks):
                answered_s = sum(client.answered_s for client in clients)
                if answered_s >= total_s:
                    return answered_s, cpu_s(pid)
                await asyncio.sleep(0.05)
            raise SystemExit(f"a client of {server.url} ended")

        began_s, before = await until_answered(num_streams * SKIPPED_S)
        ended_s, after = await until_answered(began_s + num_streams * seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return 1000 * (after - before) / (ended_s - began_s)


async def speak(server: Server, pid: int, audio: np.ndarray, num_streams: int, seconds: float) -> Step:
    """Runs `num_streams` clients at a running server for `seconds`."""
    generator = random.Random(num_streams)
    async with AsyncExitStack() as stack:
        clients = await join(stack, server, audio, num_streams)
        begin, before, own = time.monotonic() + 0.2, cpu_s(pid), time.process_time()
        # The chunks of different streams must end at different times.
        begins = [begin + generator.uniform(0, server.chunk_ms / 1000) for _ in clients]
        await asyncio.gather(*(client.run(at, seconds) for client, at in zip(clients, begins, strict=True)))
        took, own = cpu_s(pid) - before, time.process_time() - own
        delays = [1000 * delay for client in clients for delay in client.delays(skipped_s=SKIPPED_S)]
    p50, p95 = np.percentile(delays, [50, 95])
    answered_s = max(sum(client.answered_s for client in clients), 0.1)
    return Step(num_streams, p50, p95, 1000 * took / answered_s, own / seconds)


def largest(is_held: Callable[[int], bool], first: int, resolution: float, most: int) -> int:
    """The largest number up to `most` for which `is_held` is true, within `resolution`; 0 if there is none."""
    low, high, number = 0, most + 1, min(first, most)
    while high - low > max(1, resolution * low):
        if is_held(number):
            low = number
        else:
            high = number
        number = (low + high) // 2 if high <= most else min(2 * low, most)
    return low


def read_audio(data: Path, num_utterances: int) -> np.ndarray:
    """Utterances, each followed by a second of silence, as whole messages: (num_samples,) int16."""
    from asr.data.speech import Speech, evenly_spread

    pause = np.zeros(SAMPLE_RATE, np.float32)
    pieces = []
    for clip in evenly_spread(Speech.load(data), num_utterances):
        pieces += [clip.waveform(), pause]
    audio = (32767 * np.clip(np.concatenate(pieces), -1, 1)).astype(np.int16)
    return np.pad(audio, (0, -len(audio) % MESSAGE))


def plot(steps: dict[str, list[Step]], limit_ms: float, path: Path) -> None:
    from asr.evaluation.plots import new_axes

    figure, axes = new_axes(7, 4.5)
    for name, measured in steps.items():
        ordered = sorted(measured, key=lambda step: step.num_streams)
        axes.plot([s.num_streams for s in ordered], [s.p95_ms for s in ordered], marker="o", label=name)
    axes.axhline(limit_ms, color="gray", linestyle="--")
    axes.set_ylim(0, 2 * limit_ms)
    axes.set_xlabel("streams on one core")
    axes.set_ylabel("95 % of replies within, in ms after the chunk")
    axes.legend()
    figure.savefig(path)


def compare(variants: list[str], server_core: int | None, audio: np.ndarray, args: argparse.Namespace) -> None:
    """Prints the CPU time of each variant at full load. Rounds alternate, so that a busy machine affects all
    variants."""
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(args.rounds):
        for name in variants:
            server = make_server(name, args)
            with server.running(server_core) as process:
                taken[name].append(asyncio.run(saturated(server, process.pid, audio, args.first, args.seconds)))
            print(f"{name}: CPU {taken[name][-1]:.2f} ms/s", flush=True)
    print("\n| | server's CPU at full load, ms for a second of audio | streams that a core computes |\n|---|---:|---:|")
    for name, values in taken.items():
        print(f"| {name} | {np.median(values):.2f} | {1000 / np.median(values):.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--model", type=Path, help="default: what the server takes by itself, the bundled one")
    parser.add_argument("--sherpa", type=Path, metavar="FOLDER", help="written by `asr export --target sherpa-onnx`")
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, help="default: all, with --sherpa those of its files"
    )
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--limit-ms", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=20.0, help="that each number of streams is tried (default 20)")
    parser.add_argument("--first", type=int, default=32, metavar="N", help="streams to begin with (default 32)")
    parser.add_argument("--most", type=int, default=2000, metavar="N", help="try no more streams (default 2000)")
    parser.add_argument("--resolution", type=float, default=0.1, help="share of the number found (default 0.1)")
    parser.add_argument("--num-utterances", type=int, default=100, metavar="N")
    parser.add_argument("--saturated", action="store_true", help="measure the CPU time at full load alone")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of --saturated; medians count (default 3)")
    parser.add_argument("--plot", type=Path, metavar="PNG")
    args = parser.parse_args()
    variants = args.variants or [
        name for name in VARIANTS if name not in THEIRS or (args.sherpa and their_file(name, args).exists())
    ]
    for name in set(variants) & set(THEIRS):
        if not (file := their_file(name, args)).exists():
            command = f"asr export bundled --target sherpa-onnx --chunk-ms {args.chunk_ms} -o {file.parent}"
            command += " --int8" * (name == "sherpa-int8")
            parser.error(f"{file} is not there: {command}, then --sherpa {file.parent}")
    if args.seconds <= SKIPPED_S + 1:
        parser.error(f"--seconds {args.seconds:g} must be more than {SKIPPED_S + 1:g}: the first are not counted")

    cores = sorted(os.sched_getaffinity(0))
    server_core = cores[-1] if len(cores) > 1 else None
    if server_core is not None:
        os.sched_setaffinity(0, cores[:1])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    audio = read_audio(args.data, args.num_utterances)
    if args.saturated:
        compare(variants, server_core, audio, args)
        return
    steps: dict[str, list[Step]] = {name: [] for name in variants}
    found = {}
    for name in variants:

        def is_held(num_streams: int, name: str = name) -> bool:
            server = make_server(name, args)
            with server.running(server_core) as process:
                step = asyncio.run(speak(server, process.pid, audio, num_streams, args.seconds))
            steps[name].append(step)
            print(
                f"{name}: {num_streams} streams, p50 {step.p50_ms:.0f} ms, p95 {step.p95_ms:.0f} ms, "
                f"CPU {step.cpu_ms:.2f} ms/s, clients {step.client_load:.0%} busy",
                flush=True,
            )
            return step.p95_ms < args.limit_ms

        found[name] = largest(is_held, args.first, args.resolution, args.most)
    print(
        f"\n| | streams a core, p95 < {args.limit_ms:g} ms | server's CPU, ms for a second of audio |\n|---|---:|---:|"
    )
    for name, number in found.items():
        cpu = min((s.cpu_ms for s in steps[name] if s.num_streams == number), default=float("nan"))
        print(f"| {name} | {number} | {cpu:.2f} |")
    if args.plot:
        plot(steps, args.limit_ms, args.plot)


if __name__ == "__main__":
    main()
