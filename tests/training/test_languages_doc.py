"""docs/guides/languages.md: its German example runs as written, on synthesized speech and for a few steps."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.synth import speech, write_audio

from asr import Recognizer, _core
from asr.cli import main
from asr.data.speech import Speech
from asr.streaming.server.app import create_app
from asr.streaming.server.protocols import wyoming
from asr.streaming.server.security.access import Access
from asr.streaming.server.server import Server
from asr.streaming.terminal.cli import main as asr_stream
from asr.text import TextNormalizer

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "languages.md").read_text(encoding="utf-8")
SMALL = [
    *("model.dim=32", "model.num_heads=2", "model.encoder_ff_dim=64", "model.decoder_ff_dim=64"),
    *("model.subsampling_channels=4", "model.encoder_layers=2", "model.condition_layers=[1]"),
    *("model.decoder_layers=1", "data.num_rooms=2", "train.max_steps=2", "train.valid_every=2"),
]


def blocks(kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == kind]


@pytest.mark.usefixtures("restore_signals")
def test_the_german_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table, sentences = blocks("")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    for path, text in rows:
        write_audio(tmp_path / path, speech(text, voice="de"))
    write_audio(tmp_path / "speech.wav", speech(rows[0][1], voice="de"))
    (tmp_path / "recordings.tsv").write_text(table, encoding="utf-8")
    (tmp_path / "held-out.tsv").write_text(table, encoding="utf-8")
    (tmp_path / "sentences.txt").write_text(sentences, encoding="utf-8")

    *commands, stream = (shlex.split(line) for line in blocks("sh")[0].splitlines())
    for program, *arguments in commands:
        assert program == "asr"
        more = {"train": SMALL, "prepare": ["--jobs", "1"]}.get(arguments[0], [])
        assert main(arguments + more) == 0, arguments
    assert Speech.load(tmp_path / "data" / "recordings").texts == sentences.splitlines()
    assert stream[0] == "asr-stream" and asr_stream(stream[1:]) == 0
    tokens = Recognizer("german.onnx", lm="german.lm").onnx.tokens
    assert {"ä", "ö", "ü", "ß"} & set(tokens) == {"ü", "ß"} and not set(tokens) & set("ABC")
    with pytest.raises(ValueError, match="this model also writes 'abc"):
        Recognizer("german.onnx", lm="bundled")
    no_english(Recognizer("german.onnx", lm="german.lm"), tmp_path / "speech.wav")

    capsys.readouterr()
    assert main(["prepare", "manifest", "recordings.tsv", "--out", "data", "--name", "plain", "--jobs", "1"]) == 0
    assert '--alphabet "A-Z\'Ü"' in capsys.readouterr().out


def no_english(recognizer: Recognizer, wav: Path) -> None:
    """Neither in the text of events nor in the server's replies."""
    assert recognizer.onnx.metadata.language == "de" and recognizer.punctuator is None
    text = _core.text_options(language=recognizer.onnx.metadata.language)
    assert text is not None
    formatter = _core.TextFormatter(text)
    formatter.final([(word, 0.0, 1.0, 0.9) for word in "i saw twenty five um fünf uhr dreißig".split()])
    assert " ".join(word[0] for word in formatter.shown()[0]) == "i saw twenty five um 5:30 Uhr"

    server = Server(recognizer, num_threads=1)
    url, headers = "/v1/audio/transcriptions", {"host": "localhost"}
    with TestClient(create_app(server, Access()), headers=headers) as client:

        def answer(language: str) -> dict[str, Any]:
            form = {"language": language, "response_format": "verbose_json"}
            return client.post(url, data=form, files={"file": ("speech.wav", wav.read_bytes())}).json()

        for language in ("de", "de-AT", ""):
            assert answer(language)["language"] == "german"
        assert answer("en")["error"]["message"] == "language is 'en'; this server recognizes 'de' only: leave it out"
        with client.websocket_connect("/v1/realtime", headers=headers) as socket:
            created = socket.receive_json()
    assert created["session"]["audio"]["input"]["transcription"]["language"] == "de"
    described = wyoming.info(server.language)
    assert described["asr"][0]["models"][0]["languages"] == ["de"]
    assert not re.search(r"english|\ben\b", json.dumps([created, described]), re.IGNORECASE)


def test_the_table_of_letters() -> None:
    rows = re.findall(r"^\| [^|]* \| `([^`]*)` \| `([^`]*)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for options, written in rows:
        *case, _, alphabet = shlex.split(options)
        normalizer = TextNormalizer((case or ["--upper"])[0].removeprefix("--").removesuffix("-case"), alphabet)
        assert normalizer("Wie geht's, Jürgen?").text == written
