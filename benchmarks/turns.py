"""Delays as voice agents measure them: python benchmarks/turns.py data/dev --num-utterances 40

Each utterance is a turn, followed by 3 s of quiet noise. Times are from when a word was spoken, by the forced
alignment of the transcript with the float32 model, to when its text was available, including computation and waiting:

- final: time to the final segment, from the end of the last word to the last final: with the configured endpoint, and
  with a client that detects the end of speech 0.2 s after the last word and then commits (`vad`).
- first partial: from the beginning of the first word to the first text.
- word: word emission latency, from the end of a right word to the partial that first showed it for good.
- unstable: unstable partial word ratio, the share of the shown words that a later partial changes.

In process: one stream, blocks of 40 ms, CPU time, so that a busy machine does not matter. Socket: a server with its
defaults and --streams clients, which send audio in real time: partials over vosk-server's protocol, finals over
OpenAI's Realtime, which voice agents use. These are wall-clock times: run it on an idle machine.
It needs: pip install 'asr-stream[train,server]'
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from command import aligned_words, new_parser, progress, room_tone, show, utterances
from stability import Tally, follow
from streams import Server
from websockets.asyncio.client import connect

from asr import Recognizer
from asr.evaluation.wer import matched_words
from asr.features import SAMPLE_RATE
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import Word
from asr.streaming import Event, Final, Partial

BLOCK_S = 0.04
QUIET_S = 3.0
"""Noise after an utterance, longer than any endpoint waits."""
VAD_S = 0.2
REALTIME_RATE = 24000

Timed = list[tuple[float, Event]]
"""Events, each with the seconds from when the first sample was spoken until it was available."""


@dataclass(frozen=True)
class Turn:
    """samples: (num_samples,) int16 at 16 kHz. words: of the transcript, as aligned."""

    samples: np.ndarray
    words: list[Word]

    @property
    def commit_s(self) -> float:
        """Time when a client detects the end of speech."""
        return self.words[-1].end + VAD_S


def new_turn(clip: Any, aligner: OnnxModel) -> Turn:
    samples = clip.waveform()
    words = aligned_words(aligner, samples, clip.text)
    audio = np.concatenate([samples, room_tone(samples, QUIET_S)])
    return Turn(np.round(32767 * np.clip(audio, -1, 1)).astype(np.int16), words)


def in_process(recognizer: Recognizer, turn: Turn, commits: bool) -> Timed:
    """The events of a stream that gets audio in real time and is delayed by its CPU time."""
    stream = recognizer.stream()
    block = round(BLOCK_S * SAMPLE_RATE)
    timed: Timed = []
    now = 0.0
    for begin in range(0, len(turn.samples), block):
        spoken_s = (begin + block) / SAMPLE_RATE
        started = time.process_time()
        stream.accept_waveform(turn.samples[begin : begin + block])
        is_over = commits and spoken_s >= turn.commit_s
        if is_over:
            stream.end_utterance()
        now = max(now, spoken_s) + time.process_time() - started
        timed += [(now, event) for event in stream.events()]
        if is_over:
            break
    return timed


class Clock:
    """Seconds since the first sample was spoken."""

    def __init__(self, wait_s: float) -> None:
        self._begin = time.monotonic() + wait_s

    def __call__(self) -> float:
        return time.monotonic() - self._begin

    async def blocks(self, samples: np.ndarray, rate: int, end_s: float = np.inf) -> AsyncIterator[bytes]:
        """Yields the audio in blocks, each after its last sample was spoken. No block begins after `end_s`."""
        block = round(BLOCK_S * rate)
        for begin in range(0, len(samples), block):
            if begin / rate >= end_s:
                return
            await asyncio.sleep((begin + block) / rate - self())
            yield samples[begin : begin + block].astype("<i2").tobytes()


async def by_vosk(url: str, turn: Turn, wait_s: float) -> Timed:
    """Partials and finals of a turn over vosk-server's protocol."""
    async with connect(f"{url}/vosk", compression=None, open_timeout=60, ping_interval=None) as server:
        await server.send(json.dumps({"config": {"sample_rate": SAMPLE_RATE, "words": 0}}))
        clock = Clock(wait_s)
        timed: Timed = []

        async def receive() -> None:
            async for reply in server:
                event = json.loads(reply)
                kind, text = (Final, event["text"]) if "text" in event else (Partial, event["partial"])
                timed.append((clock(), kind(text.upper(), 0, 0)))

        receiving = asyncio.create_task(receive())
        async for block in clock.blocks(turn.samples, SAMPLE_RATE):
            await server.send(block)
        await server.send('{"eof": 1}')
        await receiving
    return timed


async def by_realtime(url: str, turn: Turn, wait_s: float, commits: bool) -> Timed:
    """Finals of a turn over OpenAI's Realtime protocol."""
    samples = soxr.resample(turn.samples, SAMPLE_RATE, REALTIME_RATE)
    detection = None if commits else {"type": "server_vad"}
    session = {"type": "transcription", "audio": {"input": {"turn_detection": detection}}}
    async with connect(
        f"{url}/v1/realtime?intent=transcription", compression=None, open_timeout=60, ping_interval=None
    ) as server:
        await server.send(json.dumps({"type": "session.update", "session": session}))
        while json.loads(await server.recv())["type"] != "session.updated":
            pass
        clock = Clock(wait_s)
        timed: Timed = []
        committed = asyncio.Event()

        async def receive() -> None:
            async for message in server:
                event = json.loads(message)
                if event["type"] == "error":
                    raise SystemExit(event["error"]["message"])
                if event["type"].endswith("transcription.completed"):
                    timed.append((clock(), Final(event["transcript"], 0, 0)))
                    committed.set()

        receiving = asyncio.create_task(receive())
        async for block in clock.blocks(samples, REALTIME_RATE, turn.commit_s if commits else np.inf):
            audio = base64.b64encode(block).decode()
            await server.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        if commits:
            await server.send('{"type": "input_audio_buffer.commit"}')
            await committed.wait()
        else:
            await asyncio.sleep(1.0)  # wait for the last final
        await server.close()
        await receiving
    return timed


