"""The example for phone calls: a dialogue of messages as Twilio sends them, about the bundled recording."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
import soxr
from support.server import serving
from websockets.sync.client import connect

EXAMPLE = Path(__file__).parents[2] / "examples" / "twilio_call.py"
CALL, STREAM = "CA123", "MZ456"
FRAME = 160
"""Bytes of a message: 20 ms."""


def call(sample: np.ndarray) -> Iterator[str]:
    """The messages of a call whose caller says the sample, while the other side is noise."""
    audio = io.BytesIO()
    soundfile.write(audio, soxr.resample(sample, 16000, 8000), 8000, format="RAW", subtype="ULAW")
    caller = audio.getvalue()
    callee = np.random.default_rng(1).bytes(len(caller))
    format = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    start = {"streamSid": STREAM, "callSid": CALL, "tracks": ["inbound", "outbound"], "mediaFormat": format}
    yield json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"})
    yield json.dumps({"event": "start", "sequenceNumber": "1", "start": start, "streamSid": STREAM})
    for begin in range(0, len(caller), FRAME):
        for track, data in (("inbound", caller), ("outbound", callee)):
            payload = base64.b64encode(data[begin : begin + FRAME]).decode()
            media = {"track": track, "chunk": str(begin // FRAME + 1), "timestamp": str(begin // 8), "payload": payload}
            yield json.dumps({"event": "media", "media": media, "streamSid": STREAM})
    yield json.dumps({"event": "stop", "stop": {"callSid": CALL}, "streamSid": STREAM})


def test_a_call_is_printed(sample: np.ndarray) -> None:
    with serving("--search", "beam") as server:
        command = [sys.executable, str(EXAMPLE), "0", f"{server.ws_url}/v1/realtime"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as example:
            try:
                assert example.stdout is not None
                port = example.stdout.readline().split()[-1]
                with connect(f"ws://127.0.0.1:{port}") as twilio:
                    for message in call(sample):
                        twilio.send(message)
                    assert list(twilio) == []  # the example closes the connection
            finally:
                example.terminate()
            said, errors = example.communicate(timeout=60)
    assert errors == ""
    lines = said.splitlines()
    assert lines and all(line.startswith(f"{CALL}: ") for line in lines)
    assert "the old man" in said.lower() and "children" in said.lower()
