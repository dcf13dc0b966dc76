"""Hotwords and closed phrases in live recognition, with the bundled model and synthetic speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.recognition import finals, recognize
from support.synth import speech, write_audio

from asr import Recognizer
from asr._core import Hypothesis
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import list_text, rescore
from asr.streaming import Event, Partial
from asr.streaming.terminal.cli import main

COMMANDS = ["turn on the light", "turn off the light", "open the door", "stop", "[unk]"]


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    # In float32: in int8, the result for unclear words depends on the processor.
    return Recognizer(bundled_model("float32"), lm="bundled")


def events_of(recognizer: Recognizer, text: str) -> list[Event]:
    pause = np.zeros(16000, np.float32)
    return recognize(recognizer, np.concatenate([pause[:4000], speech(text), pause]))


def partials(events: list[Event]) -> str:
    return " / ".join(event.raw for event in events if isinstance(event, Partial))


@pytest.mark.parametrize("lm", ["auto", None])
def test_hotword_outside_the_vocabulary_is_recognized(recognizer: Recognizer, lm: str | None) -> None:
    """In partials, in the second pass, and with the decoder that chooses the final."""
    town = "they went to the town of brankovik"
    plain = recognizer if lm == "auto" else recognizer.with_options(lm=lm)
    hot = plain.with_options(hotwords=["Brankovik:1.5" if lm else "Brankovik:4"])
    assert "BRANKOVIK" not in finals(events_of(plain, town)) + partials(events_of(plain, town))
    events = events_of(hot, town)
    assert finals(events).endswith("BRANKOVIK")
    assert "BRANKOVIK" in partials(events)


def test_hotwords_change_nothing_where_they_are_not_spoken(recognizer: Recognizer) -> None:
    text = "the old man walked slowly down the road"
    hot = recognizer.with_options(hotwords=["Brankovik", "New York", "Nubians:2"])
    assert finals(events_of(hot, text)) == finals(events_of(recognizer, text)) != ""


def test_the_decoder_takes_no_hotword_away() -> None:
    def hypothesis(log_prob: float, hotword_score: float) -> Hypothesis:
        lists = {"start_frames": [0], "end_frames": [1], "confidences": [0.5]}
        return Hypothesis([3], log_prob=log_prob, lm_score=0.0, hotword_score=hotword_score, **lists)

    plain, hot, also_hot = hypothesis(-10.0, 0.0), hypothesis(-12.0, 5.0), hypothesis(-13.0, 5.0)
    assert rescore([plain, hot, also_hot], [-1.0, -90.0, -50.0], 0.5) == 2
    assert rescore([plain, hot], [-1.0, -90.0], 0.5) == 1
    assert rescore([plain, hypothesis(-16.0, 5.0)], [-5.0, -5.5], 0.5) == 1  # a hotword counts in full
    assert rescore([plain, hypothesis(-16.0, 5.0)], [-5.0, -15.0], 0.5) == 0


def test_closed_list_gives_unk_for_everything_else(recognizer: Recognizer) -> None:
    closed = recognizer.with_options(phrases=COMMANDS)
    assert finals(events_of(closed, "turn off the light")) == "TURN OFF THE LIGHT"
    assert finals(events_of(closed, "turn off the light stop")) == "TURN OFF THE LIGHT STOP"
    assert finals(events_of(closed, "her mother was a very good woman")) == "[unk]"
    for event in events_of(closed, "turn off the light her mother stop"):
        assert event.text == event.raw.lower()  # no capitals, no marks
    events = events_of(closed, "open the door")
    shown = {word for event in events for word in event.raw.split()}
    assert shown == {"OPEN", "THE", "DOOR"}  # whole words only
    (final,) = (event for event in events if finals([event]))
    ends = [(word.start, word.end) for word in final.words]
    assert all(start < end for start, end in ends) and ends == sorted(ends) and 0.15 < ends[0][0] < 0.4
    assert all(0 < word.confidence < 1 for word in final.words)
    assert finals(events_of(closed.with_options(phrases=None), "stop")) == finals(events_of(recognizer, "stop"))


def test_unk_is_rarer_the_more_it_costs(recognizer: Recognizer) -> None:
    cheap, dear = (recognizer.with_options(phrases=COMMANDS, unknown_cost=cost) for cost in (0.1, 50.0))
    assert finals(events_of(cheap, "turn on the light")) == "[unk]"
    assert "[unk]" not in finals(events_of(dear, "my sister lives in another country"))


def test_lists_come_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hotwords, phrases = tmp_path / "hotwords.txt", tmp_path / "phrases.txt"
    hotwords.write_text("\ufeffNew York\r\n\r\nBrankovik:1.5\r\n", encoding="utf-8")
    phrases.write_text("\n".join(COMMANDS), encoding="utf-8")
    town = write_audio(tmp_path / "town.wav", speech("they went to the town of brankovik"))
    light = write_audio(tmp_path / "light.wav", speech("turn on the light"))
    assert main(["--file", str(town), "--hotwords", str(hotwords)]) == 0
    assert "Brankovik" in capsys.readouterr().out
    assert main(["--file", str(light), "--phrases", str(phrases), "--text", "plain"]) == 0
    assert "turn on the light" in capsys.readouterr().out
    for option in ("--hotwords", "--phrases"):
        with pytest.raises(SystemExit, match="2"):
            main(["--file", str(light), option, str(tmp_path / "none.txt")])
        assert "there is no file" in capsys.readouterr().err
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"hotwords: .*latin\.txt cannot be read as UTF-8"):
        list_text("hotwords", tmp_path / "latin.txt")
    with pytest.raises(ValueError, match=rf"hotwords: {tmp_path} cannot be read: Is a directory$"):
        list_text("hotwords", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hotwords": ["Ada"], "search": "greedy"}, "search greedy takes no language model and no hotwords"),
        ({"hotwords": ["Ada"], "phrases": ["stop"]}, "give one of the two"),
        ({"phrases": []}, "the list of phrases has no phrase; give one or more, or no list"),
        ({"phrases": ["[unk]", " "]}, "has no phrase"),
        (
            {"phrases": ["room 5"]},
            "no line of the list of phrases can be used: phrase line 'room 5': phrase '5' cannot",
        ),
        ({"phrases": ["go"], "search": "greedy"}, "search greedy takes no language model, hotwords or phrases"),
    ],
)
def test_what_is_wrong_is_named(recognizer: Recognizer, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recognizer.with_options(**options)


@pytest.mark.parametrize(
    ("name", "line", "good", "message"),
    [
        (
            "hotwords",
            "R2-D2",
            "Ada",
            "hotword 'R2-D2' cannot be written by this model: it has no '2', '-'; write it as",
        ),
        ("hotwords", "Ann = , ben", "Ada", "has an empty place; write it as Nguyen = win"),
        ("hotwords", f"Ann = {', '.join(['b'] * 17)}", "Ada", "has 17 aliases; it may have 16"),
        ("hotwords", "Ann" + " Ann" * 16, "Ada", "has a phrase of 17 words; it may have 16"),
        ("hotwords", f"Ann = ben{' ben' * 16}", "Ada", "has a phrase of 17 words; it may have 16"),
        ("hotwords", "Star Trek: Voyager", "Ada", "must be a number in (0, 20]"),
        ("hotwords", "Bertie:nan", "Ada", "must be a number in (0, 20]"),
        ("phrases", "room 5", "go", "phrase '5' cannot be written by this model: it has no '5'; write it as"),
        ("replace", "no arrow", "ada -> Ada", "has no arrow"),
        ("own_commands", "no arrow", "dot -> .", "has no arrow"),
    ],
)
def test_one_odd_line_never_refuses_a_list(
    recognizer: Recognizer, name: str, line: str, good: str, message: str
) -> None:
    made = recognizer.with_options(**{name: [good, line]})
    (warning,) = made.skipped_lines
    assert warning in made.warnings
    assert f"line '{line}'" in warning and message in warning
    if name != "phrases":
        assert recognizer.with_options(**{name: [line]}).skipped_lines == (warning,)


def test_unusable_line_is_skipped_with_a_warning(
    recognizer: Recognizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = recognizer.with_options(hotwords=["Phronsie", "R2-D2", "Ann = b5, ben"])
    assert [warning.split(":")[0] for warning in hot.warnings] == [
        "hotword line 'R2-D2'",
        "hotword line 'Ann = b5, ben'",
    ]
    assert "'R2-D2' cannot be written by this model: it has no '2'" in hot.warnings[0]
    assert hot.warnings[0].endswith(", or give the words that it sounds like: GPT-4 = g p t four")
    assert recognizer.warnings == ()
    (tmp_path / "hotwords.txt").write_text("Phronsie\nR2-D2\n")
    audio = write_audio(tmp_path / "short.wav", np.zeros(1600, np.float32))
    assert main(["--file", str(audio), "--hotwords", str(tmp_path / "hotwords.txt")]) == 0
    assert "asr-stream: left out: hotword line 'R2-D2': hotword 'R2-D2' cannot be" in capsys.readouterr().err


def shown(events: list[Event]) -> str:
    return " ".join(event.text for event in events if event.type == "final")


def test_hotwords_are_written_as_in_the_file(recognizer: Recognizer) -> None:
    hot = recognizer.with_options(hotwords=["BranKovik:1.5", "GPT-4 = g p t four"])
    assert "BranKovik" in shown(events_of(hot, "they went to the town of brankovik"))
    assert hot.warnings == ()
    assert "GPT-4" in shown(events_of(hot, "they asked g p t four about it"))
    small = recognizer.with_options(hotwords=["brankovik:1.5"])
    assert "Brankovik" in shown(events_of(small, "they went to the town of brankovik"))


def test_an_alias_is_a_pronunciation(recognizer: Recognizer) -> None:
    """The word that sounds the same must still be recognized where it fits the sentence."""
    plain, hot = (recognizer.with_options(hotwords=hotwords) for hotwords in (None, ["Nguyen = win, new yen : 3"]))
    assert "Nguyen" not in shown(events_of(plain, "i met mister win yesterday"))
    assert "Nguyen" in shown(events_of(hot, "i met mister win yesterday"))
    assert "Nguyen" in shown(events_of(hot, "i met mister new yen yesterday"))
    gentle = recognizer.with_options(hotwords=["Nguyen = win : 0.2"])
    assert "Nguyen" not in shown(events_of(gentle, "she wants to win the game"))
