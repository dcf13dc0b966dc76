"""The server's page in headless Chromium, with a WAV as its microphone: the visible text and the saved files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from matplotlib.image import imread
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from support import js_build
from support.recognition import recognize
from support.server import quick_recognizer
from support.synth import speech, write_audio

from asr.runtime.search import Word
from asr.streaming.events import Final
from asr.streaming.server import page
from asr.streaming.server.security.access import Access
from asr.streaming.terminal.subtitles import document

JS = js_build.JS
FIRST = "she walked to the sea"
SECOND = "the children ran down the road and the old man walked slowly after them"
"""Long enough for partials with stable words, because formatted words become stable later than plain ones."""


def drive(scenario: str, *args: str | Path) -> Any:
    js_build.packages()
    command = ["node", "tests/server_page.mjs", scenario, sys.executable, *map(str, args)]
    result = subprocess.run(command, cwd=JS, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def random_finals() -> list[Final]:
    """Words of all lengths, with pauses, a word longer than a line, line breaks, and times beyond ten hours."""
    rng = np.random.default_rng(7)
    found, now = [], 0.0
    for _ in range(60):
        words = []
        for _ in range(rng.integers(1, 40)):
            start = now + float(rng.choice([0.02, 0.1, 0.7])) * rng.random()
            now = start + 0.6 * rng.random()
            word = "a" * int(rng.choice([0, 1, 4, 9, 50], p=[0.02, 0.2, 0.48, 0.29, 0.01])) or "\n\n"
            words.append(Word(word, start, now, 1.0))
        found.append(Final(" ".join(word.word for word in words), words[0].start, now, tuple(words)))
        now += 1200 * rng.random()
    return found


def shifted(final: Final, start_s: float) -> Final:
    """A result in vosk-server's protocol, in a stream that began at `start_s`."""
    words = [
        Word(word.word, round(word.start, 3) + start_s, round(word.end, 3) + start_s, word.confidence)
        for word in final.words
    ]
    return Final(final.text, words[0].start, words[-1].end, tuple(words))


