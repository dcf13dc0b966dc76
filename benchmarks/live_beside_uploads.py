"""Delay of a live client beside uploads: python benchmarks/live_beside_uploads.py data/dev [--uploads N]

A server with default settings serves, one after the other and for --rounds:

    live      one client of vosk-server's protocol, which speaks in real time, in messages of 100 ms
    uploads   --uploads clients of OpenAI's API for files, which send a file of --minutes again and again
    both      all of them

The delay of a message is the time from its last sample until its reply; it counts as a partial if the reply has other
text than the one before, and as a final if the reply has an utterance. The throughput of the uploads is the audio of
the utterances that arrive during the phase. Only the ratios mean something on a busy machine. `refused` counts live
clients that the server refuses. It needs: pip install 'asr-stream[train,server]'
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import socket
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import soundfile
from command import new_parser, show
from streams import MESSAGE, SAMPLE_RATE, Server, read_audio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

BOUNDARY = "live-beside-uploads"
WARM_UP_S = 5.0
"""Seconds of the uploads before their throughput and the live client count."""


@dataclass
class Delays:
    """Seconds of each reply with new text; finals are those with an utterance."""

    partial: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    num_refused: int = 0

    def add(self, delay_s: float, reply: dict[str, Any], shown: str) -> str:
        """Counts a reply that came after one that showed the text `shown`; returns what is shown now."""
        if reply.get("text"):
            self.final.append(delay_s)
        elif reply.get("partial", "") not in ("", shown):
            self.partial.append(delay_s)
        return str(reply.get("partial", ""))


async def speak(url: str, samples: np.ndarray, delays: Delays) -> None:
    """A live client that speaks `samples`, (num_samples,) int16 at 16 kHz, a whole number of messages."""
    try:
        connection = await connect(f"{url}/vosk", compression=None, open_timeout=60, ping_interval=None)
    except InvalidStatus:
        delays.num_refused += 1
        await asyncio.sleep(len(samples) / SAMPLE_RATE)
        return
    async with connection as server:
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


class Uploads:
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
    uploads = Uploads(port, file, num_uploads)
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


def row(name: str, found: list[tuple[Delays, float]], utterance_s: float) -> dict[str, Any]:
    """Percentiles of the delays in milliseconds, and the uploads' seconds of audio per second."""
    values: dict[str, Any] = {"phase": name}
    for kind in ("partial", "final"):
        seconds = [delay for delays, _ in found for delay in getattr(delays, kind)] or [np.nan]
        values |= {f"{kind}_ms_p{p}": round(1000 * float(np.percentile(seconds, p)), 1) for p in (50, 95)}
    values["refused"] = sum(delays.num_refused for delays, _ in found)
    values["uploads_s_per_s"] = round(utterance_s * float(np.mean([rate for _, rate in found])), 2)
    return values


def ratios(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Both over each alone."""
    values: dict[str, Any] = {"phase": "ratio", "refused": ""}
    for name, both in rows["both"].items():
        if name not in values:
            alone = rows["uploads" if name.startswith("uploads") else "live"][name]
            values[name] = round(both / alone, 2) if alone else np.nan
    return values


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--uploads", type=int, default=4, metavar="N", help="clients that upload (default 4)")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the uploaded file (default 10)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a phase (default 60)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="the phases alternate (default 1)")
    parser.add_argument("--server-python", default=sys.executable, help="of another installation, to compare with")
    args = parser.parse_args()

    audio = read_audio(args.data, args.num_utterances or 40)
    live = np.resize(audio, round(10 * args.seconds) * MESSAGE)
    file = wav(np.resize(audio, round(60 * args.minutes * SAMPLE_RATE)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [args.server_python, "-m", "asr.streaming.terminal.cli", "serve", "--port", str(port)]
    command += ["--model", args.model] if args.model else []
    found: dict[str, list[tuple[Delays, float]]] = defaultdict(list)
    with Server(command, f"http://127.0.0.1:{port}", answers_all=True, chunk_ms=0).running(None):
        utterance_s = seconds_of_utterance(port, audio)
        for _ in range(args.rounds):
            found["live"].append(measure(port, live, file, 0, args.seconds))
            found["uploads"].append(measure(port, None, file, args.uploads, args.seconds))
            found["both"].append(measure(port, live, file, args.uploads, args.seconds))
    rows = {name: row(name, values, utterance_s) for name, values in found.items()}
    show([*rows.values(), ratios(rows)], args)


def seconds_of_utterance(port: int, audio: np.ndarray) -> float:
    """Seconds of audio for each utterance that an upload of `audio` returns."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection.request("POST", "/v1/audio/transcriptions", form(wav(audio)), headers)
    with connection.getresponse() as response:
        num_utterances = response.read().count(b"transcript.text.delta")
    return len(audio) / SAMPLE_RATE / max(num_utterances, 1)


if __name__ == "__main__":
    main()
