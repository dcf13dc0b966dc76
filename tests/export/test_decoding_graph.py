"""The decoding graph of sherpa-onnx: its costs equal our scores, and sherpa-onnx finds the same words with it."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.arpa import UNIGRAMS, packed
from support.benchmark_module import load_benchmark
from support.phones import PHONES, PRONUNCIATIONS
from support.synth import speech

from asr._core import CtcPrefixBeamSearch, NgramLm
from asr.cli import main
from asr.evaluation.wer import count_errors
from asr.export import decoding_graph, sherpa
from asr.export.decoding_graph import DecodingGraph
from asr.export.fst import EPSILON, Fst
from asr.export.graph import ExportError
from asr.lm.packed import unpack, with_pronunciations
from asr.runtime.search import LmWeights

PROMPTS = Path(decoding_graph.__file__).parent.parent / "asr" / "samples" / "prompts.txt"
BLANK, AA, B, K = "", "▁AA", "▁B", "▁K"


@pytest.fixture(scope="module")
def packed_lm() -> bytes:
    """Homophones, several pronunciations, a word that is a prefix of another, and contexts that back off."""
    unigrams = (*UNIGRAMS, "-1.0 BACK -0.1", "-1.1 BEE -0.2", "-1.4 AH 0.0")
    ngrams = packed(unigrams, ("-0.2 <s> AB", "-0.3 A BACK -0.4", "-0.5 AB B", "-0.7 A A"), ("-0.1 A BACK </s>",))
    return with_pronunciations(ngrams, list(PHONES), PRONUNCIATIONS | {"BEE": [["B"]], "AH": [["AA"], ["K", "AA"]]})


@pytest.fixture(scope="module")
def lm(packed_lm: bytes) -> NgramLm:
    return NgramLm(np.frombuffer(packed_lm, np.uint8))


@pytest.fixture(scope="module")
def graph(lm: NgramLm, packed_lm: bytes) -> DecodingGraph:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding_graph, "COST_STEP", 1 / 65536)
        return DecodingGraph(lm, *unpack(packed_lm), PHONES)


def cheapest(graph: Fst, costs: npt.NDArray[np.float32]) -> tuple[float, list[int]]:
    """The cheapest path through a graph for frames of tokens with these costs (T, V), and its output."""
    arcs = defaultdict(list)
    for source, *arc in zip(graph.source, graph.reads, graph.writes, graph.cost, graph.target, strict=True):
        arcs[int(source)].append(arc)

    def relaxed(states: dict[int, tuple[float, list[int]]]) -> dict[int, tuple[float, list[int]]]:
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            cost, words = states[state]
            for reads, writes, more, target in arcs[state]:
                new = (cost + more, [*words, int(writes)] if writes else words)
                if reads == EPSILON and new[0] < states.get(target, (np.inf, []))[0]:
                    states[target] = new
                    waiting.append(target)
        return states

    states = relaxed({graph.start: (0.0, [])})
    for frame in costs:
        following: dict[int, tuple[float, list[int]]] = {}
        for state, (cost, words) in states.items():
            for reads, writes, more, target in arcs[state]:
                if reads == EPSILON:
                    continue
                new = (cost + more + frame[reads - 1], [*words, int(writes)] if writes else words)
                if new[0] < following.get(target, (np.inf, []))[0]:
                    following[target] = new
        states = relaxed(following)
    return min((cost + graph.final[state], words) for state, (cost, words) in states.items())


@pytest.mark.parametrize(
    "frames",
    [
        [AA],
        [AA, AA],
        [AA, BLANK, AA],
        [BLANK, AA, "B", "B", BLANK, B, BLANK],
        [AA, B, "AA", BLANK, BLANK, "K", "K"],
        [AA, B, "AA", "K", AA, AA, B, B, BLANK, B],
        [AA, AA, B, "AA", "K", B, "AA", "K", K],
        [K, "AA", BLANK, B],
    ],
    ids=" ".join,
)
def test_a_path_costs_what_our_search_scores(frames: list[str], graph: DecodingGraph, lm: NgramLm) -> None:
    """Each frame has one possible token, so that CTC has one alignment, whose cost must be that of the words."""
    tokens = ["", *graph.tokens[1:]]
    costs = np.full((len(frames), len(tokens)), 1000.0, np.float32)
    costs[np.arange(len(frames)), [tokens.index(frame) for frame in frames]] = 0.0
    cost, labels = cheapest(graph.fst, costs)
    search = CtcPrefixBeamSearch(beam_size=64, recombine=True, lm=LmWeights().fusion(lm, ["<blk>"], phones=PHONES))
    search.advance(-costs)
    fusion = LmWeights().fusion(lm, ["<blk>"], phones=PHONES)
    assert fusion is not None
    best = search.hypotheses(finished=True)[0]
    words = [fusion.text(word) for word in best.words]
    if "" in words:  # no words have this pronunciation: our search writes a word outside the vocabulary, the graph none
        assert cost > 900
        return
    assert [graph.words[label] for label in labels] == words
    assert cost == pytest.approx(-best.lm_score, abs=1e-3)


def test_a_graph_has_the_likeliest_words(lm: NgramLm, packed_lm: bytes) -> None:
    graph = DecodingGraph(lm, *unpack(packed_lm), PHONES, num_words=2)
    assert graph.words == ["<eps>", "A", "AB"]
    assert set(graph.fst.writes) == {0, 1, 2}
    assert graph.tokens == ["<blk>", "▁AA", "AA", "▁B", "B", "▁K", "K"]


def test_sherpa_onnx_reads_the_graph_unchanged(graph: DecodingGraph, tmp_path: Path) -> None:
    import kaldifst

    graph.fst.write(tmp_path / "HLG.fst")
    again = Fst.read(tmp_path / "HLG.fst")
    assert (again.num_states, again.num_arcs, again.start) == (
        graph.fst.num_states,
        graph.fst.num_arcs,
        graph.fst.start,
    )
    np.testing.assert_array_equal(again.final, graph.fst.final)
    theirs = kaldifst.StdConstFst.read(str(tmp_path / "HLG.fst"))
    assert theirs.num_states == again.num_states
    arc = next(iter(kaldifst.ArcIterator(theirs, 0)))
    assert (arc.ilabel, arc.olabel, arc.nextstate) == (again.reads[0], again.writes[0], again.target[0])


@pytest.mark.parametrize(
    ("phones", "message"),
    [((), "the model writes no phones"), (("AA", "B"), "the model lacks K")],
    ids=["no phones", "other phones"],
)
def test_phones_that_do_not_match_are_refused(
    phones: tuple[str, ...], message: str, lm: NgramLm, packed_lm: bytes
) -> None:
    with pytest.raises(ExportError, match=message):
        DecodingGraph(lm, *unpack(packed_lm), phones)


def test_a_language_model_without_pronunciations_is_refused() -> None:
    without = packed(UNIGRAMS, ("-0.2 <s> AB",))
    with pytest.raises(ExportError, match="has no pronunciations"):
        DecodingGraph(NgramLm(np.frombuffer(without, np.uint8)), *unpack(without), PHONES)


def test_words_of_sherpa_onnx_equal_our_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sherpa, "_check", lambda *args: (0.0, 0.0))  # takes a minute; other tests hold it
    sentences = [
        line.upper().translate(str.maketrans("", "", ".,?!;:")) for line in PROMPTS.read_text().splitlines()[1:]
    ]
    text, model = tmp_path / "text.txt", tmp_path / "words.lm"
    text.write_text("\n".join(sentences))
    assert main(["lm", "train", str(text), "-o", str(model), "--lexicon", "cmudict"]) == 0
    options = ["--target", "sherpa-onnx", "--lm", str(model), "-o", str(tmp_path / "sherpa")]
    assert main(["export", "bundled", *options]) == 0
    names = {"HLG.fst", "README.md", "tokens.txt", "words.txt", "zipformer2_ctc.640ms.onnx"}
    assert {path.name for path in (tmp_path / "sherpa").iterdir()} == names
    benchmark = load_benchmark("vs_sherpa")
    audio = tmp_path / "audio.npz"
    np.savez(audio, *(benchmark.padded(speech(sentence), 640) for sentence in sentences[:4]))
    settings = {"folder": tmp_path / "sherpa", "lm": str(model), "chunk_ms": 640, "int8": False, "audio": audio}
    expected, found = (
        benchmark.texts(argparse.Namespace(run=name, model=None, **settings)) for name in benchmark.RUNNERS
    )
    assert count_errors(sentences[:4], expected).rate < 0.5, "the test needs words that are understood"
    assert count_errors(expected, found).rate <= 0.02
