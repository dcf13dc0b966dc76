"""`POST /v1/audio/transcriptions`: with OpenAI's own client, and with requests that no client would send."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)
from support import wait_until
from support.raw_sockets import health
from support.recognition import recognize
from support.server import RunningServer, serving

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.streaming import Final
from asr.streaming.terminal.layout import Layout
from asr.streaming.terminal.subtitles import document
from asr.streaming.timestamps import timestamp

TOKEN = "open sesame"
MAX_UPLOAD = 8_000_000
BOUNDARY = "mimosa"
ORIGIN = "https://captions.example.org"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    limits = (
        "--allow-origin",
        ORIGIN,
        "--max-upload-bytes",
        str(MAX_UPLOAD),
        "--max-upload-s",
        "1800",
        "--max-uploads",
        "2",
        "--timeout-s",
        "2",
    )
    with serving("--search", "beam", "--lm", "none", *limits, token=TOKEN) as server:
        yield server
        assert health(server)["uploads"] == 0


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def finals(conversation: np.ndarray) -> list[Final]:
    """The result of the server's recognizer for the conversation."""
    recognizer = Recognizer(bundled_model("int8"), search="beam", lm=None, second_pass=False)
    events = recognize(recognizer, conversation)
    return [event for event in events if isinstance(event, Final)]


def audio_file(samples: np.ndarray, rate: int = 16000, format: str = "FLAC", subtype: str | None = "PCM_16") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype=subtype)
    return file.getvalue()


@pytest.fixture(scope="module")
def recording(conversation: np.ndarray) -> bytes:
    return audio_file(conversation, format="WAV", subtype="FLOAT")


def form(*fields: tuple[str, str], file: bytes | None = None) -> bytes:
    """A multipart body."""
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields]
    if file is not None:
        parts.append(b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + file)
    lines = [b"--%s\r\n%s\r\n" % (BOUNDARY.encode(), part) for part in parts]
    return b"".join(lines) + f"--{BOUNDARY}--\r\n".encode()


