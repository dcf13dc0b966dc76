"""The command line of `asr evaluate`."""

from __future__ import annotations

import pytest

from asr.cli import main
from asr.evaluation.evaluate import parse_chunks, parse_searches


def test_chunk_and_search_lists() -> None:
    assert parse_chunks("Full, 640,40,640,5120") == [None, 640, 40, 5120]
    assert parse_searches("beam, greedy,beam", False) == ["beam", "greedy"]
    assert parse_searches("attention,joint", False) == ["attention", "joint"]
    assert parse_searches(None, False) == ["greedy", "beam", "rescore"]
    for wrong in ("", "100", "0", "5160", "-40", "full,", "fast"):
        with pytest.raises(ValueError, match=r"--chunk-ms .*multiples of 40 in \[40, 5120\]"):
            parse_chunks(wrong)
    with pytest.raises(ValueError, match=r"--search .fast.*greedy, beam, rescore"):
        parse_searches("beam,fast", False)
    with pytest.raises(ValueError, match=r"--search rescore\+lm needs a language model"):
        parse_searches("rescore+lm", False)
    with pytest.raises(ValueError, match=r"--search greedy,beam uses no .*: add beam\+lm, or leave out --lm"):
        parse_searches("greedy,beam", True)


def test_weights_without_a_language_model_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "some.onnx", "--data", "some", "--lm-weight", "0", "--lm-oov-penalty", "30"]
    assert main(command) == 1
    assert "--lm-weight and --lm-oov-penalty are for a language model: add --lm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--search greedy --beam-size 8", "--beam-size 8 has no effect on --search greedy: add beam"),
        (
            "--search greedy,beam --rescore-ctc-weight 0.5",
            "--rescore-ctc-weight 0.5 has no effect on --search greedy,b",
        ),
        ("--search attention --rescore-ctc-weight 0.5", "--rescore-ctc-weight 0.5 has no effect on --search attention"),
        ("--lm some.lm --search beam+lm --rescore-ctc-weight 0", "--rescore-ctc-weight 0 has no effect on --search be"),
    ],
)
def test_settings_without_effect_are_refused(
    options: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.evaluation.engine.open_engine", lambda *_: pytest.fail("work has begun"))
    monkeypatch.setattr("asr.evaluation.evaluate.Speech.load", lambda *_: pytest.fail("work has begun"))
    assert main(["evaluate", "some.onnx", "--data", "some", *options.split()]) == 1
    error = capsys.readouterr().err
    assert message in error and "or leave out --" in error
