"""Formats of audio that telephones and browsers send: values of G.711, and sessions of Realtime with each format."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from support.realtime import WAIT_S, encoded, realtime_server, set_up, talk, until_completed
from support.recognition import recognize, resembles
from support.server import RunningServer, quick_recognizer

from asr import Recognizer
from asr.streaming import Final
from asr.streaming.server.protocols import realtime
from asr.streaming.server.protocols.audio_format import TABLES, AudioFormat
from asr.streaming.server.security.limits import Limits

SUBTYPES = {"pcmu": "ULAW", "pcma": "ALAW"}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    yield from realtime_server()


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    """The server's recognizer."""
    return quick_recognizer()


def g711(samples: np.ndarray, encoding: str) -> bytes:
    """Encoded by libsndfile."""
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="RAW", subtype=SUBTYPES[encoding])
    return file.getvalue()


@pytest.mark.parametrize("encoding", SUBTYPES)
def test_each_byte_of_g711_is_the_sample_that_libsndfile_reads(encoding: str) -> None:
    file = io.BytesIO(bytes(range(256)))
    options: dict[str, Any] = {"format": "RAW", "subtype": SUBTYPES[encoding], "channels": 1, "samplerate": 8000}
    samples, _ = soundfile.read(file, dtype="int16", **options)
    assert TABLES[encoding].dtype == np.int16 and (TABLES[encoding] == samples).all()
    assert (AudioFormat(encoding, 8000).samples(bytes([0, 255, 128, 127])) == samples[[0, 255, 128, 127]]).all()


PRESENT, FORMER = "session.update", "transcription_session.update"
FORMATS = [
    (PRESENT, {"type": "audio/pcmu"}, "pcmu", 8000, {"type": "audio/pcmu"}),
    (PRESENT, {"type": "audio/pcma", "rate": 8000}, "pcma", 8000, {"type": "audio/pcma"}),
    (PRESENT, "g711_ulaw", "pcmu", 8000, {"type": "audio/pcmu"}),
    (PRESENT, {"type": "audio/pcm", "rate": 8000}, "pcm", 8000, {"type": "audio/pcm", "rate": 8000}),
    (PRESENT, {"rate": "16000"}, "pcm", 16000, {"type": "audio/pcm", "rate": 16000}),
    (PRESENT, {"type": "audio/pcm"}, "pcm", 24000, {"type": "audio/pcm", "rate": 24000}),
    (PRESENT, {"type": "pcm16", "rate": 48000.0}, "pcm", 48000, {"type": "audio/pcm", "rate": 48000}),
    (FORMER, ("g711_ulaw", None), "pcmu", 8000, ("g711_ulaw", 8000)),
    (FORMER, ("g711_alaw", 8000), "pcma", 8000, ("g711_alaw", 8000)),
    (FORMER, ("audio/pcmu", None), "pcmu", 8000, ("g711_ulaw", 8000)),
    (FORMER, ("pcm16", None), "pcm", 24000, ("pcm16", 24000)),
    (FORMER, ("pcm16", "8000"), "pcm", 8000, ("pcm16", 8000)),
    (FORMER, (None, 16000), "pcm", 16000, ("pcm16", 16000)),
    (FORMER, ("pcm16", 48000), "pcm", 48000, ("pcm16", 48000)),
]


@pytest.mark.parametrize(("form", "asked", "encoding", "rate", "told"), FORMATS)
def test_realtime_reads_each_format(
    server: RunningServer,
    recognizer: Recognizer,
    sample: np.ndarray,
    form: str,
    asked: Any,
    encoding: str,
    rate: int,
    told: Any,
) -> None:
    samples = soxr.resample(sample[:40000], 16000, rate)
    data = samples.astype("<i2").tobytes() if encoding == "pcm" else g711(samples, encoding)
    session: dict[str, Any] = {"turn_detection": None}
    if form == PRESENT:
        session = {"type": "transcription", "audio": {"input": session | {"format": asked}}}
    else:
        session |= {"input_audio_format": asked[0], "input_audio_sampling_rate": asked[1]}

    async def dialogue(connection: Any) -> str:
        await connection.send_raw(json.dumps({"type": form, "session": session}))
        updated = json.loads(await connection.recv_bytes())["session"]
        if form == PRESENT:
            assert updated["audio"]["input"]["format"] == told
        else:
            assert (updated["input_audio_format"], updated["input_audio_sampling_rate"]) == told
        for begin in range(0, len(data), 4001):  # half samples, too
            piece = data[begin : begin + 4001]
            await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        await connection.input_audio_buffer.commit()
        while not (event := json.loads(await connection.recv_bytes()))["type"].endswith("transcription.completed"):
            assert event["type"] != "error", event
        assert event["usage"]["seconds"] == 3
        return event["transcript"]

    heard = AudioFormat(encoding, rate).samples(data)
    expected = " ".join(event.text for event in recognize(recognizer, heard, rate=rate) if isinstance(event, Final))
    assert talk(server, dialogue) == expected and resembles(expected)


