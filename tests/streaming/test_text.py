"""Text in events: as shown, and as recognized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commas import write_punctuation
from support.recognition import finals, num_errors, recognize

from asr import Recognizer, _core
from asr._core import NUM_CASES, NUM_MARKS, special_features
from asr.runtime.onnx_model import OnnxModel
from asr.runtime.punctuation import Punctuation
from asr.streaming import Final, Partial
from asr.streaming.events import Gap
from asr.streaming.stream import Stream
from asr.streaming.work import compute


@pytest.fixture(scope="module")
def plain() -> Recognizer:
    return Recognizer(text="plain", punctuation=None)


@pytest.fixture(scope="module")
def formatted(plain: Recognizer) -> Recognizer:
    return plain.with_options(text="formatted")


@pytest.mark.parametrize("punctuation", [None, "auto"])
def test_plain_text_is_made_of_raw_text(plain: Recognizer, conversation: np.ndarray, punctuation: str | None) -> None:
    plain = plain.with_options(punctuation=punctuation)
    formatted = plain.with_options(text="formatted")
    for one, other in zip(recognize(plain, conversation), recognize(formatted, conversation), strict=True):
        assert (one.raw, one.raw_words, one.start, one.end) == (other.raw, other.raw_words, other.start, other.end)
        assert one.raw == " ".join(word.word for word in one.raw_words)


def test_formatted_text_without_punctuation_model_is_lower_case(formatted: Recognizer, sample: np.ndarray) -> None:
    events = recognize(formatted, sample)
    final = events[-1]
    assert isinstance(final, Final) and final.text == final.raw.lower()
    assert num_errors(final.raw) <= 2 and final.text == " ".join(word.word for word in final.words)
    assert final.to_dict()["raw"] == final.raw and len(final.to_dict()["raw_words"]) == len(final.words)


def test_masked_words_are_not_shown(plain: Recognizer, sample: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "mask.txt").write_text("old man\n")
    expected = finals(recognize(plain, sample))
    masked = recognize(plain.with_options(mask=tmp_path / "mask.txt"), sample)[-1]
    assert "OLD MAN" in expected and masked.raw == expected
    assert masked.text.upper() == expected.replace("OLD MAN", "*** ***")


def test_stream_may_change_its_text_options(plain: Recognizer, formatted: Recognizer, sample: np.ndarray) -> None:
    stream = plain.stream()
    stream.accept_waveform(sample)
    stream.change(formatted.with_options(mask=["old man"]))
    stream.accept_waveform(sample)
    stream.finish()
    first, second = [event for event in stream.events() if isinstance(event, Final)]
    assert (first.text, second.text) == (first.raw.lower(), f"{second.raw.lower()}".replace("old man", "*** ***"))


def test_failing_punctuation_leaves_words_and_warns_once(plain: Recognizer, sample: np.ndarray, tmp_path: Path) -> None:
    def fail(*_: Any) -> Any:
        if num_calls.append(0) or len(num_calls) % 2:
            raise RuntimeError("no luck")
        return [np.zeros((1, 1, 4), np.float32), np.zeros((1, 1, 3), np.float32)], ()  # of another number of units

    num_calls: list[int] = []
    punctuation = Punctuation(write_punctuation(tmp_path / "commas.onnx"))
    punctuation.network.run = fail  # type: ignore[method-assign]
    events = recognize(plain.with_options(text="formatted", punctuation=punctuation), sample)
    errors = [event.text for event in events if event.type == "error"]
    assert len(num_calls) > 3 and len(errors) == 1
    assert "case and punctuation failed" in errors[0] and "RuntimeError: no luck" in errors[0]
    assert events[-1].type == "final" and events[-1].text == events[-1].raw.lower() != ""


def test_bad_values(onnx: OnnxModel, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mask: there is no file"):
        Recognizer(onnx, mask=tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"punctuation: .* cannot be read"):
        Recognizer(onnx, text="formatted", punctuation=tmp_path / "none.onnx")


def test_the_default_is_that_of_the_contract(onnx: OnnxModel) -> None:
    assert Recognizer(onnx).text == _core.OPTIONS["text"].default


def test_case_and_punctuation_come_from_their_model(plain: Recognizer, sample: np.ndarray, tmp_path: Path) -> None:
    recognizer = plain.with_options(text="formatted", punctuation=write_punctuation(tmp_path / "commas.onnx"))
    events = recognize(recognizer, sample)
    *partials, final = [event for event in events if isinstance(event, (Partial, Final))]
    assert final.text == ", ".join(word.capitalize() for word in final.raw.split()) + "."
    assert [word.word for word in final.words] == final.text.split()
    assert [word.start for word in final.words] == [word.start for word in final.raw_words]
    stable = [event.text.split()[: event.num_stable] for event in partials if isinstance(event, Partial)]
    assert any(stable)
    # The last word of a partial has no punctuation yet.
    assert all(event.text.endswith(",") is False for event in partials if event.text)


def test_audio_before_a_change_keeps_its_text_options(plain: Recognizer, sample: np.ndarray, tmp_path: Path) -> None:
    formatted = plain.with_options(text="formatted", punctuation=write_punctuation(tmp_path / "commas.onnx"))
    stream = Stream(formatted, deferred=True)
    stream.accept_waveform(sample)
    stream.change(plain)
    stream.accept_waveform(sample)
    stream.finish()
    while (work := stream.pending()) is not None:
        compute([work])
    events = stream.events()
    first, second = [event.text for event in events if isinstance(event, Final)]
    assert first.endswith(".") and second == second.lower() and "," not in second
    assert not [event for event in events if event.type == "error"]


def test_forced_cut_leaves_no_mark_at_the_end(plain: Recognizer, conversation: np.ndarray, tmp_path: Path) -> None:
    commas = write_punctuation(tmp_path / "commas.onnx")
    recognizer = plain.with_options(text="formatted", punctuation=commas, max_utterance_s=2.0)
    events = [event for event in recognize(recognizer, conversation) if isinstance(event, Final)]
    assert {event.endpoint for event in events} >= {"max_utterance", "end_of_audio"}
    for event in events:
        is_sentence = len(event.words) >= 3
        assert event.text.endswith("." if is_sentence else ",") == (event.endpoint != "max_utterance")


def test_only_continued_utterances_begin_in_lower_case(
    plain: Recognizer, conversation: np.ndarray, tmp_path: Path
) -> None:
    def mark_nothing(inputs: dict[str, np.ndarray], *_: Any) -> Any:
        features = inputs["features"]
        beginnings.append(tuple(features[0, 0]))
        return [np.eye(size, dtype=np.float32)[[[0] * features.shape[1]]] for size in (NUM_MARKS, NUM_CASES)], ()

    beginnings: list[tuple[int, ...]] = []
    small = Punctuation(write_punctuation(tmp_path / "commas.onnx"))
    small.network.run = mark_nothing  # type: ignore[method-assign]
    recognizer = plain.with_options(text="formatted", punctuation=small, max_utterance_s=2.0)
    endpoint: str | None = None
    goes_on = []
    stream = recognizer.stream()
    for end in (stream.end_utterance, lambda: stream.gap(1600), stream.finish):
        stream.accept_waveform(conversation[: 5 * 16000])
        end()
    for event in stream.events():
        if isinstance(event, (Partial, Final)) and event.text:
            assert event.text[0].isupper() == (endpoint != "max_utterance" or event.text.startswith("I ")), event
        if isinstance(event, Final):
            goes_on.append(endpoint == "max_utterance")
        endpoint = event.endpoint if isinstance(event, Final) else None if isinstance(event, Gap) else endpoint
    assert goes_on.count(True) >= 3 and goes_on.count(False) >= 3
    sentence, continues = (tuple(special_features(unit)) for unit in ("sentence", "continues"))
    assert {sentence, continues} <= set(beginnings)


def test_documented_formatting_of_foreign_text_works(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "sherpa.md").read_text()
    documented = page.split("```python\n")[2].split("```")[0]
    exec(documented, {"text": "SHE PAID TWENTY FIVE DOLLARS ON MAY THIRD AND I WENT TO LONDON"})
    shown = capsys.readouterr().out.strip()
    assert shown.replace(",", "") == "She paid $25 on May 3rd and I went to London."


def test_no_more_finals_are_taken_back_than_there_are(sample: np.ndarray) -> None:
    """A final without words is none to take back."""
    commands = ["the old man walked slowly -> scratch that"]
    stream = Recognizer(second_pass=False, commands=True, own_commands=commands).stream()
    command = sample[:32800]
    for samples in (command, sample, command, command):
        stream.accept_waveform(np.concatenate([samples, np.zeros(16000, np.int16)]))
        stream.end_utterance()
    taken = [(event.num_taken_back, len(event.words)) for event in stream.events() if isinstance(event, Final)]
    assert taken == [(0, 0), (0, 14), (1, 0), (0, 0)]
