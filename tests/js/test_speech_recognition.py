"""SpeechRecognition of the npm package: the events that three web apps get, in Firefox, and their order, in Chromium.

js/tests/speech_session.test.mjs tests the session itself; each browser brings its own microphone, tracks and clock.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import js_build
from support.recognition import recognize
from support.synth import speech, write_audio
from support.virtual_microphone import VirtualMicrophone

from asr import Recognizer
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model

JS = js_build.JS
LEAD, PAUSE = np.zeros(12000, np.float32), np.zeros(48000, np.float32)
RECORDINGS = {
    "color": [speech("dark green", words_per_minute=130)],
    "other": [speech("the old man walked")],
    "talk": [speech("the old man walked slowly down the road"), speech("i do not know what to say", voice="en-gb")],
    "radio": [speech("turn on the radio")],
}
COLORS = ["aqua", "azure", "beige", "black", "blue", "brown", "chocolate", "coral", "dark green", "yellow"]

STARTS, ENDS = ["start", "audiostart", "soundstart", "speechstart"], ["speechend", "soundend", "audioend"]
LAST = ["result", "end"]  # when the session no longer listens
Event = tuple[str, str | None, int | None, list[tuple[str, bool, int, float]] | None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page in float32, where rounding cannot change a word, with demos and recordings in the same folder."""
    folder = js_build.page(tmp_path_factory.mktemp("speech") / "page", "--model", str(bundled_model("float32")))
    shutil.copytree(JS / "tests" / "demos", folder, dirs_exist_ok=True)
    for name, utterances in RECORDINGS.items():
        write_audio(folder / f"{name}.wav", np.concatenate([LEAD, *(a for u in utterances for a in (u, PAUSE))]))
    return folder


@pytest.fixture(scope="module")
def drive(folder: Path) -> Iterator[Any]:
    """A function: scenario -> output of js/tests/speech_recognition.mjs. Sound and microphone are virtual."""
    (folder / "sound").mkdir(exist_ok=True)
    with VirtualMicrophone(folder / "sound") as server:

        def run(scenario: str) -> dict[str, Any]:
            command = ["node", "tests/speech_recognition.mjs", str(folder), scenario]
            env = server.env | {"HOME": str(Path.home())}
            result = subprocess.run(command, cwd=JS, env=env, capture_output=True, text=True, timeout=1200)
            assert result.returncode == 0, result.stderr
            found: dict[str, Any] = json.loads(result.stdout)
            return found

        yield run


def names(events: list[Event]) -> list[str]:
    """The event types, with the name of an error, and consecutive results as one."""
    found: list[str] = []
    for kind, error, _, _ in events:
        name = error or kind
        if name != "result" or found[-1:] != ["result"]:
            found.append(name)
    return found


def transcripts(events: list[Event]) -> list[str]:
    """The finals of the last session."""
    last = [results for kind, _, _, results in events if kind == "result"][-1]
    return [text for text, is_final, *_ in last or [] if is_final]


def sessions(events: list[Event]) -> list[list[Event]]:
    found: list[list[Event]] = [[]]
    for event in events:
        found[-1].append(event)
        if event[0] == "end":
            found.append([])
    return found if found[-1] else found[:-1]


def check_order(events: list[Event], max_alternatives: int = 1) -> None:
    """Checks all requirements of the specification for a session."""
    for session in sessions(events):
        kinds = [kind for kind, *_ in session]
        assert all(kinds.count(kind) <= 1 for kind in [*STARTS, *ENDS, "error", "end"]), kinds
        assert kinds[0] == "start" or kinds in (["error", "end"], ["end"])
        if kinds[-1] == "end":
            for kind in ("audio", "sound", "speech"):
                assert (f"{kind}start" in kinds) == (f"{kind}end" in kinds), kinds
        starts, ends = ([kind for kind in kinds if kind in these] for these in (STARTS, ENDS))
        assert starts == STARTS[: len(starts)] and ends == ENDS[len(ENDS) - len(ends) :], kinds
        finals: list[Any] = []
        last = finals
        for kind, _, index, results in session:
            if results is None:
                continue
            assert "speechstart" in kinds[: kinds.index(kind)]
            assert index == len(finals) == len(results) - (kind == "result")  # finals never change
            assert results[: len(finals)] == finals
            assert [is_final for _, is_final, _, _ in results[:-1]] == [True] * (len(results) - 1)
            assert all(1 <= count <= max_alternatives for _, _, count, _ in results)
            finals = [result for result in results if result[1]]
            last = results = [result for result in results if result != ["", False, 1, 0]]  # withdrawn
            assert all(0 < confidence < 1 for *_, confidence in results)
            assert all(text.startswith(" ") == (i > 0) for i, (text, *_) in enumerate(results))
        assert "error" in kinds or kinds[-1] != "end" or last == finals  # no interim result remains


