"""The counts of the benchmarks of word times, confidence, noise, stability, endpoints, turns and others."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from conftest import SAMPLE
from support.benchmark_module import load_benchmark
from support.server import quick_recognizer
from support.synth import speech, write_audio

from asr.cli import main
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import Word
from asr.streaming import Event, Final, Partial

TEXT = SAMPLE.with_suffix(".txt").read_text(encoding="utf-8").strip()


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled sample as a data set of two speakers, with a text that causes errors."""
    folder = tmp_path_factory.mktemp("readings")
    samples, rate = soundfile.read(SAMPLE, dtype="float32")
    lines = ["path\ttext\tspeaker"]
    for speaker in "ab":
        write_audio(folder / f"{speaker}.wav", samples, rate)
        lines.append(f"{speaker}.wav\t{TEXT.replace('OLD', 'GOOD')}\t{speaker}")
    (folder / "readings.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["prepare", "manifest", str(folder / "readings.tsv"), "--out", str(folder), "--jobs", "1"]) == 0
    return folder / "readings"


def run(
    name: str, data: Path, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [name, str(data), "--json", *options])
    load_benchmark(name).main()
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_word_times(readings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--num-utterances", "1", "--num-synthetic", "1", "--voices", "kal_diphone", "--chunk-ms", "640"]
    rows = {
        (row["how"], row["truth"], row["edge"]): row
        for row in run("word_times", readings, options, monkeypatch, capsys)
    }
    assert len(rows) == 2 + 6 + 2 * 8
    assert rows["align", "middle", "start"]["num_words"] >= 13 and rows["align", "middle", "start"]["p95_ms"] <= 40
    assert rows["align", "festival", "start"]["median_ms"] <= 60
    row = rows["640 ms, 2 passes", "forced", "start"]
    assert row["num_words"] >= 10 and row["median_ms"] <= 40
    assert rows["forced, tokens", "festival", "start"]["bias_ms"] > 0
    assert all(row["num_words"] > 0 for key, row in rows.items() if key[1] != "pauses")


def test_confidence(
    readings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The map that is written is the one that finals of this model and these language models use."""
    plot, model = tmp_path / "confidence.png", tmp_path / "model.onnx"
    shutil.copy(bundled_model("int8"), model)
    options = ["--plot", str(plot), "--model", str(model), "--lm", "bundled", "--write"]
    rows = run("confidence", readings, options, monkeypatch, capsys)
    maps = ["confidence_with_posteriors", "confidence_without_lm"]
    assert [row.get("fitted", row.get("mode")) for row in rows] == [*maps, "default"]
    for row, name in zip(rows, maps, strict=False):
        assert list(row.values())[1:] == list(getattr(OnnxModel(model).metadata, name))
    assert 0.5 < rows[2]["right"] < 1 and rows[2]["num_words"] >= 12
    assert plot.stat().st_size > 5000


def test_noise(
    readings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noises = tmp_path / "noises"
    noises.mkdir()
    hiss = np.random.default_rng(0).normal(0, 0.05, 48000).astype(np.float32)
    write_audio(noises / "hiss.wav", hiss, 16000)
    plot = tmp_path / "noise.png"
    places = ["--noise", str(noises), "--quieter-db", "20", "--snr-db=-20"]
    options = ["--num-utterances", "1", *places, "--plot", str(plot)]
    *rows, nobody = run("noise", readings, options, monkeypatch, capsys)
    assert [row["place"] for row in rows] == ["as it is", "8 kHz", "-20 dB", "a room", "SNR -20"]
    clean, narrow, quiet, _, noisy = (row["final_wer"] for row in rows)
    assert max(clean, narrow, quiet) < 0.5 and noisy > 0.8  # in which no word is intelligible
    assert nobody["minutes"] == pytest.approx(0.05) and nobody["num_words"] <= 1
    assert plot.stat().st_size > 5000


def test_echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    samples, rate = soundfile.read(SAMPLE, dtype="float32")
    write_audio(tmp_path / "played.wav", samples, rate)
    write_audio(tmp_path / "own.wav", speech("she walked to the sea"), 16000)
    rows = [("path", "text", "speaker"), ("played.wav", TEXT, "a"), ("own.wav", "SOMETHING ELSE", "b")]
    (tmp_path / "meeting.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    assert main(["prepare", "manifest", str(tmp_path / "meeting.tsv"), "--out", str(tmp_path), "--jobs", "1"]) == 0
    (tmp_path / "rir").mkdir()
    write_audio(tmp_path / "rir" / "room.wav", np.eye(1, 800, dtype=np.float32)[0], 16000)
    options = ["--rir", str(tmp_path / "rir"), "--echo-db", "-6"]
    found = run("echo", tmp_path / "meeting", options, monkeypatch, capsys)
    twice = {row["left_out"]: row["words_twice"] for row in found if not row["at_once"]}
    assert twice[False] > 0.8 and twice[True] < 0.2


def test_stability(
    readings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "stability.png"
    options = ["--num-utterances", "1", "--chunk-ms", "320", "--one-pass", "--plot", str(plot)]
    (row,) = run("stability", readings, options, monkeypatch, capsys)
    assert 0.5 < row["stable"] <= 1.1 and 0 < row["shown_ms_p50"] <= row["stable_ms_p50"] < 3000
    assert plot.stat().st_size > 5000


def test_formatting(readings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    *times, share = run("formatting", readings, ["--num-utterances", "1"], monkeypatch, capsys)
    assert [row["what"] for row in times] == ["partial", "final", "network", "step"]
    assert all(0 < row["median_ms"] <= row["p95_ms"] <= row["max_ms"] for row in times)
    assert 0.5 < share["stable"] <= share["plain"] < 1 and 0 <= share["lag"] < 4 and share["differs"] < 0.1


def test_calibration_is_measured_as_it_is_defined() -> None:
    confidence = load_benchmark("confidence")
    scored = confidence.Scored(np.array([0.95, 0.95, 0.95, 0.95, 0.15, 0.15]), np.array([1.0, 1, 1, 0, 0, 1]))
    assert confidence.ece(scored) == pytest.approx((4 * 0.2 + 2 * 0.35) / 6)
    assert confidence.auc(scored) == pytest.approx((3 * (0.5 + 1) + (0 + 0.5)) / 8)
    assert confidence.nce(scored._replace(confidence=np.full(6, 4 / 6))) == pytest.approx(0)
    rng = np.random.default_rng(0)
    inputs = np.stack([np.ones(20000), rng.uniform(size=20000)], 1)
    right = (rng.uniform(size=20000) < 1 / (1 + np.exp(-inputs @ [-1, 3]))).astype(float)
    assert confidence.fit(inputs, right) == pytest.approx([-1, 3], abs=0.15)


def test_changes_of_partials_count_once_per_word() -> None:
    stability = load_benchmark("stability")

    def partial(text: str, num_stable: int) -> Partial:
        return Partial(text, 0, 0, num_stable=num_stable)

    events: list[tuple[float, Event]] = [
        (1, partial("A", 0)),
        (2, partial("A BE", 1)),
        (3, partial("A BEE", 1)),
        (4, partial("O BEE SEES", 2)),
        (5, Final("O SEES", 0, 0)),
    ]
    tally = stability.Tally()
    stood = stability.follow(events, tally)
    assert (tally.shown, tally.changed) == (6, 3)  # A; BE; A and BEE
    assert (tally.stable, tally.stable_changed, tally.stable_not_in_final) == (3, 1, 1)
    assert [(item.word, item.shown_s, item.stable_s) for item in stood] == [
        ("O", 4, 4),
        ("BEE", 4, 4),
        ("SEES", 4, None),
    ]


def test_pauses_and_the_words_next_to_them() -> None:
    word_times = load_benchmark("word_times")
    noise = np.random.default_rng(0).standard_normal(16000 * 3).astype(np.float32)
    noise[8000:16000] *= 1e-3
    noise[24000:25600] *= 1e-3  # 0.1 s is not a pause
    ((begin, end),) = word_times.pauses(noise)
    assert (begin, end) == (pytest.approx(0.5, abs=0.02), pytest.approx(1.0, abs=0.02))
    found = {("pauses", "start"): [], ("pauses", "end"): []}
    spoken = [Word("A", 0.0, 0.2, 1.0), Word("B", 0.2, 0.54, 1.0), Word("C", 0.9, 1.4, 1.0), Word("D", 1.4, 2.0, 1.0)]
    word_times.next_to_pauses(spoken, noise, found)
    assert found["pauses", "start"] == [pytest.approx(-100, abs=20)]
    assert found["pauses", "end"] == [pytest.approx(40, abs=20)]


def test_long_recording(readings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The program itself, on both utterances with colored noise and music in the background."""
    (row,) = run("long_recording", readings, ["--minutes", "1"], monkeypatch, capsys)
    assert row["utterances"] == row["finals"] == 2 and row["minutes_of_noise"] > 0.1
    assert row["words_in_noise"] == row["words_in_pauses"] == 0
    assert 0 < row["wer_alone"] < 0.2 and 0 < row["wer"] < 0.2  # 28 words, two of which differ from the text
    assert abs(row["drift_ms"]) <= 40  # one encoder frame: of two utterances alone
    assert row["shift_ms_p95"] <= 200  # of 28 words that of the second
    assert row["begin_mb"] > 50


def test_words_belong_to_the_span_they_are_in() -> None:
    long_recording = load_benchmark("long_recording")
    spans = [
        long_recording.Span(0.0, np.zeros(16000), "A"),
        long_recording.Span(1.0, np.zeros(16000), None),
        long_recording.Span(2.0, np.zeros(16000), "B C"),
        long_recording.Span(3.0, np.zeros(32000), None, is_noise=True),
    ]
    words = [Word(str(middle), middle - 0.1, middle + 0.1, 1.0) for middle in (0.5, 1.3, 1.5, 1.7, 2.5, 3.3, 3.5)]
    divided = long_recording.divide(words, spans)
    expected = [["0.5", "1.3"], ["1.5"], ["1.7", "2.5", "3.3"], ["3.5"]]
    assert [[word.word for word in of_span] for of_span in divided] == expected
    comparison = long_recording.Comparison()
    for number in range(90):
        span = long_recording.Span(10.0 * number, np.zeros(16000), "A B")
        late = 0.03 * (number >= 60)
        found = [Word("A", span.start_s + 0.2 + late, 0, 1.0), Word("C", span.start_s + 0.5, 0, 1.0)]
        comparison.add(span, found, [Word("A", 0.2, 0, 1.0), Word("B", 0.5, 0, 1.0)])
    assert comparison.drift_ms() == pytest.approx(30)
    assert comparison.long.rate == 0.5 and comparison.alone.rate == 0 and len(comparison.worse) == 90


def test_turns(readings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(load_benchmark("turns"), "QUIET_S", 2.0)
    options = ["--num-utterances", "1", "--chunk-ms", "640", "--streams", "3"]
    in_process, by_socket = run("turns", readings, options, monkeypatch, capsys)
    assert 200 < in_process["final_vad_ms_p50"] < in_process["final_ms_p50"]
    for row in (in_process, by_socket):
        assert row["final_ms_p50"] > 500 and row["final_vad_ms_p50"] > 200 and row["first_partial_ms_p50"] > 0
        assert 0 < row["word_ms_p50"] <= row["word_ms_p90"] <= row["word_ms_p99"] and 0 <= row["unstable"] < 1


def test_live_beside_uploads(
    readings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every turn takes 20 ms of one core, so the result does not depend on the machine."""
    clock = itertools.count()
    benchmark = load_benchmark("live_beside_uploads")
    monkeypatch.setattr(benchmark, "cpu_s", lambda: 0.01 * next(clock))
    monkeypatch.setattr(benchmark, "Recognizer", lambda model: quick_recognizer())
    options = ["--num-utterances", "1", "--seconds", "8", "--uploads", "4", "--cores", "1", "--no-socket"]
    rows = {row["phase"]: row for row in run("live_beside_uploads", readings, options, monkeypatch, capsys)}
    live, uploads, both, equal = (rows[name] for name in ("live", "uploads", "both", "equal"))
    assert live["uploads_s_per_s"] == 0 and np.isnan(uploads["final_ms_p50"])
    for name in ("partial_ms_p95", "final_ms_p95"):
        assert 20 < live[name] < both[name] <= live[name] + 20 < equal[name], "it waits for one turn at most"
        assert rows["both, ratio"][name] == round(both[name] / live[name], 2)
    assert 0 < both["uploads_s_per_s"] < uploads["uploads_s_per_s"]


def test_final_of_a_turn_comes_after_its_words() -> None:
    turns = load_benchmark("turns")
    turn = turns.Turn(np.zeros(16000, np.int16), [Word("A", 0.5, 1.0, 1.0), Word("B", 1.5, 2.0, 1.0)])
    timed: list[tuple[float, Event]] = [
        (1.0, Partial("A", 0, 0)),
        (1.4, Final("A", 0, 0)),
        (2.2, Partial("O", 0, 0)),
        (2.4, Partial("B", 0, 0)),
        (2.5, Final("B", 0, 0)),
        (2.9, Final("", 0, 0)),
    ]
    assert turns.time_to_final_ms(turn, timed) == pytest.approx(500)
    assert turns.time_to_final_ms(turn, timed[:2]) is None
    row = turns.partials_row([turn], [timed])
    assert row["first_partial_ms_p50"] == pytest.approx(500)
    assert (row["word_ms_p50"], row["word_ms_p99"]) == (pytest.approx(200, abs=1), pytest.approx(396, abs=1))
    assert row["unstable"] == pytest.approx(1 / 3, abs=0.001)


def test_marks_on_recognized_words(
    readings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "The good man walked slowly down the road, and the children ran after him."
    (tmp_path / "cased.txt").write_text(f"No sentence of any recording here.\n{sentence}\n", encoding="utf-8")
    rows = run("punctuation", readings, ["--cased", str(tmp_path / "cased.txt")], monkeypatch, capsys)
    assert [row["text"] for row in rows[:3]] == ["reference", "recognized", "with pauses"]
    assert rows[0]["words"] == len(sentence.split())  # the second speaker reads the same
    assert all(row["period_f1"] == 1 and row["false_period"] == 0 for row in rows[:3])
    assert 0 < rows[1]["wer"] < 0.5
    none, comma, *_ = rows[3:]
    assert [row["pauses_after"] for row in rows[3:]] == ["none", "comma", "period", "question"]
    assert 9 <= none["places"] <= 12
    assert comma["places"] == 1
    assert sum(none[bound] for bound in ("0.04", "0.08", "0.16", "0.32", "0.52", "0.82", "more")) == pytest.approx(1)


def test_utterances_that_follow_each_other_are_one_passage() -> None:
    punctuation = load_benchmark("punctuation")
    clips = [SimpleNamespace(id=id) for id in ("a/1-0001", "a/1-0002", "a/1-0004", "b/1-0005", "clip", "clip")]
    assert [len(group) for group in punctuation.passages(clips)] == [2, 1, 1, 1, 1]


def test_pauses_are_counted_by_the_mark_before_them() -> None:
    punctuation = load_benchmark("punctuation")
    found = [Word("A", 0.0, 0.3, 1.0), Word("X", 0.3, 0.6, 1.0), Word("C", 1.2, 1.5, 1.0), Word("D", 3.5, 3.8, 1.0)]
    counts = np.zeros((4, punctuation.NUM_PAUSE_CLASSES), np.int64)
    punctuation.count_pauses(counts, "A B C D".split(), [0, 1, 2, 2], found)
    assert (counts[0, 1], counts[1, 6], counts[2, 7], counts.sum()) == (1, 1, 1, 3)


def test_marks_belong_to_words_aligned_with_the_reference() -> None:
    punctuation = load_benchmark("punctuation")
    words, wanted = ["A", "B", "C", "D", "E"], [0, 1, 2, 0, None]
    scores = punctuation.Scores()
    punctuation.compare(scores, words, wanted, [("A", 0), ("X", 1), ("C", 2), ("D", 0), ("E", 2)])
    assert (scores.num_words, scores.num_marks, scores.num_mark_errors) == (4, 2, 0)
    # A deleted word has no punctuation, an inserted one may have false punctuation.
    punctuation.compare(scores, words, wanted, [("A", 0), ("Y", 1), ("B", 1), ("D", 0), ("E", 2)])
    assert (scores.num_words, scores.num_marks, scores.num_mark_errors) == (9, 5, 2)
    assert punctuation.known_marks("X A B C D".split(), {"A B C D": [("A B C D".split(), [0, 1, 0, 2])]}) == [
        None, 0, 1, 0, 2,
    ]  # fmt: skip
