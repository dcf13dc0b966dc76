"""Evaluation, end to end on a small data set: checkpoint and exported file recognize the same words."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from string import ascii_uppercase
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from matplotlib.colors import to_rgb
from rich.console import Console
from support.corpora import write_data_set

from asr.cli import main
from asr.config import Config
from asr.data.speech import Speech, write_subset
from asr.evaluation import evaluate as evaluation
from asr.evaluation import plots
from asr.evaluation.engine import Encoded, open_engine
from asr.evaluation.evaluate import Result, evaluate, table, write_hypotheses
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import WordErrors, count_errors
from asr.features import NUM_MEL_BINS, SAMPLE_RATE
from asr.runtime.joint_search import JOINT_CTC_WEIGHT
from asr.runtime.onnx_model import OnnxModel, bundled_model
from asr.runtime.search import LmWeights
from asr.tables import UTTERANCES
from asr.tokenizer import Tokenizer
from asr.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from asr.model.model import AsrModel

TEXTS = ("ONE TWO THREE", "A", "SIX SEVEN EIGHT NINE TEN", "THE LAST WORDS ARE NEVER CUT")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, conversation: np.ndarray) -> Path:
    """A prepared data set of four pieces of `conversation`, of 0.8 s to 6.8 s, none a multiple of a chunk."""
    samples = (32767 * conversation).astype(np.int16)
    starts = [30_000 * index for index in range(len(TEXTS))]
    pieces = [samples[start : start + 12_000 + 32_123 * index] for index, start in enumerate(starts)]
    return write_data_set(tmp_path_factory.mktemp("data") / "small", list(zip(TEXTS, pieces, strict=True)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_model: AsrModel, tiny_onnx: Path) -> Path:
    tokenizer = Tokenizer("char", OnnxModel(tiny_onnx).tokens)
    weights = tiny_model.state_dict()
    path = tmp_path_factory.mktemp("checkpoint") / "best.pt"
    Checkpoint(Config(model=tiny_model.config), tokenizer, weights, weights, {}).save(path)
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.slow
def test_checkpoint_and_file_recognize_the_same(
    data: Path, trained: Path, tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hypotheses, reports = [], []
    for name, model in (("pt", trained), ("onnx", tiny_onnx)):
        outputs = {kind: tmp_path / f"{name}.{kind}" for kind in ("tsv", "json", "png")}
        options = f"--data {data} --chunk-ms full,640,160 --left-context-ms 640 --hypotheses {outputs['tsv']}"
        options += f" --json {outputs['json']} --plot {outputs['png']}"
        status = main(["evaluate", str(model), *options.split()])
        printed = capsys.readouterr().out
        assert status == 0
        assert outputs["png"].read_bytes().startswith(b"\x89PNG")
        hypotheses.append(_rows(outputs["tsv"]))
        reports.append(json.loads(outputs["json"].read_text())["results"])
        for result in reports[-1]:
            assert f"{100 * result['wer']:.2f}" in printed
    assert hypotheses[0] == hypotheses[1]
    assert len(hypotheses[0]) == 3 * 3 * len(TEXTS)
    spoken = {row["hypothesis"] for row in hypotheses[0]}
    assert len(spoken) > 6, "the model must say different things, or equality means nothing"
    by_chunk = {
        row["chunk_ms"]: row["hypothesis"] for row in hypotheses[0] if (row["id"], row["search"]) == ("u3", "beam")
    }
    assert len(set(by_chunk.values())) > 1, "the chunk must matter, or this does not test that it is used"
    counts = ("insertions", "deletions", "substitutions", "num_words", "chunk_ms", "search")
    assert [[r[c] for c in counts] for r in reports[0]] == [[r[c] for c in counts] for r in reports[1]]


def test_the_table_adds_up(data: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["--chunk-ms", "320", "--search", "greedy", "--json", str(out)]
    assert main(["evaluate", str(tiny_onnx), "--data", str(data), *arguments]) == 0
    (result,) = json.loads(out.read_text())["results"]
    errors = result["insertions"] + result["deletions"] + result["substitutions"]
    assert result["num_words"] == sum(len(text.split()) for text in TEXTS)
    assert result["wer"] == pytest.approx(errors / result["num_words"]) and errors > 0
    assert result["audio_s"] == pytest.approx(sum((12_000 + 32_123 * i) / SAMPLE_RATE for i in range(4)), abs=0.03)
    assert result["real_time_factor"] == pytest.approx(
        (result["encoder_s"] + result["search_s"]) / result["audio_s"], rel=0.05
    )


class ClockedEngine:
    """Recognizes nothing, and takes a second for each file."""

    tokens, phones, batched, rescore_ctc_weight = ("<blk>", "<unk>", "<sos/eos>", "▁", *ascii_uppercase), (), False, 0.5
    lm_weights = (0.9, -2.4, 8.0, 0.7)

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.now = 0.0

    def encode(self, features: list[np.ndarray], chunk_size: int, left_context: int) -> list[Encoded]:
        self.asked.append((chunk_size, left_context))
        return [Encoded(np.log(np.full((1, 30), 1 / 30, np.float32)), np.zeros((1, 4), np.float32)) for _ in features]

    def seconds(self) -> float:
        self.now += 1.0
        return self.now


def test_utterances_are_spread_and_data_sets_kept_apart(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plotted: list[Any] = []
    monkeypatch.setattr("asr.evaluation.engine.open_engine", lambda *_: ClockedEngine())
    monkeypatch.setattr("asr.evaluation.evaluate.plot_wer", lambda *given: plotted.append(given))
    other = data / "other.tsv"
    shutil.copy(data / UTTERANCES, other)
    out, plot = tmp_path / "out.tsv", tmp_path / "out.png"
    arguments = ["--num-utterances", "2", "--chunk-ms", "640", "--search", "greedy", "--hypotheses", str(out)]
    sets = [str(data), str(other)]
    assert main(["evaluate", "some.onnx", "--data", *sets, *arguments, "--plot", str(plot)]) == 0
    assert [(row["data"], row["id"]) for row in _rows(out)] == [
        ("small", "u0"), ("small", "u2"), ("other", "u0"), ("other", "u2")
    ]  # fmt: skip
    ((curves, path, title),) = plotted
    assert list(curves) == ["small, greedy", "other, greedy"] and (path, title) == (plot, "small + other")


def test_data_sets_of_one_name_show_their_folders(
    data: Path, tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other / data.name)
    out = tmp_path / "out.json"
    arguments = ["--num-utterances", "1", "--chunk-ms", "640", "--search", "greedy", "--json", str(out)]
    sets = [str(data), str(other / data.name)]
    assert main(["evaluate", str(tiny_onnx), "--data", *sets, *arguments]) == 0
    found = [(result["data"], result["num_words"]) for result in json.loads(out.read_text())["results"]]
    assert found == [(f"{data.parent.name}/small", 3), ("other/small", 3)]
    assert main(["evaluate", str(tiny_onnx), "--data", sets[0], sets[0], *arguments]) == 1
    assert "--data names the same file or folder more than once" in capsys.readouterr().err


def test_checkpoint_and_export_rescore_with_one_weight(trained: Path, tiny_onnx: Path) -> None:
    weights = {open_engine(path).rescore_ctc_weight for path in (trained, tiny_onnx, bundled_model("float32"))}
    assert len(weights) == 1


def test_the_rescoring_weight_reaches_the_search(data: Path, tiny_onnx: Path) -> None:
    engine = open_engine(tiny_onnx)
    speech = Speech.load(data)
    said = {}
    for search, weight in (("beam", None), ("rescore", 1.0), ("rescore", 0.0)):
        progress: list[int] = []
        results = evaluate(engine, speech, "d", [320], 640, [search], ctc_weight=weight, on_batch=progress.append)
        assert progress == [1, 1, 1, 1]
        said[search, weight] = [hypothesis for _, _, hypothesis in results[0].hypotheses]
    assert said["rescore", 1.0] == said["beam", None] != said["rescore", 0.0]


def test_each_search_has_its_own_weight_of_ctc(data: Path, tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = []

    def noting(search: Callable[..., Any], position: int) -> Callable[..., Any]:
        def note(*arguments: Any) -> Any:
            weights.append(arguments[position])
            return search(*arguments)

        return note

    monkeypatch.setattr(evaluation, "decode_words", noting(evaluation.decode_words, 5))
    monkeypatch.setattr(evaluation, "joint_search", noting(evaluation.joint_search, 3))
    engine = open_engine(tiny_onnx)
    evaluate(engine, Speech.load(data).only([0]), "d", [320], 640, ["rescore", "joint", "attention"])
    assert weights == [engine.rescore_ctc_weight, JOINT_CTC_WEIGHT, 0.0]
    assert engine.rescore_ctc_weight != JOINT_CTC_WEIGHT


def test_beam_size_applies_to_the_joint_search(data: Path, tiny_onnx: Path) -> None:
    engine, speech = open_engine(tiny_onnx), Speech.load(data)
    by_size = [evaluate(engine, speech, "d", [320], 640, ["joint"], size)[0] for size in (None, 8, 1)]
    usual, eight, one = ([hypothesis for _, _, hypothesis in result.hypotheses] for result in by_size)
    assert usual == eight != one


def test_options_of_the_command_reach_the_search(
    data: Path, pairs_lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    out = tmp_path / "out.json"
    monkeypatch.setattr("asr.evaluation.engine.open_engine", lambda *_: ClockedEngine())
    monkeypatch.setattr("asr.evaluation.evaluate.decode_words", lambda *given: calls.append(given) or [])
    options = f"--lm {pairs_lm} --search beam,rescore+lm --beam-size 3 --rescore-ctc-weight 0.25 --chunk-ms 320"
    options += f" --left-context-ms 1280 --json {out}"
    assert main(["evaluate", "some.onnx", "--data", str(data), "--num-utterances", "1", *options.split()]) == 0
    assert [(name, beam_size, weight) for _, _, name, beam_size, _, weight, *_ in calls] == [
        ("beam", 3, 0.25), ("rescore", 3, 0.25)
    ]  # fmt: skip
    assert [fusion is None for *_, fusion, _ in calls] == [True, False]
    report = json.loads(out.read_text())
    assert (report["model"], report["left_context_ms"], report["beam_size"]) == ("some.onnx", 1280, 3)
    assert (report["rescore_ctc_weight"], report["num_utterances"], report["lm"]) == (0.25, 1, str(pairs_lm))
    assert tuple(report["lm_weights"].values()) == ClockedEngine.lm_weights


def test_words_found_by_phones_are_not_rescored(
    data: Path, pairs_lm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("asr.evaluation.engine.open_engine", lambda *_: ClockedEngine())
    monkeypatch.setattr(LmWeights, "fusion", lambda *_, **__: SimpleNamespace(over_phones=True))
    options = ["--lm", str(pairs_lm), "--rescore-ctc-weight", "0.5", "--num-utterances", "1"]
    assert main(["evaluate", "some.onnx", "--data", str(data), *options]) == 1
    assert "--rescore-ctc-weight 0.5 has no effect on --search greedy,beam,beam+lm" in capsys.readouterr().err


def test_unnamed_weights_are_those_of_the_model(data: Path, pairs_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[LmWeights] = []
    fusion = LmWeights.fusion
    monkeypatch.setattr("asr.evaluation.engine.open_engine", lambda *_: ClockedEngine())
    monkeypatch.setattr(LmWeights, "fusion", lambda *given, **named: used.append(given[0]) or fusion(*given, **named))
    options = ["--lm", str(pairs_lm), "--lm-oov-penalty", "30", "--chunk-ms", "640", "--num-utterances", "1"]
    assert main(["evaluate", "some.onnx", "--data", str(data), *options]) == 0
    assert used == [LmWeights(0.9, -2.4, 30.0, 0.7)]


def test_latencies_and_times_are_those_of_all_utterances(data: Path) -> None:
    engine = ClockedEngine()
    results = evaluate(engine, Speech.load(data), "d", [None, 640], 1280, ["greedy", "beam"])  # type: ignore[arg-type]
    assert engine.asked == [(0, 32)] * 4 + [(16, 32)] * 4
    assert [(r.chunk_ms, r.search) for r in results] == [(c, s) for c in (None, 640) for s in ("greedy", "beam")]
    for result in results:
        assert (result.encoder_s, result.search_s) == (4.0, 4.0)
        assert result.real_time_factor == pytest.approx(8 / 15.05, rel=1e-2)


def test_the_table_for_people() -> None:
    result = Result("d", 640, "beam", WordErrors(1, 2, 3, 20), audio_s=10.0, encoder_s=1.0, search_s=0.5)
    console = Console(file=io.StringIO(), width=100)
    console.print(table([result]))
    heading, row = (line.split() for line in console.file.getvalue().splitlines() if " ms " in line or " beam " in line)
    assert heading == "data chunk ms search WER % ins del sub words RTF".split()
    assert row == "d 640 beam 30.00 1 2 3 20 0.1500".split()


def test_plot_has_the_full_context_at_its_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "new_axes", lambda *size: drawn.append(new_axes(*size)) or drawn[-1])
    plots.plot_wer({"a": [(None, 0.1), (640, 0.2), (80, 0.4)], "b": [(160, 0.3)]}, tmp_path / "out.png", "title")
    ((_, axes),) = drawn
    assert [label.get_text() for label in axes.get_xticklabels()] == ["80", "160", "640", "full"]
    curves = {str(line.get_label()): line.get_xydata().round(6).tolist() for line in axes.get_lines()}
    assert curves == {"a": [[0, 40], [2, 20], [3, 10]], "b": [[1, 30]]}


def test_an_interrupted_plot_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(figure: object, path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    path = tmp_path / "out.png"
    path.write_bytes(b"former")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plots.plot_wer({"a": [(None, 0.1)]}, path, "title")
    assert path.read_bytes() == b"former" and [each.name for each in tmp_path.iterdir()] == ["out.png"]


def test_equal_curves_are_all_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "new_axes", lambda *size: drawn.append(new_axes(*size)) or drawn[-1])
    curve = [(80, 0.4), (640, 0.2), (None, 0.1)]
    plots.plot_wer(dict.fromkeys("abcde", curve), tmp_path / "out.png", "title")
    ((figure, axes),) = drawn
    axes.get_legend().remove()
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)
    for line in axes.get_lines():
        color = 255 * np.array(to_rgb(line.get_color()))
        assert (abs(pixels - color) < 40).all(axis=-1).sum() > 100, line.get_label()  # with those of blurred edges


def test_decoder_searches_agree_between_checkpoint_and_export(data: Path, trained: Path, tiny_onnx: Path) -> None:
    speech = Speech.load(data).only(range(2))
    searches = ["beam", "attention", "joint"]

    def found(path: Path, weight: float) -> list[list[str]]:
        results = evaluate(open_engine(path), speech, "d", [None], 640, searches, ctc_weight=weight)
        return [[hypothesis for _, _, hypothesis in result.hypotheses] for result in results]

    beam, attention, joint = found(tiny_onnx, 0.5)
    assert found(trained, 0.5) == [beam, attention, joint]
    assert joint != attention
    # A random decoder has a say of its own; without it, only hypotheses of nearly equal scores may change places.
    assert count_errors(beam, found(tiny_onnx, 1.0)[2]).rate < 0.2 < count_errors(beam, joint).rate


def test_the_language_model_is_used_where_asked(
    data: Path, tiny_onnx: Path, pairs_lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.tsv"
    arguments = ["evaluate", str(tiny_onnx), "--data", str(data), "--chunk-ms", "640", "--hypotheses", str(out)]
    assert main([*arguments, "--lm", str(pairs_lm), "--lm-oov-penalty", "30"]) == 0
    said: dict[str, list[str]] = {}
    for row in _rows(out):
        said.setdefault(row["search"], []).extend(row["hypothesis"].split())
    share = {search: sum(len(word) == 2 for word in words) / len(words) for search, words in said.items()}
    assert list(share) == ["greedy", "beam", "beam+lm", "rescore+lm"]
    assert max(share["greedy"], share["beam"]) < 0.4 < 0.6 < min(share["beam+lm"], share["rescore+lm"])
    capsys.readouterr()
    assert main([*arguments, "--search", "beam+lm"]) == 1
    assert "--search beam+lm needs a language model: add --lm" in capsys.readouterr().err


def test_search_over_phones_is_not_rescored(
    data: Path, phone_model: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, lm = phone_model
    out = tmp_path / "out.json"
    arguments = ["evaluate", str(model), "--data", str(data), "--chunk-ms", "640", "--lm", str(lm), "--json", str(out)]
    assert main(arguments) == 0
    assert [row["search"] for row in json.loads(out.read_text())["results"]] == ["greedy", "beam", "beam+lm"]
    assert main([*arguments, "--search", "beam+lm,rescore+lm"]) == 1
    error = capsys.readouterr().err
    assert f"--search rescore+lm: {model} and --lm {lm} search over phones" in error and "use beam+lm" in error


def test_recordings_too_short_for_a_frame_say_nothing(tiny_onnx: Path, trained: Path) -> None:
    for path in (tiny_onnx, trained):
        engine = open_engine(path)
        for length in (1, 3):
            for chunk in (0, 4):
                (encoded,) = engine.encode([np.zeros((length, NUM_MEL_BINS), np.float32)], chunk, 8)
                assert len(encoded[0]) == len(encoded[1]) == 0


def test_hypotheses_file_keeps_one_line_per_utterance(tmp_path: Path) -> None:
    result = Result("d", None, "beam", WordErrors(0, 0, 0, 2), hypotheses=[("id\t1", "A\nB", "A  B")])
    write_hypotheses([result], tmp_path / "h.tsv")
    assert (tmp_path / "h.tsv").read_text().splitlines()[1] == "d\tfull\tbeam\tid 1\tA B\tA B"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--left-context-ms", "100"], "--left-context-ms 100"),
        (["--num-utterances", "0"], "--num-utterances 0"),
        (["--json", "no/such/out.json"], "no folder"),
        (["--hypotheses", "no/such/out.tsv"], "no folder"),
        (["--plot", "no/such/out.png"], "no folder"),
        (["--beam-size", "0", "--search", "beam"], "beam_size"),
    ],
)
def test_command_names_the_wrong_option(
    options: list[str], message: str, data: Path, tiny_onnx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(tiny_onnx), "--data", str(data), *options]) == 1
    assert message in capsys.readouterr().err


def test_names_arguments_that_are_no_model_or_data(
    data: Path, tiny_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "sound.wav", np.zeros(100), SAMPLE_RATE)
    write_subset(data / UTTERANCES, [], data / "empty.tsv")
    for arguments, message in (
        ([str(tiny_onnx), "--data", str(data / "empty.tsv")], "empty.tsv holds no utterance"),
        ([str(tiny_onnx), "--data", str(tmp_path / "sound.wav")], "sound.wav is not a table of `asr prepare`"),
        ([str(tmp_path / "none.onnx"), "--data", str(data)], "none.onnx"),
        ([str(tmp_path / "sound.wav"), "--data", str(data)], "sound.wav is not a checkpoint"),
        ([str(tmp_path), "--data", str(data)], "has no checkpoint"),
    ):
        assert main(["evaluate", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_phones_without_a_language_model_are_told(
    data: Path, tiny_onnx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", str(data), "--num-utterances", "1", "--chunk-ms", "640", "--search", "greedy"]
    for model, told in (("bundled", True), (str(tiny_onnx), False)):
        assert main(["evaluate", model, *options]) == 0
        assert ("without --lm words are spelled; --lm bundled" in capsys.readouterr().err) == told