def test_web_apps_that_knew_another_browser(drive: Any, folder: Path) -> None:
    found = drive("demos")

    def finals(demo: str, stream: int, **options: Any) -> list[Any]:
        """Python's finals for the same audio."""
        samples = np.fromfile(folder / f"{demo}.{stream}.f32", np.float32)
        recognizer = Recognizer(bundled_model("float32"), lm=BUNDLED, **options)
        events = recognize(recognizer, samples, rate=found[demo]["sampleRates"][stream])
        return [event for event in events if event.type == "final"]

    for demo, seen in found.items():
        assert seen["complaints"] == []
        check_order(seen["events"], max_alternatives=5 if demo == "commands" else 1)
        assert demo == "dictation" or seen["numWorkers"] == 1

    colors = found["colors"]
    first, second = map(names, sessions(colors["events"]))
    assert first == [*STARTS, *ENDS, *LAST] and second == [*STARTS, *ENDS, "nomatch", "end"]
    plain = {"hotwords": COLORS, "max_alternatives": 20, "text": "plain"}
    said = finals("colors", 0, **plain)[0]
    assert "dark green" in [said.text, *(other.text for other in said.alternatives)]
    assert colors["first"] == "Result received: dark green." and colors["color"] == "darkgreen"
    assert finals("colors", 1, **plain) and colors["lines"][1] == "That is not a color of the list."

    dictation = found["dictation"]
    for stream, session in enumerate(sessions(dictation["events"])):
        # The words after the first sentence may arrive after the second stop.
        assert names(session) in ([*STARTS, "result", *ENDS, *last] for last in (["end"], LAST))
        expected = [event.text for event in finals("dictation", stream)]
        assert "".join(transcripts(session)) == " ".join(expected) and len(expected) >= 2 - stream
        assert sum(kind == "result" for kind, *_ in session) > 4 - 2 * stream  # interim ones too
    assert " ".join(expected) in dictation["lines"] and "Stopped." in dictation["lines"]

    commands = found["commands"]
    assert [names(session) for session in sessions(commands["events"])][:2] == 2 * [[*STARTS, *ENDS, *LAST]]
    assert commands["lines"][1:] == [*2 * ["listening", "radio: on"], "listening"]
    for stream, session in enumerate(sessions(commands["events"])[:2]):
        counts = [count for *_, results in session for *_, count, _ in results or []]
        assert counts[-1] == 1 + len(finals("commands", stream, max_alternatives=4)[0].alternatives)


def test_the_order_of_events(drive: Any) -> None:
    found = drive("order")
    assert found.pop("defaults") == ["", False, False, 1, 0, 0, None, True]
    assert found.pop("availability") == ["unavailable", "downloading", True, "available", "unavailable", False]
    invalid = "InvalidStateError"
    assert found.pop("refusals") == [*4 * [invalid], *3 * ["TypeError"], "SyntaxError"]
    assert found.pop("again") == [invalid, None]
    assert found.pop("states") == ["live", "live"]  # the session does not stop tracks of the page
    assert found.pop("missing") == "Error"
    assert found.pop("numWorkers") == found.pop("lastNumWorkers")
    for name, events in found.items():
        check_order(events, max_alternatives=3 if name == "phrase" else 1)
    silent, whole = ["start", "audiostart", "audioend"], [*STARTS, *ENDS, *LAST]
    assert {name: names(events) for name, events in found.items()} == {
        "unnamed": ["network", "end"],
        "stillMissing": ["network", "end"],
        "abort": [*silent, "aborted", "end"],
        "stop": [*silent, "end"],
        "noSpeech": [*silent, "no-speech", "end"],
        "abortAtOnce": ["aborted", "end"],
        "stopAtOnce": ["end"],
        "french": ["language-not-supported", "end"],
        "noLanguage": ["language-not-supported", "end"],
        "otherGrammar": ["bad-grammar", "end"],
        "nestedGrammar": ["bad-grammar", "end"],
        "unspellable": ["bad-grammar", "end"],
        "unspellablePhrase": ["start", "end"],
        "restartedAtEnd": 2 * [*silent, "aborted", "end"],
        "restartedAtError": 2 * [*silent, "aborted", "end"],
        "noAudio": ["start", "audio-capture", "end"],
        "refused": ["not-allowed", "end"],
        "noMicrophone": ["audio-capture", "end"],
        "track": whole,
        "otherTrack": whole,
        "disabledTrack": [*silent, "no-speech", "end"],
        "stoppedTrack": whole,
        "pushToTalk": whole,
        "busy": whole,
        "lost": [*STARTS, "result", *ENDS, "result", "audio-capture", "end"],
        "abortInSpeech": [*STARTS, "result", *ENDS, "aborted", "end"],
        "phrase": whole,
    }
    said = {name: "".join(transcripts(found[name])) for name in ("track", "otherTrack", "busy", "phrase")}
    assert "old man" in said["track"] and "radio" in said["otherTrack"] and "radio" in said["busy"]
    assert "Turnov" in said["phrase"]
