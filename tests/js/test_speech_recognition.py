"""SpeechRecognition of the npm package in Chromium and Firefox: what three web apps are told, and in which order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_build import lock
from support.recognition import recognize
from support.synth import speech, write_audio
from support.virtual_microphone import VirtualMicrophone

from asr import Recognizer
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model

JS = Path(__file__).parents[2] / "js"
LEAD, PAUSE = np.zeros(12000, np.float32), np.zeros(48000, np.float32)
RECORDINGS = {
    "color": [speech("dark green", words_per_minute=130)],
    "other": [speech("the old man walked")],
    "talk": [speech("the old man walked slowly down the road"), speech("she walked to the sea", voice="en-gb")],
    "off": [speech("turn off the light")],
}
COLORS = ["aqua", "azure", "beige", "black", "blue", "brown", "chocolate", "coral", "dark green", "yellow"]

STARTS, ENDS = ["start", "audiostart", "soundstart", "speechstart"], ["speechend", "soundend", "audioend"]
Event = tuple[str, str | None, int | None, list[tuple[str, bool, int, float]] | None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, in float32, where rounding cannot decide between two words; beside it demos and recordings."""
    with lock("npm"):
        subprocess.run(["make", "node_modules/.package-lock.json"], cwd=JS, check=True, capture_output=True)
    with lock("page"):
        subprocess.run(["make", "core"], cwd=JS, check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("speech") / "page"
    build = ["node", "web/build.mjs", "--model", str(bundled_model("float32")), "--output", str(folder)]
    subprocess.run(build, cwd=JS, check=True, capture_output=True)
    for path in (JS / "tests" / "demos").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    for name, utterances in RECORDINGS.items():
        write_audio(folder / f"{name}.wav", np.concatenate([LEAD, *(a for u in utterances for a in (u, PAUSE))]))
    return folder


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def drive(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    """A function of a scenario: what js/tests/speech_recognition.mjs tells. Firefox has no sound without a server."""
    (folder / "sound").mkdir(exist_ok=True)
    with VirtualMicrophone(folder / "sound") as server:

        def run(scenario: str) -> dict[str, Any]:
            command = ["node", "tests/speech_recognition.mjs", request.param, str(folder), scenario]
            env = server.env | {"HOME": str(Path.home())}
            result = subprocess.run(command, cwd=JS, env=env, capture_output=True, text=True, timeout=600)
            assert result.returncode == 0, result.stderr
            found: dict[str, Any] = json.loads(result.stdout)
            return found

        yield run


def names(events: list[Event]) -> list[str]:
    """The types, an error by its name, results in succession as one."""
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


def check_order(events: list[Event], max_alternatives: int = 1) -> None:
    """What the specification promises of any session, or of several, one after the other."""
    while events:
        length = [kind for kind, *_ in events].index("end") + 1
        session, events = events[:length], events[length:]
        kinds = [kind for kind, *_ in session]
        assert all(kinds.count(kind) <= 1 for kind in [*STARTS, *ENDS, "error", "end"]), kinds
        assert kinds[0] == "start" or kinds in (["error", "end"], ["end"])
        for kind in ("audio", "sound", "speech"):
            assert (f"{kind}start" in kinds) == (f"{kind}end" in kinds), kinds
        starts, ends = ([kind for kind in kinds if kind in these] for these in (STARTS, ENDS))
        assert starts == STARTS[: len(starts)] and ends == ENDS[len(ENDS) - len(ends) :], kinds
        finals: list[Any] = []
        for kind, _, index, results in session:
            if results is None:
                continue
            assert "audiostart" in kinds[: kinds.index(kind)]
            assert index == len(finals) <= len(results)  # no final changes
            assert results[: len(finals)] == finals
            assert [is_final for _, is_final, _, _ in results[:-1]] == [True] * (len(results) - 1)
            assert all(1 <= count <= max_alternatives for _, _, count, _ in results)
            assert all(0 < confidence < 1 for *_, confidence in results)
            assert all(text.startswith(" ") == (i > 0) for i, (text, *_) in enumerate(results))
            finals = [result for result in results if result[1]]
            last = results
        assert "error" in kinds or not finals or last == finals  # nothing interim is left


def test_web_apps_that_knew_another_browser(drive: Any, folder: Path) -> None:
    found = drive("demos")

    def words(name: str, **options: Any) -> list[Any]:
        recognizer = Recognizer(bundled_model("float32"), neural_lm=None, **options)
        samples = np.fromfile(folder / f"{name}.f32", np.float32)
        events = recognize(recognizer, samples, rate=found[name]["sampleRate"])
        return [event for event in events if event.type == "final"]

    for name, seen in found.items():
        assert seen["complaints"] == [] and seen["numWorkers"] == 1
        last = max(i for i, (kind, *_) in enumerate(seen["events"]) if kind == "end")
        check_order(seen["events"][: last + 1], max_alternatives=5 if name == "commands" else 1)
    whole = [*STARTS, "result", *ENDS, "end"]

    color, other = found["color"], found["other"]
    assert names(color["events"]) == whole
    assert words("color", phrases=COLORS, punctuation=None)[0].raw == "DARK GREEN"
    assert transcripts(color["events"]) == ["dark green"]
    assert color["lines"][1:] == ["Result received: dark green."] and color["color"] == "darkgreen"
    assert names(other["events"]) == [*STARTS, "nomatch", *ENDS, "end"]
    assert other["lines"][1:] == ["That is not a color of the list."]

    talk = found["talk"]
    assert names(talk["events"]) == [*STARTS, "result", *ENDS, "end"]
    expected = [event.text for event in words("talk", lm=BUNDLED)]
    assert len(expected) == 2 and "".join(transcripts(talk["events"])) == " ".join(expected)
    assert talk["lines"][-3:] == [" ".join(expected), "", "Done."]
    assert sum(event[0] == "result" for event in talk["events"]) > 4  # interim ones too

    commands = found["commands"]
    assert names(commands["events"])[:9] == whole
    assert commands["lines"][1:4] == ["listening", "light: off", "listening"]
    assert max(count for *_, results in commands["events"] for *_, count, _ in results or []) > 1


def test_the_order_of_events(drive: Any) -> None:
    found = drive("order")
    assert found.pop("defaults") == ["", False, False, 1, 0, 0, None, True]
    invalid = "InvalidStateError"
    assert found.pop("twice") == [invalid, invalid, invalid, "TypeError", "TypeError", "SyntaxError", invalid, None]
    assert found.pop("states") == ["live", "live"]  # tracks of the page stay the page's
    assert found.pop("missing") == "Error"
    assert found.pop("numWorkers") == 1
    for events in found.values():
        check_order(events)
    silent, whole = ["start", "audiostart", "audioend"], [*STARTS, "result", *ENDS, "end"]
    assert {name: names(events) for name, events in found.items()} == {
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
        "unspellablePhrase": ["phrases-not-supported", "end"],
        "restarted": 2 * [*silent, "aborted", "end"],
        "refused": ["not-allowed", "end"],
        "noMicrophone": ["audio-capture", "end"],
        "track": whole,
        "otherTrack": whole,
        "pushToTalk": whole,
        "lost": [*STARTS, "result", *ENDS, "result", "audio-capture", "end"],
        "abortInSpeech": [*STARTS, "result", *ENDS, "aborted", "end"],
        "unnamed": ["network", "end"],
        "stillMissing": ["network", "end"],
        "found": ["start", "end"],
    }
    assert transcripts(found["track"]) != transcripts(found["otherTrack"]) != []