def post(server: RunningServer, body: Any, token: str = TOKEN, **headers: str) -> tuple[int, dict[str, Any]]:
    """Status and body of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    } | headers
    try:
        connection.request("POST", "/v1/audio/transcriptions", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# ---- responses ----


def test_each_format_holds_what_the_recognizer_writes(
    client: openai.OpenAI, recording: bytes, finals: list[Final]
) -> None:
    def transcribe(**options: Any) -> Any:
        return client.audio.transcriptions.create(file=("talk.wav", recording), model="whisper-1", **options)

    text = " ".join(final.text for final in finals)
    assert len(finals) == 3
    answer = transcribe(language="en", temperature=0.3, prompt="HELLO")
    assert answer.text == text and answer.usage.seconds == 14
    assert transcribe(response_format="text") == text + "\n"
    assert transcribe(response_format="srt") == document("srt", finals)
    assert transcribe(response_format="vtt") == document("vtt", finals)
    verbose = transcribe(response_format="verbose_json")
    assert verbose.text == text and verbose.words is None and verbose.duration == pytest.approx(13.728, abs=0.001)
    assert [(s.id, s.start, s.end, s.text) for s in verbose.segments] == [
        (i, round(final.start, 3), round(final.end, 3), final.text) for i, final in enumerate(finals)
    ]
    for segment, final in zip(verbose.segments, finals, strict=True):
        expected = np.mean([math.log(word.confidence) for word in final.words])
        assert segment.avg_logprob == pytest.approx(expected, abs=1e-3) and segment.no_speech_prob == 0
    TranscriptionVerbose.model_validate_json(verbose.to_json(), strict=True)
    verbose = transcribe(response_format="verbose_json", timestamp_granularities=["word"])
    words = [word for final in finals for word in final.words]
    assert [(w.word, w.start, w.end) for w in verbose.words] == [
        (word.word, round(word.start, 3), round(word.end, 3)) for word in words
    ]
    assert verbose.segments is None


def test_layouts_of_subtitles(client: openai.OpenAI, recording: bytes, finals: list[Final]) -> None:
    def transcribe(format: str, **fields: str) -> Any:
        file = ("talk.wav", recording)
        return client.audio.transcriptions.create(
            file=file,
            model="any",
            response_format=format,  # type: ignore[call-overload]
            extra_body=fields,
        )

    layout = Layout(line_length=20, max_lines=1, max_words=3, max_cue_s=2.5)
    fields = {"line_length": "20", "max_lines": "1", "max_words": "3", "max_cue_s": "2.5"}
    assert transcribe("srt", **fields) == document("srt", finals, layout) != document("srt", finals)
    assert transcribe("ass", **fields) == document("ass", finals, layout)
    assert transcribe("vtt", word_timestamps="true") == document("vtt", finals, Layout(word_timestamps=True))
    stamped = [f"[{timestamp(final.start)} --> {timestamp(final.end)}] {final.text}\n" for final in finals]
    assert transcribe("text", timestamps="true") == "".join(stamped)


def test_part_of_a_file(client: openai.OpenAI, recording: bytes, conversation: np.ndarray) -> None:
    """Times are those of the whole file; `duration` and `usage` count the part."""
    recognizer = Recognizer(bundled_model("int8"), search="beam", lm=None, second_pass=False)
    events = recognize(recognizer, conversation[72000:152000])
    expected = [event.shifted(4.5) for event in events if isinstance(event, Final)]
    fields = {"start": "4.5", "duration": "5"}
    file = ("talk.wav", recording)
    verbose = client.audio.transcriptions.create(
        file=file, model="any", response_format="verbose_json", timestamp_granularities=["word"], extra_body=fields
    )
    assert verbose.text == " ".join(final.text for final in expected) and expected
    assert verbose.duration == 5.0 and verbose.usage and verbose.usage.seconds == 5
    assert [(w.word, w.start, w.end) for w in verbose.words or []] == [
        (word.word, round(word.start, 3), round(word.end, 3)) for final in expected for word in final.words
    ]
    subtitles = client.audio.transcriptions.create(file=file, model="any", response_format="srt", extra_body=fields)
    assert subtitles == document("srt", expected)
    *_, done = client.audio.transcriptions.create(
        file=file, model="any", stream=True, extra_body={"start": "0:04.5", "duration": "5", "channel": "each"}
    )
    assert done.text == "\n".join(f"channel 1: {final.text}" for final in expected)


def test_deltas_together_are_the_text(client: openai.OpenAI, recording: bytes, finals: list[Final]) -> None:
    stream = client.audio.transcriptions.create(file=("talk.wav", recording), model="any", stream=True)
    *deltas, done = list(stream)
    assert [event.type for event in deltas] == ["transcript.text.delta"] * 3
    assert done.type == "transcript.text.done"
    assert not any(event.logprobs for event in (*deltas, done))
    assert "".join(event.delta for event in deltas) == done.text == " ".join(final.text for final in finals)


def test_logprobs_are_those_of_words(client: openai.OpenAI, recording: bytes, finals: list[Final]) -> None:
    """For clients that request them; the concatenated tokens are the text."""
    file = ("talk.wav", recording)
    plain = client.audio.transcriptions.create(file=file, model="any")
    answer = client.audio.transcriptions.create(file=file, model="any", include=["logprobs"])
    assert plain.logprobs is None and answer.text == plain.text
    assert "".join(token.token for token in answer.logprobs) == answer.text
    assert b"".join(bytes(map(int, token.bytes)) for token in answer.logprobs).decode() == answer.text
    expected = [math.log(word.confidence) for final in finals for word in final.words]
    assert [token.logprob for token in answer.logprobs] == pytest.approx(expected, abs=1e-4)
    Transcription.model_validate_json(answer.to_json(), strict=True)

    *deltas, done = client.audio.transcriptions.create(file=file, model="any", include=["logprobs"], stream=True)
    for delta in deltas:
        assert "".join(token.token for token in delta.logprobs) == delta.delta
        TranscriptionTextDeltaEvent.model_validate_json(delta.to_json(), strict=True)
    tokens = [token.to_dict() for token in done.logprobs]
    assert tokens == [token.to_dict() for delta in deltas for token in delta.logprobs]
    assert tokens == [token.to_dict() for token in answer.logprobs]
    TranscriptionTextDoneEvent.model_validate_json(done.to_json(), strict=True)


def test_keywords_are_expected(client: openai.OpenAI, sample: np.ndarray) -> None:
    file = ("a", audio_file(sample))
    assert "walked slowly" not in client.audio.transcriptions.create(file=file, model="any").text
    keywords = ["walked:2", "slowly:2"]
    answer = client.audio.transcriptions.create(file=file, model="any", keywords=[*keywords, "C3PO"])
    assert "walked slowly" in answer.text
    left_out = "keywords that this model or its search cannot use are left out: 'C3PO'"
    assert answer.to_dict()["warnings"] == [left_out]
    *_, done = client.audio.transcriptions.create(file=file, model="any", keywords=[*keywords, "C3PO"], stream=True)
    assert done.text == answer.text and done.to_dict()["warnings"] == [left_out]
    *_, done = client.audio.transcriptions.create(file=file, model="any", keywords=keywords, stream=True)
    assert "warnings" not in done.to_dict()


def test_problems_of_the_audio_are_warnings(client: openai.OpenAI, sample: np.ndarray) -> None:
    file = ("a.wav", audio_file(sample.astype(np.float32), format="WAV", subtype="FLOAT"))
    *_, done = client.audio.transcriptions.create(file=file, model="any", stream=True)
    answers = [client.audio.transcriptions.create(file=file, model="any").to_dict(), done.to_dict()]
    for answer in answers:
        (warning,) = answer["warnings"]
        assert "divide samples in the range of int16 by 32768" in warning


def test_silence_has_no_text(client: openai.OpenAI) -> None:
    silence = ("silence.flac", audio_file(np.zeros(32000, np.float32)))
    assert client.audio.transcriptions.create(file=silence, model="any").text == ""
    assert client.audio.transcriptions.create(file=silence, model="any", response_format="vtt") == "WEBVTT\n\n"
    assert [e.type for e in client.audio.transcriptions.create(file=silence, model="any", stream=True)] == [
        "transcript.text.done"
    ]


@pytest.mark.parametrize(
    ("rate", "num_channels", "format", "subtype"),
    [(16000, 1, "MP3", None), (48000, 1, "OGG", "OPUS"), (16000, 2, "FLAC", "PCM_24"), (48000, 2, "WAV", "FLOAT")],
)
def test_files_of_every_sort(
    client: openai.OpenAI, sample: np.ndarray, rate: int, num_channels: int, format: str, subtype: str | None
) -> None:
    """The last file is larger than the limit for uploads in memory."""
    audio = np.repeat(sample.astype(np.float32)[:, None] / 32768, num_channels, 1).repeat(rate // 16000, 0)
    plain = client.audio.transcriptions.create(file=("a", audio_file(sample)), model="any").text
    file = ("recording", audio_file(audio, rate, format, subtype))
    text = client.audio.transcriptions.create(file=file, model="any").text
    assert SequenceMatcher(None, text, plain).ratio() > 0.8


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == bundled_model("int8").stem
    assert client.models.retrieve(model.id) == model
    assert client.models.retrieve("whisper-1").id == "whisper-1"
    with pytest.raises(
        openai.NotFoundError, match=r"there is no model 'gpt-2'; this server has tiny\.int8, also as whisper-1"
    ):
        client.models.retrieve("gpt-2")


# ---- rejected requests ----


@pytest.mark.parametrize(
    ("fields", "file", "param", "message"),
    [
        ([("language", "de")], b"", "language", "language is 'de'; this server recognizes 'en' only"),
        ([("language", "eng")], b"", "language", "language is 'eng'"),
        ([("response_format", "diarized_json")], b"", "response_format", "choose one of json, text, srt"),
        ([("timestamp_granularities[]", "word")], b"", "timestamp_granularities", "response_format 'verbose_json'"),
        ([("timestamp_granularities[]", "day")], b"", "timestamp_granularities", "'day'; choose one of word, segment"),
        ([("include[]", "tokens")], b"", "include", "include is 'tokens'; choose one of logprobs"),
        (
            [("include[]", "logprobs"), ("response_format", "verbose_json")],
            b"",
            "include",
            "include goes with response_format 'json', not 'verbose_json'",
        ),
        ([("stream", "true"), ("response_format", "srt")], b"", "stream", "'json' or 'text', not 'srt'"),
        ([("stream", "maybe")], b"", "stream", "stream is 'maybe'; it must be true or false"),
        ([("response_format", "x" * 1000)], b"", "response_format", r"^response_format is 'x{60}'; choose"),
        ([("languages[]", "fr"), ("languages[]", "de")], b"", "languages", "languages is 'de'; this server recognizes"),
        ([("keywords", "walk\nrun")], b"", "keywords", "at most 500 strings of one line each"),
        ([("keywords", "x" * 65)], b"", "keywords", r"'x{60}'; a keyword has at most 64 letters"),
        ([("response_format", "ssa")], b"", "response_format", "choose one of json, text, srt, verbose_json, vtt, ass"),
        ([("line_length", "30")], b"", "line_length", "line_length is for srt, vtt, ass; the format is json"),
        (
            [("max_lines", "0"), ("response_format", "vtt")],
            b"",
            "max_lines",
            r"max_lines is '0'; it must be a whole number in \[1, 10\]",
        ),
        (
            [("timestamps", "true"), ("response_format", "text"), ("stream", "true")],
            b"",
            "timestamps",
            "timestamps do not go with stream",
        ),
        ([("start", "-1")], b"", "start", r"start is '-1'; it must be in seconds or \[HH:\]MM:SS"),
        ([("duration", "0")], b"", "duration", "duration is '0'; it must be greater than 0"),
        (
            [("start", "20")],
            audio_file(np.zeros(16000, np.int16)),
            "start",
            "the file lasts 1.0 s; the start is 20 s: choose one before its end$",
        ),
        ([("model", "tiny")], None, "file", "the audio is missing"),
        ([("file", "RIFF")], None, "file", "the audio is missing"),
        ([], b"", "file", "the file is empty"),
        ([], b"ID3" + bytes(range(256)) * 10, "file", "cannot read the file"),
        ([], audio_file(np.zeros(0, np.int16), format="WAV"), "file", "the file holds no audio"),
        ([], audio_file(np.ones(9000, np.int16))[:-60], "file", "cannot read the file|is cut short"),
        ([], audio_file(np.zeros(10, np.int16), 2**31 - 1, "WAV"), "file", "sample_rate is 2147483647"),
        ([], audio_file(np.zeros(16000, np.int16), 8, "WAV"), "file", r"lasts 2000 s; the maximum is 1800 s"),
        ([("model", "x" * 70000)], b"", None, "the form cannot be read: Part exceeded maximum size of 64KB"),
        ([("model", "x")] * 65, b"", None, "the form cannot be read: Too many fields"),
    ],
)
def test_errors_are_reported(
    server: RunningServer, fields: list[tuple[str, str]], file: bytes | None, param: str | None, message: str
) -> None:
    status, answer = post(server, form(*fields, file=file))
    error = answer["error"]
    assert status == 400 and error["type"] == "invalid_request_error" and error["param"] == param
    assert re.search(message, error["message"]) and len(error["message"]) < 300


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"", "", 415),
        (form(file=b"")[:-20], "multipart/form-data", 400),
        (b"\xff" * 1000, f"multipart/form-data; boundary={BOUNDARY}", 400),
        (b"--mimosa\r\n\r\n\r\n--mimosa--\r\n", f"multipart/form-data; boundary={BOUNDARY}", 400),
        (form(file=b""), f"multipart/form-data; boundary={'x' * 5000}", 400),
        (form(("a", "b")), f"multipart/form-data; charset=rot13; boundary={BOUNDARY}", 400),
    ],
)
def test_what_is_no_form(server: RunningServer, body: bytes, kind: str, status: int) -> None:
    found, answer = post(server, body, **{"Content-Type": kind})
    assert found == status and answer["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "idna"])
def test_a_form_is_utf_8(server: RunningServer, charset: str) -> None:
    """Python decodes punycode in quadratic time: these 600 kB would block the server for a second."""
    body = form(*[("model", "\xe9" * 60000)] * 5, ("keywords[]", "\\ud800"), file=b"")
    kind = f"multipart/form-data; charset={charset}; boundary={BOUNDARY}"
    status, answer = post(server, body, **{"Content-Type": kind})
    assert status == 400
    assert answer["error"]["message"] == f"the charset of the form is '{charset}'; it must be UTF-8: leave it out"


def test_an_error_in_mid_stream_is_an_event(client: openai.OpenAI, conversation: np.ndarray) -> None:
    file = ("cut.flac", audio_file(conversation)[:-20000])
    deltas = []
    with pytest.raises(openai.APIError, match="the file"):
        for event in client.audio.transcriptions.create(file=file, model="any", stream=True):
            deltas.append(event.delta)
    assert deltas


def test_a_token_is_needed(server: RunningServer) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
    for call in (client.models.list, lambda: client.audio.transcriptions.create(file=("a", b"x"), model="any")):
        with pytest.raises(openai.AuthenticationError, match="the token is missing or wrong"):
            call()


@pytest.mark.parametrize(("origin", "allowed"), [(ORIGIN, True), ("https://example.org", False)])
def test_pages_of_other_origins(server: RunningServer, origin: str, allowed: bool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    connection.request("OPTIONS", "/v1/audio/transcriptions", headers={"Origin": origin} | asked)
    response = connection.getresponse()
    response.read()
    assert (response.status == 200) == allowed
    connection.request("GET", "/v1/models", headers={"Origin": origin, "Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    response.read()
    assert response.status == (200 if allowed else 403)
    assert response.headers["Access-Control-Allow-Origin"] == (origin if allowed else None)
    connection.close()


@pytest.mark.parametrize("known", [True, False], ids=["length", "chunked"])
def test_an_upload_has_a_limit(server: RunningServer, known: bool) -> None:
    body = form(file=bytes(MAX_UPLOAD + 100_000))
    pieces = (body[i : i + 50_000] for i in range(0, len(body), 50_000))
    status, answer = post(server, body if known else pieces)
    assert status == 413 and f"larger than {MAX_UPLOAD} bytes" in answer["error"]["message"]
    assert answer["error"]["code"] == "too_large"


# ---- clients that disconnect ----


def files_without_name(server: RunningServer) -> int:
    count = 0
    for file in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            count += "(deleted)" in os.readlink(file)
    return count


def send_head(server: RunningServer, length: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    lines = (
        "POST /v1/audio/transcriptions HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {TOKEN}",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        f"Content-Length: {length}",
    )
    connection.sendall("\r\n".join((*lines, "", "")).encode())
    return connection


def test_a_client_gone_in_mid_upload_leaves_nothing(server: RunningServer) -> None:
    body = form(file=bytes(3_000_000))
    assert files_without_name(server) == 0
    with send_head(server, len(body)) as connection:
        connection.sendall(body[:2_000_000])
        wait_until(lambda: files_without_name(server) == 1)
        assert health(server)["uploads"] == 1
    wait_until(lambda: files_without_name(server) == 0 and health(server)["uploads"] == 0)


def test_client_that_stops_uploading_gets_an_error(server: RunningServer) -> None:
    with send_head(server, 1000) as connection:
        received = b""
        while b"send at least 16384 bytes a second" not in received:
            piece = connection.recv(10000)
            assert piece, received
            received += piece
    wait_until(lambda: health(server)["uploads"] == 0)


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_gone_in_mid_answer_leaves_nothing(
    server: RunningServer, conversation: np.ndarray, stream: str
) -> None:
    """13 minutes of audio remain, which take far longer than this test waits."""
    file = audio_file(np.tile(conversation[::2], 60), 8000, "WAV", "ULAW")
    body = form(("stream", stream), file=file)
    with send_head(server, len(body)) as connection:
        connection.sendall(body)
        if stream == "true":
            answer = b""
            while b"transcript.text.delta" not in answer:
                answer += connection.recv(10000)
        else:
            time.sleep(0.3)
        wait_until(lambda: health(server)["uploads"] == 1 and files_without_name(server) == 1)
    wait_until(lambda: files_without_name(server) == 0 and health(server)["uploads"] == 0, 12)


def test_no_more_uploads_than_the_limit(server: RunningServer, client: openai.OpenAI) -> None:
    with send_head(server, 100), send_head(server, 100):
        wait_until(lambda: health(server)["uploads"] == 2)
        with pytest.raises(openai.InternalServerError, match="all 2 uploads are taken") as refused:
            client.audio.transcriptions.create(file=("a", b"x"), model="any")
        assert refused.value.status_code == 503 and refused.value.response.headers["retry-after"] == "2"
    wait_until(lambda: health(server)["uploads"] == 0)


def test_the_log_holds_no_text(
    server: RunningServer, client: openai.OpenAI, recording: bytes, finals: list[Final]
) -> None:
    before = len(server.log)  # an error of another test has a word of the recording
    assert client.audio.transcriptions.create(file=("talk.wav", recording), model="whisper-1").text
    wait_until(lambda: any("transcriptions: 13." in line for line in server.log[before:]))
    words = {word for final in finals for word in final.text.split() if len(word) > 3}
    assert words and not any(word in line for line in server.log[before:] for word in words)
    assert not any("Traceback" in line for line in server.log)
