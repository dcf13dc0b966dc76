"""vosk-server's protocol, spoken by the `websockets` client: the documented dialogue and undocumented cases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from support.raw_sockets import health
from support.recognition import finals, plain_text, recognize
from support.server import RunningServer, quick_recognizer, serving
from support.synth import speech
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from asr import Recognizer
from asr.streaming import Final
from asr.streaming.server.protocols.vosk import Dialogue

Replies = list[dict[str, Any]]
AT_16K = json.dumps({"config": {"sample_rate": 16000}})
PAUSE = np.zeros(32000, np.float32)
EOF = '{"eof" : 1}'


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def expected(sample: np.ndarray) -> str:
    """The result of the server's recognizer for the sample."""
    recognizer = quick_recognizer()
    return plain_text(finals(recognize(recognizer, sample)))


def pieces(samples: np.ndarray, num_bytes: int = 8000) -> list[bytes]:
    data = (samples if samples.dtype == np.int16 else (samples * 32767).astype(np.int16)).tobytes()
    return [data[begin : begin + num_bytes] for begin in range(0, len(data), num_bytes)]


def converse(url: str, *messages: str | bytes) -> Replies:
    """Sends one message at a time, like Vosk's clients, and awaits a reply to each one except the configuration."""

    async def client(socket: ClientConnection) -> Replies:
        replies = []
        for message in messages:
            await socket.send(message)
            if isinstance(message, bytes) or "config" not in message:
                replies.append(json.loads(await socket.recv()))
        return replies

    return connected(url, client)


def connected(url: str, client: Callable[[ClientConnection], Awaitable[Replies]]) -> Replies:
    async def run() -> Replies:
        async with connect(url, max_size=None) as socket:
            return await asyncio.wait_for(client(socket), 30)

    return asyncio.run(run())


def text(replies: Replies) -> str:
    return " ".join(reply["text"] for reply in replies if reply.get("text"))


