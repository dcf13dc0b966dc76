"""Mixed language models: weighted means of the models, with the words and pronunciations of all."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from asr._core import NgramLm
from asr.cli import main
from asr.lexicon.g2p import G2pOptions, train
from asr.lexicon.lexicon import Lexicon
from asr.lm import ngram
from asr.lm.mix import mix
from asr.lm.packed import LmError, load_lm, pack, unpack, with_pronunciations


def toy_text(path: Path, names: list[str], step: int, num_sentences: int = 1500) -> Path:
    """Sentences in which a word often depends on the previous word and the position; `step` is the grammar."""
    rng = random.Random(step)
    lines = []
    for _ in range(num_sentences):
        words = [rng.choice(names)]
        while rng.random() < 0.8:
            likely = names[(step * names.index(words[-1]) + len(words)) % len(names)]
            words.append(likely if rng.random() < 0.7 else rng.choice(names))
        lines.append(" ".join(words))
    path.write_text("\n".join(lines) + "\n")
    return path


def trained(folder: Path, name: str, names: str, step: int, order: int, megabytes: str = "1") -> Path:
    text = toy_text(folder / f"{name}.txt", names.split(), step)
    out = folder / f"{name}.lm"
    command = ["lm", "train", str(text), "-o", str(out), "--order", str(order), "--megabytes", megabytes]
    assert main(command) == 0
    return out


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_a_model_packed_again_has_the_same_bytes(order: int, tmp_path: Path) -> None:
    data = trained(tmp_path, "a", "A B C D É", 3, max(order, 2)).read_bytes()
    words, levels = unpack(data)
    again = pack(words, levels[:order])
    if order > 1:
        assert unpack(again)[0] == words and len(again) == len(data)
        a, b = (np.concatenate([level.log_probs for level in unpack(d)[1]]) for d in (data, again))
        assert np.abs(a - b).max() < 0.02
        assert all((x.words == y.words).all() for x, y in zip(levels, unpack(again)[1], strict=True))
    else:
        assert NgramLm(np.frombuffer(again, np.uint8)).num_ngrams == [8]


def test_a_damaged_file_is_not_unpacked(tmp_path: Path) -> None:
    data = trained(tmp_path, "a", "A B C", 2, 2).read_bytes()
    with pytest.raises(LmError):
        unpack(data[:-1])


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_mixture_weighs_models_by_probability_of_the_history(weights: tuple[float, float], tmp_path: Path) -> None:
    sentences = (
        ["K L M"] * 300 + ["M L K"] * 30 + ["M N L"] * 5 + ["N K L"] * 20,
        ["K M L"] * 10 + ["M K N"] * 300 + ["N K M"] * 100,
    )
    lms, texts = [], []
    for number, lines in enumerate(sentences):
        text = tmp_path / f"{number}.txt"
        text.write_text("\n".join(lines) + "\n")
        assert main(["lm", "train", str(text), "-o", str(text.with_suffix(".lm"))]) == 0
        texts.append([word for line in lines for word in ("<s>", *line.split())])
        lms.append(load_lm(text.with_suffix(".lm")))
    out = tmp_path / "mixed.lm"
    named = [f"{tmp_path / name}.lm*{weight}" for name, weight in zip("01", weights, strict=True)]
    assert main(["lm", "mix", *named, "-o", str(out)]) == 0
    mixed = load_lm(out)
    for history in (["K"], ["M"], ["N"], ["K", "M"], ["M", "K"], ["N", "K"]):
        seen = ["<s>", *history][-2:]
        often = np.array(
            [
                weight * sum(words[i : i + 2] == seen for i in range(len(words))) / len(words)
                for weight, words in zip(weights, texts, strict=True)
            ]
        )
        mean_often = often / often.sum()
        for word in "KLMN":
            p, q, r = (math.exp(lm.log_probs([*history, word])[len(history)]) for lm in (*lms, mixed))
            assert r == pytest.approx(mean_often @ [p, q], abs=0.08), (history, word)


def test_weights_can_be_the_same_after_each_history(tmp_path: Path) -> None:
    files = [trained(tmp_path, name, f"A B C {name}", 2 + k, 2) for k, name in enumerate(("X", "Y"))]
    words, model = mix([unpack(path.read_bytes()) for path in files], [3, 1], by_history=False)
    (tmp_path / "mixed.lm").write_bytes(pack(*ngram.tables(model, words)))
    *lms, mixed = [load_lm(path) for path in (*files, tmp_path / "mixed.lm")]
    for before, word in (("A", "B"), ("B", "B"), ("C", "A"), ("X", "A"), ("Y", "C")):
        p, q, r = (math.exp(lm.log_probs([before, word])[1]) for lm in (*lms, mixed))
        assert r == pytest.approx(0.75 * p + 0.25 * q, rel=0.05), (before, word)


def test_mixture_is_a_distribution_of_its_size(tmp_path: Path) -> None:
    files = [trained(tmp_path, name, f"A B C D E F G H {name}", 3 + k, 3) for k, name in enumerate(("X", "Y"))]
    out = tmp_path / "mixed.lm"
    assert main(["lm", "mix", *map(str, files), "-o", str(out), "--megabytes", "0.002"]) == 0
    assert out.stat().st_size < 3000
    mixed = load_lm(out)
    assert mixed.num_ngrams[2] > 0
    vocabulary = [*"ABCDEFGHXY", "UNSEEN"]
    for history in ([], ["A"], ["A", "B"], ["X", "C"], ["X", "Y"]):
        total = math.exp(mixed.log_probs(history)[-1])
        total += sum(math.exp(mixed.log_probs([*history, word])[len(history)]) for word in vocabulary)
        assert total == pytest.approx(1, abs=0.03)


def test_models_of_other_words_and_orders_are_mixed(tmp_path: Path) -> None:
    """Unigrams have the weighted mean of their probabilities, which is 0 if a model lacks them."""
    files = [trained(tmp_path, name, f"A B C {name}", 2, order) for name, order in (("X", 2), ("Y", 3))]
    models = [unpack(path.read_bytes()) for path in files]
    words, model = mix(models, [3, 1])
    assert [len(levels) for _, levels in models] == [2, 3] and len(model.orders) == 3
    assert len(model.orders[2].word) >= len(models[1][1][2].words)
    expected = np.zeros(len(words))
    for (names, (alone, *_)), share in zip(models, (0.75, 0.25), strict=True):
        probs = {name: 10.0 ** float(p) for name, p in zip(names, alone.log_probs, strict=True) if name != "<s>"}
        expected += [share * probs.get(word, 0.0) / sum(probs.values()) for word in words]
    assert model.prob[0] == pytest.approx(expected, abs=1e-9)
    assert expected[words.index("X")] > 0.05 and expected[words.index("Y")] > 0.02


def test_a_mixture_has_every_ngram_of_many_words(tmp_path: Path) -> None:
    """With more words than fit nine times into 64 bits."""
    names = [f"W{i:03}" for i in range(150)]
    path = trained(tmp_path, "a", " ".join(names), 3, 9)
    own, levels = unpack(path.read_bytes())
    assert len(own) ** 9 > 2**63 and len(levels[8].words) > 100
    words, model = mix([(own, levels)], [1])
    found: list[tuple[str, ...]] = [()]
    for rows, level in zip(model.orders, levels, strict=True):
        found = [(*found[context], words[word]) for context, word in zip(rows.context, rows.word, strict=True)]
        assert len(found) == len(set(found))
        assert {tuple(own[word] for word in ngram) for ngram in level.words} <= set(found)


def test_mixture_counts_how_often_its_ngrams_occur(tmp_path: Path) -> None:
    """Kneser-Ney's lower orders count the contexts of a word; pruning needs its occurrences."""
    text = tmp_path / "text.txt"
    text.write_text("SAN FRANCISCO\n" * 30 + "".join(f"{a} {b}\n" for a in "ABCDEFGH" for b in ("IS", "WAS", a)) * 4)
    out = tmp_path / "a.lm"
    assert main(["lm", "train", str(text), "-o", str(out)]) == 0
    words, model = mix([unpack(out.read_bytes())], [1])
    ids = ngram.encode(ngram.sentences([text]), words)
    frequency = np.bincount(ids, minlength=len(words)) / np.sum(ids != ngram.BOS)
    francisco = words.index("FRANCISCO")
    assert model.prob[0][francisco] < 0.5 * frequency[francisco]
    assert model.orders[0].count[francisco] == pytest.approx(frequency[francisco], rel=0.15)


