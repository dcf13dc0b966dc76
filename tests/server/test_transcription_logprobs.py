"""`logprobs` of OpenAI's transcription of files, with OpenAI's own client, and utterances without text."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator

import numpy as np
import openai
import pytest
from openai.types.audio import Transcription, TranscriptionTextDeltaEvent, TranscriptionTextDoneEvent
from support.recognition import recognize
from support.server import serving
from test_transcriptions import audio_file

from asr import Recognizer
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import Word
from asr.streaming import Final
from asr.streaming.server.protocols import transcriptions


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with (
        serving("--search", "beam", "--lm", "none") as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def finals(conversation: np.ndarray) -> list[Final]:
    """The result of the server's recognizer for the conversation."""
    recognizer = Recognizer(bundled_model("int8"), search="beam", lm=None, second_pass=False)
    return [event for event in recognize(recognizer, conversation) if isinstance(event, Final)]


@pytest.fixture(scope="module")
def recording(conversation: np.ndarray) -> bytes:
    return audio_file(conversation, format="WAV", subtype="FLOAT")


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


def test_an_utterance_without_text_is_left_out() -> None:
    """For example, utterances with only spoken commands."""

    class Spoken:
        """A session with this text."""

        async def finish(self) -> None: ...

        async def events(self) -> AsyncIterator[Final]:
            for text in ("One", "", "\nTwo"):
                yield Final(text, 0, 1, tuple(Word(word, 0, 1, 0.5) for word in text.split()))

    class Empty:
        """An upload that was read completely."""

        async def next_block(self) -> None: ...

    async def finals() -> list[Final]:
        return [final async for final in transcriptions._finals(Spoken(), Empty())]  # type: ignore[arg-type]

    options = transcriptions.Options("verbose_json", ("segment",), False, False, (), None, "en")
    answer = json.loads(transcriptions._whole(asyncio.run(finals()), 1.0, options, []).body)
    assert answer["text"] == "One\nTwo" and len(answer["segments"]) == 2
