"""Delay of a live client beside uploads: python benchmarks/live_beside_uploads.py data/dev

Three phases: `live`, one client that speaks in real time, in messages of 100 ms; `uploads`, --uploads clients that send
a file of --minutes again and again; `both`. The delay is the time from the last sample of a message until the text that
it completes: a partial or a final. The throughput of the uploads is in seconds of audio per second.

In process: the scheduler of the server on --cores simulated cores, each for the CPU time that a turn takes, so that a
busy machine does not matter. Sockets and decoding take no time. `equal` is both, with uploads scheduled like live
streams. Socket: a server with default settings, and clients of vosk-server's protocol and of OpenAI's API for files.
These are wall-clock times: run it on an idle machine; --no-socket leaves it out.
It needs: pip install 'asr-stream[train,server]'
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import http.client
import io
import json
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from command import new_parser, show
from streams import MESSAGE, SAMPLE_RATE, Server, read_audio
from websockets.asyncio.client import connect

from asr import Recognizer
from asr.streaming import Final, Partial
from asr.streaming.server import scheduler as scheduling
from asr.streaming.server.scheduler import Job, Report, Scheduler

BOUNDARY = "live-beside-uploads"
WARM_UP_S = 5.0
"""Seconds of the uploads before their throughput and the live client count."""


@dataclass
class Delays:
    """Seconds until each new text."""

    partial: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)

    def add(self, delay_s: float, reply: dict[str, Any], shown: str) -> str:
        """Counts a reply that came after one that showed the text `shown`; returns what is shown now."""
        if reply.get("text"):
            self.final.append(delay_s)
        elif reply.get("partial", "") not in ("", shown):
            self.partial.append(delay_s)
        return str(reply.get("partial", ""))


async def speak(url: str, samples: np.ndarray, delays: Delays) -> None:
    """A live client that speaks `samples`, (num_samples,) int16 at 16 kHz, a whole number of messages."""
    async with connect(f"{url}/vosk", compression=None, open_timeout=60, ping_interval=None) as server:
        await server.send(json.dumps({"config": {"sample_rate": SAMPLE_RATE, "words": 0}}))
        began = time.monotonic()
        num_messages = len(samples) // MESSAGE

        async def receive() -> None:
            shown = ""
            for number in range(1, num_messages + 1):
                reply = json.loads(await server.recv())
                shown = delays.add(time.monotonic() - began - 0.1 * number, reply, shown)

        receiving = asyncio.create_task(receive())
        for number in range(num_messages):
            await asyncio.sleep(began + 0.1 * (number + 1) - time.monotonic())
            await server.send(samples[MESSAGE * number : MESSAGE * (number + 1)].tobytes())
        await receiving


def cpu_s() -> float:
    """CPU time of this thread so far."""
    return time.thread_time()


class Cores(Scheduler):
    """The server's scheduler in virtual time: its turns are computed one after the other, and each occupies one of
    `num_cores` cores for its CPU time."""

    def __init__(self, num_cores: int) -> None:
        self.now = 0.0
        self._num_free = num_cores
        self._coming: list[tuple[float, int, Callable[[], None]]] = []
        self._num_planned = 0
        super().__init__(num_threads=1, clock=lambda: self.now)

    def _work(self) -> None:
        """No thread computes."""

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._num_planned += 1
        heapq.heappush(self._coming, (when, self._num_planned, action))

    def run(self, until_s: float) -> None:
        while self.now < until_s:
            while self._num_free and self.num_waiting:
                self._begin(self._take_batch())
            self.now, _, action = heapq.heappop(self._coming)
            action()

    def _begin(self, batch: list[Job]) -> None:
        self._num_free -= 1
        begun, kind = self.now, scheduling._batch_kind(batch[0])
        cpu = cpu_s()
        scheduling._compute(batch)
        cpu = cpu_s() - cpu

        def end() -> None:
            rest = cpu_s()
            audio_s = self._go_on(batch)
            rest = cpu_s() - rest
            self._count(batch, kind, self.now - begun + rest, audio_s)
            self.at(self.now + rest, free)

        def free() -> None:
            self._num_free += 1

        self.at(begun + cpu, end)


class LiveClient:
    """Sends a message every 100 ms of virtual time."""

    def __init__(self, cores: Cores, recognizer: Recognizer, samples: np.ndarray) -> None:
        self.delays = Delays()
        self._cores = cores
        self._job = Job(recognizer, self._report)
        self._came: deque[float] = deque()
        for number, begin in enumerate(range(0, len(samples), MESSAGE), 1):
            cores.at(0.1 * number, partial(self._send, samples[begin : begin + MESSAGE]))

    def _send(self, message: np.ndarray) -> None:
        self._came.append(self._cores.now)
        self._cores.submit(self._job, lambda stream: stream.accept_waveform(message), len(message) / SAMPLE_RATE)

    def _report(self, report: Report) -> None:
        # Of the calls that are done in a turn, only the first one waited for the network.
        delay_s = self._cores.now - self._came[0] if self._came else 0.0
        for _ in range(report.num_done):
            self._came.popleft()
        if any(isinstance(event, Final) for event in report.events):
            self.delays.final.append(delay_s)
        elif any(isinstance(event, Partial) for event in report.events):
            self.delays.partial.append(delay_s)


class Upload:
    """Sends pieces of a second, always QUEUED_S ahead. `done_s`: seconds of audio that were recognized."""

    QUEUED_S = 10

    def __init__(self, cores: Cores, recognizer: Recognizer, samples: np.ndarray, is_upload: bool) -> None:
        self.done_s = 0.0
        self._cores, self._samples = cores, samples
        self._job = Job(recognizer, self._report, is_upload)
        self._at = 0
        for _ in range(self.QUEUED_S):
            self._send()

    def _send(self) -> None:
        piece = self._samples[self._at : self._at + SAMPLE_RATE]
        self._at = (self._at + SAMPLE_RATE) % len(self._samples)
        self._cores.submit(self._job, lambda stream: stream.accept_waveform(piece), len(piece) / SAMPLE_RATE)

    def _report(self, report: Report) -> None:
        self.done_s += report.done_s
        for _ in range(report.num_done):
            self._send()


def simulate(
    args: argparse.Namespace,
    recognizer: Recognizer,
    audio: np.ndarray,
    live: bool,
    num_uploads: int,
    is_upload: bool = True,
) -> tuple[Delays, float]:
    """The delays of the live client, and the uploads' seconds of audio per second."""
    cores = Cores(args.cores)
    delays = Delays()
    if live:
        delays = LiveClient(cores, recognizer, np.resize(audio, round(10 * args.seconds) * MESSAGE)).delays
    # Each begins elsewhere, so that they do not need the same network at the same time.
    uploads = [
        Upload(cores, recognizer, np.roll(audio, -len(audio) * number // num_uploads), is_upload)
        for number in range(num_uploads)
    ]
    cores.run(args.seconds)
    return delays, sum(upload.done_s for upload in uploads) / args.seconds


class UploadClients:
    """Clients that send a file again and again until they are stopped. `num_utterances`: those that came so far."""

    def __init__(self, port: int, file: bytes, num_clients: int) -> None:
        self._port = port
        self._body = form(file)
        self._stopped = threading.Event()
        self._connections: list[http.client.HTTPConnection] = []
        self.num_utterances = 0
        self.num_refused = 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(num_clients)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for connection in self._connections:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with suppress(OSError, http.client.HTTPException):
                self._upload()

    def _upload(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        self._connections.append(connection)
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        connection.request("POST", "/v1/audio/transcriptions", self._body, headers)
        with connection.getresponse() as response:
            if response.status != 200:
                with self._lock:
                    self.num_refused += 1
                self._stopped.wait(1.0)
            for line in response:
                if b"transcript.text.delta" in line:
                    with self._lock:
                        self.num_utterances += 1


def form(file: bytes) -> bytes:
    """The body of an upload whose utterances are sent as soon as they are recognized."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
    head += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return head.encode() + file + f"\r\n--{BOUNDARY}--\r\n".encode()


def wav(samples: np.ndarray) -> bytes:
    output = io.BytesIO()
    soundfile.write(output, samples, SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return output.getvalue()


def measure(port: int, live: np.ndarray | None, file: bytes, num_uploads: int, seconds: float) -> tuple[Delays, float]:
    """The delays of the live client, and the uploads' utterances per second. live: None for uploads alone."""
    delays = Delays()
    uploads = UploadClients(port, file, num_uploads)
    try:
        if num_uploads:
            time.sleep(WARM_UP_S)
        before, began = uploads.num_utterances, time.monotonic()
        if live is None:
            time.sleep(seconds)
        else:
            asyncio.run(speak(f"ws://127.0.0.1:{port}", live, delays))
        rate = (uploads.num_utterances - before) / (time.monotonic() - began)
    finally:
        uploads.stop()
    if uploads.num_refused:
        print(f"the server refused {uploads.num_refused} uploads", file=sys.stderr)
    return delays, rate


def row(where: str, phase: str, delays: Delays, uploads_s: float) -> dict[str, Any]:
    """Percentiles of the delays in milliseconds, and the uploads' seconds of audio per second."""
    values: dict[str, Any] = {"where": where, "phase": phase}
    for kind in ("partial", "final"):
        seconds = getattr(delays, kind) or [np.nan]
        values |= {f"{kind}_ms_p{p}": round(1000 * float(np.percentile(seconds, p)), 1) for p in (50, 95)}
    return values | {"uploads_s_per_s": round(uploads_s, 2)}


def with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """rows: of live, uploads, and then others. Each other is followed by its ratios to the two alone."""
    live, uploads, *others = rows
    result = [live, uploads]
    for other in others:
        result += [other, {"where": other["where"], "phase": f"{other['phase']}, ratio"}]
        for name in list(other)[2:]:
            alone = (uploads if name.startswith("uploads") else live)[name]
            result[-1][name] = round(other[name] / alone, 2) if alone else np.nan
    return result


def simulated(args: argparse.Namespace, audio: np.ndarray) -> list[dict[str, Any]]:
    run = partial(simulate, args, Recognizer(args.model), audio)
    phases = {
        "live": run(True, 0),
        "uploads": run(False, args.uploads),
        "both": run(True, args.uploads),
        "equal": run(True, args.uploads, is_upload=False),
    }
    return [row("in process", phase, *found) for phase, found in phases.items()]


def by_socket(args: argparse.Namespace, audio: np.ndarray) -> list[dict[str, Any]]:
    live = np.resize(audio, round(10 * args.seconds) * MESSAGE)
    file = wav(np.resize(audio, round(60 * args.minutes * SAMPLE_RATE)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [args.server_python, "-m", "asr.streaming.terminal.cli", "serve", "--port", str(port)]
    command += ["--model", str(Path(args.model).resolve())] if args.model else []
    with Server(command, f"http://127.0.0.1:{port}", answers_all=True, chunk_ms=0).running(None):
        utterance_s = seconds_of_utterance(port, audio)
        phases = {
            "live": measure(port, live, file, 0, args.seconds),
            "uploads": measure(port, None, file, args.uploads, args.seconds),
            "both": measure(port, live, file, args.uploads, args.seconds),
        }
    return [row("socket", phase, delays, utterance_s * rate) for phase, (delays, rate) in phases.items()]


def seconds_of_utterance(port: int, audio: np.ndarray) -> float:
    """Seconds of audio for each utterance that an upload of `audio` returns."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection.request("POST", "/v1/audio/transcriptions", form(wav(audio)), headers)
    with connection.getresponse() as response:
        num_utterances = response.read().count(b"transcript.text.delta")
    return len(audio) / SAMPLE_RATE / max(num_utterances, 1)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--uploads", type=int, default=4, metavar="N", help="clients that upload (default 4)")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the file over the socket (default 10)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a phase (default 60)")
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="simulated cores (default 2)")
    parser.add_argument("--no-socket", action="store_true", help="only in process")
    parser.add_argument("--server-python", default=sys.executable, help="of another installation, for the socket")
    args = parser.parse_args()
    audio = read_audio(args.data, args.num_utterances or 40)
    rows = with_ratios(simulated(args, audio))
    if not args.no_socket:
        rows += with_ratios(by_socket(args, audio))
    show(rows, args)


if __name__ == "__main__":
    main()