@pytest.mark.parametrize("path", ["/", "/vosk"])
def test_the_documented_dialogue(server: RunningServer, sample: np.ndarray, expected: str, path: str) -> None:
    async def client(socket: ClientConnection) -> Replies:
        await socket.send('{ "config" : { "sample_rate" : 16000.0 } }')
        replies = []
        for piece in pieces(sample):
            await socket.send(piece)
            replies.append(json.loads(await socket.recv()))
        await socket.send(EOF)
        replies.append(json.loads(await socket.recv()))
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
        return replies

    *partials, final = connected(server.ws_url + path, client)
    assert final["text"] == expected and len(expected.split()) > 10
    assert all(set(reply) == {"partial"} for reply in partials)
    shown = [reply["partial"] for reply in partials]
    assert shown[0] == "" and shown[-1] and expected.startswith(shown[len(shown) // 2])
    assert " ".join(word["word"] for word in final["result"]) == expected
    assert all(set(word) == {"conf", "start", "end", "word"} for word in final["result"])
    assert all(0 <= word["conf"] <= 1 and 0 <= word["start"] < word["end"] < 6 for word in final["result"])


def test_a_client_without_a_rate_sends_8000_hz(server: RunningServer, sample: np.ndarray) -> None:
    halved = soxr.resample(sample, 16000, 8000)
    implied = converse(server.ws_url, *pieces(halved), EOF)
    said = converse(server.ws_url, '{"config": {"sample_rate": 8000}}', *pieces(halved), EOF)
    assert implied == said
    assert 4 < implied[-1]["result"][-1]["end"] < 6


def test_a_reply_covers_the_audio_of_its_message(server: RunningServer, sample: np.ndarray) -> None:
    whole = sample[:32000]
    replies = converse(server.ws_url, AT_16K, whole.tobytes(), whole[:0].tobytes())
    assert replies[0]["partial"] and replies[0] == replies[1]


def test_utterances_ending_in_one_message_share_a_reply(server: RunningServer) -> None:
    spoken = np.concatenate([speech("good morning"), PAUSE, speech("good morning"), PAUSE])
    (message,) = pieces(soxr.resample(spoken, 16000, 4000), 65536)
    reply, rest = converse(server.ws_url, '{"config": {"sample_rate": 4000}}', message, EOF)
    assert rest == {"text": ""}
    starts = [word["start"] for word in reply["result"]]
    assert starts == sorted(starts) and max(np.diff(starts)) > 1
    assert reply["text"] == " ".join(word["word"] for word in reply["result"])


def test_results_keep_spoken_lines() -> None:
    """An utterance of nothing but commands is empty."""

    class Spoken:
        recognizer = None

        async def finish(self) -> None: ...

        async def settle(self) -> list[Final]:
            return [Final(text, 0, 1) for text in ("Dear Ann,\n", "", "thank you.", "Bye.")]

    dialogue = Dialogue(Spoken(), "formatted")  # type: ignore[arg-type]
    assert asyncio.run(dialogue.result_at_end())["text"] == "Dear Ann,\nthank you. Bye."


def test_who_sends_ahead_has_as_many_replies(server: RunningServer, sample: np.ndarray, expected: str) -> None:
    messages = pieces(sample, 3201)  # half samples, too

    async def client(socket: ClientConnection) -> Replies:
        for message in (AT_16K, *messages, EOF):
            await socket.send(message)
        return [json.loads(reply) async for reply in socket]

    replies = connected(server.ws_url, client)
    assert len(replies) == len(messages) + 1
    assert text(replies) == expected


def test_channels_of_interleaved_samples(server: RunningServer, sample: np.ndarray, expected: str) -> None:
    spoken = (sample * 32767).astype(np.int16) if sample.dtype != np.int16 else sample
    halves = np.stack([0 * spoken, spoken], axis=1)

    def said(data: np.ndarray, **config: Any) -> str:
        order = json.dumps({"config": {"sample_rate": 16000, "channels": data.shape[1]} | config})
        return text(converse(server.ws_url, order, *pieces(data, 8003), EOF))

    assert said(halves, channel=2) == said(halves, channel="2") == expected
    assert said(halves, channel=1) == ""
    assert said(np.repeat(spoken[:, None], 3, axis=1)) == expected  # their average


def test_words_and_alternatives_as_asked_for(server: RunningServer, sample: np.ndarray, expected: str) -> None:
    def last(config: dict[str, Any]) -> dict[str, Any]:
        order = json.dumps({"config": {"sample_rate": 16000} | config})
        return converse(server.ws_url, order, *pieces(sample, 65536), EOF)[-1]

    assert last({"words": 0}) == last({"words": False}) == {"text": expected}
    (alternative,) = last({"max_alternatives": 3})["alternatives"]  # greedy search has no alternatives
    assert alternative["text"] == expected and 0 < alternative["confidence"] < 1
    assert set(alternative["result"][0]) == {"start", "end", "word"}
    assert list(last({"max_alternatives": 1, "words": 0})["alternatives"][0]) == ["confidence", "text"]


def test_alternatives_are_the_likeliest_sentences(sample: np.ndarray) -> None:
    order = json.dumps({"config": {"sample_rate": 16000, "max_alternatives": 3}})
    noise = np.random.default_rng(5).normal(0, sample.std(), len(sample))
    doubtful = np.clip(sample + noise, -32768, 32767).astype(np.int16)
    with serving("--search", "beam") as server:
        reply = converse(server.ws_url, order, *pieces(doubtful, 65536), EOF)[-1]
    alternatives = reply["alternatives"]
    assert len(alternatives) == len({each["text"] for each in alternatives}) == 3
    assert all(0 < each["confidence"] < 1 for each in alternatives)
    assert all(set(each["result"][0]) == {"start", "end", "word"} for each in alternatives)
    sentences = [" ".join(word["word"] for word in each["result"]) for each in alternatives]
    assert sentences == [each["text"] for each in alternatives]


def test_reset_ends_the_utterance_but_not_the_dialogue(server: RunningServer, sample: np.ndarray) -> None:
    audio, reset = sample[:32000].tobytes(), '{"reset" : 1}'
    before, first, nothing, after, second = converse(server.ws_url, AT_16K, audio, reset, reset, audio, EOF)
    assert set(before) == set(after) == {"partial"}
    assert first["text"] == second["text"] != "" and nothing == {"text": ""}
    assert second["result"][0]["start"] > first["result"][-1]["end"]


def test_phrase_list_restricts_recognition_until_emptied(server: RunningServer) -> None:
    spoken = pieces(np.concatenate([speech("stop the music"), PAUSE]), 65536)
    listed = '{"config": {"sample_rate": 16000, "phrase_list": ["play some jazz", "stop the music", "[unk]"]}}'
    free = '{"config": {"phrase_list": []}}'
    replies = converse(server.ws_url, listed, *spoken, free, *spoken, EOF)
    recognized = [reply["text"] for reply in replies if reply.get("text")]
    assert len(recognized) == 2 and recognized[0] == "stop the music" != recognized[1]
    other = pieces(np.concatenate([speech("she walked to the sea"), PAUSE]), 65536)
    assert "[unk]" in text(converse(server.ws_url, listed, *other, EOF))


def test_phrase_list_suspends_a_neural_language_model(phone_model: tuple[Path, Path]) -> None:
    """It cannot rescore phrases, which the recognizer refuses."""

    class Changing:
        def __init__(self) -> None:
            self.recognizer = Recognizer(phone_model[0], lm=phone_model[1], neural_lm="bundled")

        async def change(self, **changes: Any) -> None:
            self.recognizer = self.recognizer.with_options(**changes)

    session: Any = Changing()
    neural_model = session.recognizer.neural_model
    dialogue = Dialogue(session, "plain")
    asyncio.run(dialogue.reply('{"config": {"phrase_list": ["a"]}}'))
    assert session.recognizer.phrases == ("a",) and session.recognizer.neural_model is None
    asyncio.run(dialogue.reply('{"config": {"phrase_list": []}}'))
    assert session.recognizer.phrases is None and session.recognizer.neural_model is neural_model


@pytest.mark.parametrize(
    ("option", "line", "said"),
    [
        ("--hotwords", "Brankovik:1.5", "they went to the town of brankovik"),
        ("--phrases", "turn on the light", "turn on the light"),
    ],
)
def test_server_list_holds_until_a_client_sends_one(tmp_path: Path, option: str, line: str, said: str) -> None:
    (tmp_path / "list.txt").write_text(line)
    spoken = pieces(np.concatenate([speech(said), PAUSE]), 65536)
    listed, free = ('{"config": {"phrase_list": ["stop the music"]}}', '{"config": {"phrase_list": []}}')
    with serving(option, str(tmp_path / "list.txt"), "--search", "beam") as server:
        replies = converse(server.ws_url, AT_16K, *spoken, listed, *spoken, free, *spoken, EOF)
    first, restricted, again = (reply["text"] for reply in replies if reply.get("text"))
    assert first == again and first.split()[-1] == said.split()[-1]
    assert set(restricted.split()) <= {"stop", "the", "music", "[unk]"}


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("hello", "not JSON"),
        ("{}", "must have config, eof or reset"),
        ('{"config": 5}', "config is 5"),
        (
            '{"config": {"sample_rate": "16 kHz"}}',
            "sample_rate is '16 kHz'; it must be a whole number in [1000, 768000]",
        ),
        ('{"config": {"sample_rate": "900"}}', "sample_rate is '900'; it must be a whole number in [1000, 768000]"),
        ('{"config": {"sample_rate": 1e999}}', "sample_rate is inf"),
        ('{"config": {"sample_rate": NaN}}', "sample_rate is nan"),
        ('{"config": {"sample_rate": -1}}', "sample_rate is -1"),
        ('{"config": {"text": "pretty"}}', "text is 'pretty'; choose one of default, formatted, plain"),
        ('{"config": {"words": "no"}}', "words is 'no'"),
        ('{"config": {"channels": 0}}', "channels is 0; it must be a whole number in [1, 64]"),
        ('{"config": {"channel": 2}}', "channel is 2; it must be a whole number in [1, 1]"),
        ('{"config": {"channels": 2, "channel": "left"}}', "channel is 'left'; it must be a whole number in [1, 2]"),
        ('{"config": {"channels": 2, "channel": "each"}}', "channel is 'each'; it must be 'mix' or a number: open"),
        ('{"config": {"words": {"a": 1}}}', "words is an object"),
        ('{"config": {"max_alternatives": 1e18}}', "max_alternatives is 1e+18"),
        ('{"config": {"phrase_list": "/etc/passwd"}}', "phrase_list is '/etc/passwd'; it must be a list of strings"),
        ('{"config": {"phrase_list": ["yes", ["no"]]}}', "phrase_list is a list; it must be a list of strings"),
        ('{"config": {"phrase_list": ["[unk]"]}}', "phrase_list: "),
        (
            '{"config": {"phrase_list": ["a\\u0000b"]}}',
            r"phrase_list has 'a\x00b'; a phrase cannot have a NUL character",
        ),
        ('{"config": {"phrase_list": ["语音"]}}', "phrase_list: "),
        ('{"config": {"phrase_list": ["yes", "' + 20000 * "n" + '"]}}', "has 20003 letters; it may have 20000"),
        ('{"' + 60000 * "x" + '": 1}', f"has '{60 * 'x'}'"),
        ("[" + 40000 * "1," + "1]", "this JSON has 80003 letters; only audio may make a message longer than 65536"),
        ('{"' + '\\u0061": {"' * 900 + '": 1' + "}" * 901, "must have config, eof or reset"),
        ('{"' + 60 * "語" + '": 1}', "語語"),
    ],
)
def test_nonsense_is_answered_and_left(server: RunningServer, message: str, complaint: str) -> None:
    async def client(socket: ClientConnection) -> Replies:
        await socket.send(message)
        replies = [json.loads(await socket.recv())]
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        return replies

    (reply,) = connected(server.ws_url, client)
    assert list(reply) == ["error"] and complaint in reply["error"] and len(reply["error"]) < 256
    assert health(server)["sessions"] == 0