async def at_once(clients: Sequence[Callable[[float], Awaitable[Timed]]], num: int) -> list[Timed]:
    """Runs the clients, `num` at a time. Each starts at a random time, so that their chunks do not end together."""
    free = asyncio.Semaphore(num)
    chance = random.Random(0)

    async def one(client: Callable[[float], Awaitable[Timed]], wait_s: float) -> Timed:
        async with free:
            return await client(wait_s)

    return await asyncio.gather(*(one(client, chance.uniform(0, 1)) for client in clients))


def time_to_final_ms(turn: Turn, timed: Timed) -> float | None:
    """From the end of speech to the last final; None if there is none after it."""
    times = [1000 * (when - turn.words[-1].end) for when, event in timed if isinstance(event, Final) and event.text]
    return times[-1] if times and times[-1] > 0 else None


def percentiles(name: str, values: Sequence[float | None], which: Sequence[int]) -> dict[str, float]:
    known = [value for value in values if value is not None] or [np.nan]
    return {f"{name}_ms_p{p}": round(float(np.percentile(known, p)), 1) for p in which}


def partials_row(turns: Sequence[Turn], all_timed: Sequence[Timed]) -> dict[str, float]:
    """Time to the first partial, word emission latency and unstable partial word ratio."""
    tally = Tally()
    first: list[float] = []
    latencies: list[float] = []
    for turn, timed in zip(turns, all_timed, strict=True):
        first += [1000 * (when - turn.words[0].start) for when, event in timed if event.text][:1]
        stood = follow(timed, tally)
        for i, j in matched_words([word.word for word in turn.words], [item.word for item in stood]):
            latencies.append(1000 * (stood[j].shown_s - turn.words[i].end))
    row = percentiles("first_partial", first, (50, 95, 99)) | percentiles("word", latencies, (50, 90, 99))
    return row | {"unstable": round(tally.changed / max(tally.shown, 1), 3)}


def finals_row(turns: Sequence[Turn], by_endpoint: Sequence[Timed], by_commit: Sequence[Timed]) -> dict[str, float]:
    """Time to the final segment."""
    row: dict[str, float] = {}
    for name, all_timed in (("final", by_endpoint), ("final_vad", by_commit)):
        times = [time_to_final_ms(turn, timed) for turn, timed in zip(turns, all_timed, strict=True)]
        row |= percentiles(name, times, (50, 95, 99))
    return row


def measured_in_process(turns: Sequence[Turn], recognizer: Recognizer, name: str) -> dict[str, float]:
    by_endpoint, by_commit = (
        [in_process(recognizer, turn, commits) for turn in progress(turns, name)] for commits in (False, True)
    )
    return finals_row(turns, by_endpoint, by_commit) | partials_row(turns, by_endpoint)


def measured_by_socket(turns: Sequence[Turn], num_streams: int, options: Sequence[str]) -> dict[str, float]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "asr.streaming.terminal.cli", "serve", "--port", str(port), *options]
    url = f"ws://127.0.0.1:{port}"
    with Server(command, url, answers_all=True, chunk_ms=0).running(None):
        clients = [
            partial(client, url, turn)
            for turn in turns
            for client in (by_vosk, partial(by_realtime, commits=False), partial(by_realtime, commits=True))
        ]
        timed = asyncio.run(at_once(clients, num_streams))
    return finals_row(turns, timed[1::3], timed[2::3]) | partials_row(turns, timed[::3])


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--aligner", help="an exported float32 model to align with; default: the bundled one")
    parser.add_argument("--chunk-ms", default="640,160", metavar="MS,...")
    parser.add_argument("--streams", type=int, default=8, metavar="N", help="clients at once; 0: no socket (default 8)")
    args = parser.parse_args()
    if args.model and args.model != "bundled":
        args.model = str(Path(args.model).resolve())  # the server runs in a folder of its own

    aligner = OnnxModel(args.aligner or bundled_model("float32"))
    turns = [new_turn(clip, aligner) for clip in progress(utterances(args), "alignment")]
    rows: list[dict[str, Any]] = []
    for chunk_ms in map(int, args.chunk_ms.split(",")):
        recognizer = Recognizer(args.model, chunk_ms=chunk_ms, text="plain")
        where = {"chunk_ms": chunk_ms, "turns": len(turns)}
        rows.append(where | {"streams": 0} | measured_in_process(turns, recognizer, f"{chunk_ms} ms"))
        if args.streams:
            options = ["--chunk-ms", str(chunk_ms), *(["--model", args.model] if args.model else [])]
            rows.append(where | {"streams": args.streams} | measured_by_socket(turns, args.streams, options))
    show(rows, args)


if __name__ == "__main__":
    main()
