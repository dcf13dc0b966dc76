"""Captions of phone calls: a server for Twilio's media streams that passes their audio on to `asr-stream serve`.

    asr-stream serve
    python examples/twilio_call.py 8080 [ws://127.0.0.1:8000/v1/realtime]

Twilio connects with wss, so put a proxy with TLS in front of the port, and name it in TwiML:

    <Response><Start><Stream url="wss://calls.example.org/"/></Start><Dial>+15550100</Dial></Response>

Prints each utterance of the caller. Needs `pip install websockets`, and the server's token in ASR_STREAM_TOKEN, if any.
"""

import asyncio
import json
import os
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

UPDATE = {
    "type": "session.update",
    "session": {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcmu"}}}},  # 8 kHz
}


async def show(server: ClientConnection, call: str) -> None:
    """Prints what is recognized until the buffer is cleared, which is the last thing that `serve_call` asks for."""
    async for message in server:
        event = json.loads(message)
        if event["type"] == "error":
            print(f"{call}: {event['error']['message']}", file=sys.stderr, flush=True)
        elif event["type"].endswith("input_audio_transcription.completed") and event["transcript"]:
            print(f"{call}: {event['transcript']}", flush=True)
        elif event["type"] == "input_audio_buffer.cleared":
            return


async def serve_call(twilio: ServerConnection, url: str) -> None:
    """One call, from Twilio's `start` to its `stop`."""
    token = os.environ.get("ASR_STREAM_TOKEN", "any")
    async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}) as server:
        await server.send(json.dumps(UPDATE))
        showing = None
        async for message in twilio:
            event = json.loads(message)
            if event["event"] == "start":
                showing = asyncio.create_task(show(server, event["start"]["callSid"]))
            elif event["event"] == "media" and event["media"]["track"] == "inbound":
                append = {"type": "input_audio_buffer.append", "audio": event["media"]["payload"]}
                await server.send(json.dumps(append))
            elif event["event"] == "stop":
                break
        if showing is not None:
            for kind in ("commit", "clear"):  # the rest of the words, and a sign that they are all
                await server.send(json.dumps({"type": f"input_audio_buffer.{kind}"}))
            await showing


async def main(port: str, url: str = "ws://127.0.0.1:8000/v1/realtime") -> None:
    async with serve(lambda twilio: serve_call(twilio, url), "127.0.0.1", int(port)) as listening:
        print("listening on port", listening.sockets[0].getsockname()[1], flush=True)
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