def test_audio_in_a_refused_format_is_refused(server: RunningServer, sample: np.ndarray) -> None:
    """It must not be read in the former format, until a format is accepted."""
    audio = encoded(soxr.resample(sample[:16000], 16000, 24000))

    async def dialogue(connection: Any) -> None:
        async def refused(kind: str, session: object) -> str:
            await connection.send_raw(json.dumps({"type": kind, "session": session}))
            return (await connection.recv()).error.message

        async def append(count: int) -> list[str]:
            for _ in range(count):
                await connection.input_audio_buffer.append(audio=audio)
            return [(await connection.recv()).error.message for _ in range(count)]

        await set_up(connection, None)
        for kind, session in (
            (PRESENT, {"audio": {"input": {"format": {"type": "audio/opus"}}}}),
            (FORMER, {"input_audio_format": "opus"}),
            (PRESENT, {"audio": {"input": {"format": {"type": "audio/pcmu"}, "transcription": {"language": "fr"}}}}),
        ):
            said = await refused(kind, session)
            await set_up(connection, None)  # which has no format
            assert await append(3) == 3 * [f"this audio is not used, because its format was refused: {said}"]
        await connection.input_audio_buffer.commit()
        assert "there are 0.000 s of audio to commit" in (await connection.recv()).error.message
        pcm = {"type": "audio/pcm", "rate": 24000}
        await connection.session.update(session={"type": "transcription", "audio": {"input": {"format": pcm}}})
        assert (await connection.recv()).type == "session.updated"
        await refused(PRESENT, {"audio": {"input": {"format": pcm, "transcription": {"language": "fr"}}}})
        await connection.input_audio_buffer.append(audio=audio)  # in the format that the client wants
        await connection.input_audio_buffer.commit()
        await until_completed(connection, 1)

    talk(server, dialogue)


def test_an_event_may_have_15_mib(server: RunningServer, sample: np.ndarray) -> None:
    """As with OpenAI. At the highest rate, because that is the least audio."""
    rate = 768000
    speech = soxr.resample(sample[:32000], 16000, rate)
    silence = np.zeros(Limits().max_message_bytes * 3 // 8 - 200 - len(speech), np.int16)
    text = encoded(np.concatenate([silence, speech]))
    message = json.dumps({"type": "input_audio_buffer.append", "audio": "AUDIO", "event_id": "1"})
    message = message.replace("AUDIO", text)
    assert 0.99 < len(message) / Limits().max_message_bytes < 1
    pcm = {"type": "audio/pcm", "rate": rate}

    async def dialogue(connection: Any) -> str:
        await set_up(connection, None)
        await connection.session.update(session={"type": "transcription", "audio": {"input": {"format": pcm}}})
        assert (await connection.recv()).type == "session.updated"
        await connection.send_raw(message)
        await connection.input_audio_buffer.commit()
        (*_, last) = await until_completed(connection, 1)
        return last.transcript

    assert resembles(talk(server, dialogue))


@pytest.mark.parametrize("num_bytes", [0, 1, 2, 3000, 100001])
def test_base64_of_every_encoder_is_read(num_bytes: int) -> None:
    data = np.random.default_rng(0).bytes(num_bytes)
    plain = base64.b64encode(data).decode()
    forms = [
        plain,
        plain.rstrip("="),
        base64.urlsafe_b64encode(data).decode(),
        base64.encodebytes(data).decode(),
        "\r\n".join(plain[begin : begin + 76] for begin in range(0, len(plain), 76)),
    ]

    async def decoded() -> list[bytes]:
        return [b"".join(await realtime._decoded_audio(form)) for form in forms]

    assert asyncio.run(decoded()) == len(forms) * [data]


@pytest.mark.parametrize("how", ["clear", "format"])
def test_half_a_sample_is_forgotten(server: RunningServer, sample: np.ndarray, how: str) -> None:
    """When the audio before it is no longer part of what follows."""

    async def dialogue(connection: Any) -> str:
        await set_up(connection, None)
        await connection.input_audio_buffer.append(audio=base64.b64encode(bytes(24001)).decode())
        if how == "clear":
            await connection.input_audio_buffer.clear()
        else:
            format = {"type": "audio/pcm", "rate": 16000}
            await connection.session.update(session={"type": "transcription", "audio": {"input": {"format": format}}})
        rate = 24000 if how == "clear" else 16000
        await connection.input_audio_buffer.append(audio=encoded(soxr.resample(sample[:40000], 16000, rate)))
        await connection.input_audio_buffer.commit()
        return (await until_completed(connection, 1))[-1].transcript

    assert resembles(talk(server, dialogue))


def test_a_long_event_is_parsed_like_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some encoders of JSON escape characters of Base64."""
    events = [
        '{"type": "input_audio_buffer.append", "audio": "AAAA"}',
        '{"audio" :\t"AA\\/\\u002bAA==", "type": "input_audio_buffer.append", "event_id": "audio"}',
        '{"audio":"","event_id":"\\u00e9"}',
    ]

    async def parsed() -> list[dict[str, Any]]:
        return [await asyncio.wait_for(realtime._parse(event), WAIT_S) for event in events]

    expected = [json.loads(event) for event in events]
    assert asyncio.run(parsed()) == expected
    monkeypatch.setattr(realtime, "MAX_JSON", 100)
    events = [event.replace("A", 30 * "AAAA", 1) for event in events]
    assert asyncio.run(parsed()) == [json.loads(event) for event in events]