def test_words_keep_their_pronunciations(tmp_path: Path) -> None:
    files = [trained(tmp_path, name, f"A B {name}", 2, 2) for name in ("X", "Y")]
    for path, phones, own in (
        (files[0], ["p", "q"], {"A": [("p",)], "X": [("q", "p")]}),
        (files[1], ["q", "r"], {"A": [("r",)], "Y": [("r",)]}),
    ):
        path.write_bytes(with_pronunciations(path.read_bytes(), phones, own))
        plain = path.read_bytes()
        others = with_pronunciations(plain, ["x"], {"B": [("x",)]}, b"")
        assert with_pronunciations(others, phones, own) == with_pronunciations(plain, phones, own), "in their place"
    pronouncing = train(Lexicon({"A": [("r",)], "AY": [("r", "q")], "Y": [("q",)]}), G2pOptions(order=2))
    files[1].write_bytes(
        with_pronunciations(files[1].read_bytes(), ["q", "r"], {"A": [("r",)], "Y": [("r",)]}, pronouncing)
    )
    out = tmp_path / "mixed.lm"
    assert main(["lm", "mix", *map(str, files), "-o", str(out)]) == 0
    mixed = load_lm(out)
    assert mixed.phones == ["p", "q", "r"] and mixed.g2p == pronouncing, "that of the first file that has one"
    assert [mixed.pronunciations(word) for word in "ABXY"] == [[["p"]], [], [["q", "p"]], [["r"]]]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("a.lm*0", "'a.lm*0': the weight after * must be a number above 0"),
        ("a.lm*much", "'a.lm*much': the weight after * must be a number above 0"),
        ("none.lm*1", "none.lm cannot be read"),
        ("text.lm", "text.lm: "),
    ],
)
def test_what_cannot_be_mixed_is_named(
    model: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trained(tmp_path, "a", "A B C", 2, 2)
    Path("text.lm").write_text("this is no language model")
    assert main(["lm", "mix", model, "-o", "mixed.lm"]) == 1
    assert message in capsys.readouterr().err