def test_captions_survive_the_server(tmp_path: Path) -> None:
    pause = np.zeros(20000, np.float32)
    audio = np.concatenate([speech(FIRST), pause, speech(SECOND), pause])
    given = random_finals()
    (tmp_path / "finals.json").write_text(json.dumps([final.to_dict() for final in given]))
    wav = write_audio(tmp_path / "speech.wav", audio)
    seen = drive("live", wav, tmp_path / "finals.json", tmp_path)
    assert seen["complaints"] == seen["moved"] == []

    # When the server ended, there were a final and a partial. They must stay on the page.
    gone = r"The server (is shutting down|does not answer)\. Speech is kept, and will be recognized when it is back\."
    assert re.fullmatch(gone, seen["gone"])
    assert seen["during"][0] == seen["finals"][:1]
    assert seen["during"][1]
    assert seen["over"] == ""
    assert seen["full"] == "All 1 streams of the server are taken."
    assert re.fullmatch(r"\d+ ms", seen["latency"])

    # The second connection began in the silence between the two utterances, and continued without a gap.
    sent = [np.fromfile(tmp_path / f"{i}.s16", np.int16) for i in (0, 1)]
    recognizer = quick_recognizer()
    recognized = [[event for event in recognize(recognizer, samples) if isinstance(event, Final)] for samples in sent]
    begins = [k for k in range(0, len(sent[0]), 1600) if np.array_equal(sent[0][k:], sent[1][: len(sent[0]) - k])]
    assert len(begins) == 1
    start_s = begins[0] / 16000
    assert 0.2 <= start_s - recognized[0][0].end <= 0.5

    # The text of each connection equals Python's for its audio, on the page and in the saved files.
    expected = [shifted(recognized[0][0], 0.0), *(shifted(final, start_s) for final in recognized[1])]
    assert seen["finals"] == [final.text for final in expected]
    assert len(seen["finals"]) == 2
    assert (tmp_path / "saved.text").read_text() == "".join(f"{final.text}\n" for final in expected)
    assert (tmp_path / "saved.srt").read_text() == document("srt", expected)
    names = [re.sub(r"\d", "0", seen["saved"][kind]) for kind in ("text", "srt")]
    assert names == ["captions 0000-00-00 00.00.txt", "captions 0000-00-00 00.00.srt"]
    assert seen["cleared"] == 0  # and then the deletion was undone

    # In partials, stable words come first and do not change.
    assert all(text.startswith(stable) for stable, text in seen["partials"])
    assert any(stable for stable, _ in seen["partials"])

    assert seen["remembered"]
    assert seen["givenUp"][0] == "Stopped."
    assert re.fullmatch(r"The last \d+ s of speech are not recognized\.", seen["givenUp"][1])

    # The page's subtitles are Python's.
    rounded = [shifted(final, 0.0) for final in given]
    assert (tmp_path / "finals.srt").read_text() == document("srt", rounded)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The state of the overlay and of a page on which a file was dropped, and the folder with their output."""
    folder = tmp_path_factory.mktemp("pages")
    audio = speech(FIRST)
    wav = write_audio(folder / "speech.wav", np.concatenate([audio, np.zeros(24000, np.float32)]))
    stereo = np.repeat(np.stack([2 * audio, 0 * audio], axis=1), 3, axis=0)
    soundfile.write(folder / "talk.wav", np.clip(stereo, -1, 1), 48000)
    write_audio(folder / "silence.wav", np.zeros(60 * 16000, np.float32))
    return drive("pages", wav, folder / "talk.wav", folder), folder


def test_the_overlay_is_two_lines_over_nothing(pages: tuple[Any, Path]) -> None:
    seen, folder = pages[0]["overlay"], pages[1]
    assert seen.pop("size") > 60 and abs(seen.pop("lines") - 2) < 0.05
    assert seen.pop("styled") == ["156px", "40px", "rgb(255, 204, 0)", "rgba(0, 0, 0, 0.627)"]
    assert seen.pop("unplugged").startswith("The microphone was disconnected")  # and then it listened again
    assert seen.pop("refused") == "lines in the address is many: it must be a number from 1 to 9."
    assert seen == {"atEnd": True, "controls": 0, "listening": 1, "error": ""}
    pixels = imread(folder / "overlay.png")  # (height, width, 4) float32 in 0 to 1
    rows, columns = np.nonzero(pixels[..., 3])
    assert not pixels[:360, :, 3].any() and not pixels[:, :10, 3].any()  # the video shows
    assert len(rows) > 1000 and np.ptp(columns) > 400  # and there is text


def test_the_captions_float_in_their_own_window(pages: tuple[Any, Path]) -> None:
    seen = pages[0]["float"]
    assert len(seen["finals"]) >= 2 and all(seen["finals"])
    assert 15 < seen["size"] < 40 and seen["shown"] == 0
    assert seen["after"] == seen["finals"]  # back on the page


def test_a_file_is_captioned_where_it_is_dropped(pages: tuple[Any, Path]) -> None:
    """With any sample rate and number of channels; a second file follows the first."""
    seen, folder = pages[0]["file"], pages[1]
    assert seen["refused"].startswith("notes.txt cannot be read: it is not audio or video")
    sent = np.fromfile(folder / "sent.s16", np.int16)
    assert abs(len(sent) - len(speech(FIRST))) <= 2
    recognizer = quick_recognizer()
    (final,) = (event for event in recognize(recognizer, sent) if isinstance(event, Final))
    assert seen["dropped"] == [shifted(final, 0.0).text] and seen["error"] == ""
    assert seen["chosen"] == 2 * seen["dropped"] and seen["listen"] == "Start listening"
    first = shifted(final, 0.0)
    assert (folder / "saved.srt").read_text() == document("srt", [first, shifted(final, first.end)])
    assert seen["statuses"] == ["Stopped.", "No speech was recognized."]


def test_page_files_are_cached_but_revalidated() -> None:
    client = TestClient(Starlette(routes=page.routes))
    assert set(page.PAGE_PATHS) == {"/"} | {
        f"/{name}"
        for name in (
            "style.css",
            *(f"{n}.js" for n in ["app", "captions", "capture", "engine", "file", "microphone", "outbox", "subtitles"]),
        )
    }
    for path in page.PAGE_PATHS:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-cache"
        again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_only_the_page_opens_without_a_token() -> None:
    access = Access(token="of ours")
    for path in (*page.PAGE_PATHS, "/healthz"):
        assert access.refusal(path, Headers({"host": "localhost"}), websocket=False) is None
        # Behind a proxy that uses the server's own host name, the page's scripts have another origin.
        foreign = access.refusal(path, Headers({"host": "localhost", "origin": "https://example.org"}), websocket=False)
        assert (foreign is None) == (path in page.PAGE_PATHS)
        refused = access.refusal(path, Headers({"host": "localhost"}), websocket=True)
        assert refused is not None
        assert refused[0] == 401
    for path in ("/metrics", "/app.js/", "/engine.json"):
        refused = access.refusal(path, Headers({"host": "localhost"}), websocket=False)
        assert refused is not None
        assert refused[0] == 401