@pytest.mark.parametrize("no", ['{"eof": 0}', '{"reset": 0}'])
def test_an_end_that_is_denied_is_none(server: RunningServer, sample: np.ndarray, expected: str, no: str) -> None:
    replies = converse(server.ws_url, AT_16K, *pieces(sample), no, EOF)
    assert "partial" in replies[-2] and text(replies) == expected


def test_a_configuration_may_come_with_the_end(server: RunningServer, sample: np.ndarray, expected: str) -> None:
    async def client(socket: ClientConnection) -> Replies:
        await socket.send(AT_16K)
        for piece in pieces(sample):
            await socket.send(piece)
        await socket.send('{"config": {"words": 0}, "eof": 1}')
        return [json.loads(reply) async for reply in socket]

    replies = connected(server.ws_url, client)
    assert replies[-1].keys() == {"text"} and text(replies) == expected


def test_another_rate_in_the_middle_loses_no_words(server: RunningServer, sample: np.ndarray, expected: str) -> None:
    """To a higher rate, because words differ with only 4 kHz; in the pause before the second half."""
    half = 48000 + int(np.convolve(np.abs(sample[48000:80000].astype(float)), np.ones(800), "valid").argmin())
    fast = soxr.resample(sample[half:], 16000, 44100)
    replies = converse(
        server.ws_url,
        AT_16K,
        *pieces(sample[:half]),
        json.dumps({"config": {"sample_rate": 44100}}),
        *pieces(fast),
        EOF,
    )
    found, whole = text(replies).split(), expected.split()
    assert found[:4] == whole[:4] and len(found) >= len(whole) - 1
