"""The language model: the packed file equals the ARPA file, and a damaged file is rejected."""

from __future__ import annotations

import ast
import gzip
import math
import os
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from asr._core import NgramLm
from asr.cli import main
from asr.lm import cli
from asr.lm.packed import LmError, Ngrams, load_lm, pack, read_arpa, sealed, unpack

WORDS = ["A", "AB", "ABLE", "I", "IT'S", "THE", "ÉTÉ"]
Arpa = dict[tuple[str, ...], tuple[float, float]]
"""Each n-gram's log10 probability and back-off weight."""


def random_arpa(order: int, seed: int = 0) -> Arpa:
    """Every prefix of an n-gram is also an n-gram, as in any ARPA file; suffixes need not be."""
    rng = random.Random(seed)
    levels: list[list[tuple[str, ...]]] = [[(w,) for w in ["</s>", "<s>", "<unk>", *WORDS]]]
    for _ in range(order - 1):
        followers = ["</s>", "<unk>", *WORDS]
        levels.append(
            [(*ngram, w) for ngram in levels[-1] if ngram[-1] != "</s>" for w in followers if rng.random() < 0.35]
        )
    return {ngram: (rng.uniform(-4, -0.1), rng.uniform(-1, 0.1)) for level in levels for ngram in level}


def arpa_text(arpa: Arpa) -> str:
    order = max(map(len, arpa))
    levels = [[(n, *numbers) for n, numbers in arpa.items() if len(n) == k] for k in range(1, order + 1)]
    lines = ["made by a test", "", "\\data\\", *(f"ngram {k}={len(level)}" for k, level in enumerate(levels, 1)), ""]
    for k, level in enumerate(levels, 1):
        lines.append(f"\\{k}-grams:")
        for ngram, log_prob, backoff in level:
            lines.append("\t".join([f"{log_prob:.6f}", " ".join(ngram), *([f"{backoff:.6f}"] if k < order else [])]))
        lines.append("")
    return "\n".join([*lines, "\\end\\", ""])


def packed(arpa: Arpa) -> NgramLm:
    return NgramLm(np.frombuffer(pack(*read_arpa(iter(arpa_text(arpa).splitlines()))), np.uint8))


def log_prob(arpa: Arpa, order: int, history: tuple[str, ...], word: str) -> float:
    """The definition of a back-off model, with natural logarithms."""
    history = history[len(history) - min(len(history), order - 1) :]
    if (*history, word) in arpa:
        return arpa[(*history, word)][0] * math.log(10)
    backoff = arpa[history][1] * math.log(10) if history in arpa else 0.0
    return backoff + log_prob(arpa, order, history[1:], word)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, pytest.param(9, marks=pytest.mark.slow)])
def test_the_packed_model_scores_as_the_arpa_file(order: int) -> None:
    arpa = random_arpa(order)
    lm = packed(arpa)
    assert lm.num_ngrams == [sum(len(n) == k for n in arpa) for k in range(1, order + 1)]
    rng = random.Random(1)
    for _ in range(200):
        words = rng.choices([*WORDS, "NEVER"], k=rng.randrange(8))
        known = [w if (w,) in arpa else "<unk>" for w in words]
        expected = [
            log_prob(arpa, order, ("<s>", *known[:i]) if order > 1 else (), word)
            for i, word in enumerate([*known, "</s>"])
        ]
        # Quantization error: at most half a step of 1/255 of the range, for the n-gram and for each back-off.
        assert lm.log_probs(words) == pytest.approx(expected, abs=0.03)
    assert "ABLE" in lm and "ABL" not in lm and "NEVER" not in lm


def test_adds_words_an_arpa_file_may_omit() -> None:
    lm = packed({("A",): (-0.5, 0.0), ("B",): (-0.7, 0.0)})
    assert lm.num_ngrams == [5]
    assert lm.log_probs(["A", "C"]) == pytest.approx([-0.5 * math.log(10), -7 * math.log(10), -99 * math.log(10)])


def test_the_command_packs_a_file_that_opens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arpa = random_arpa(3)
    (tmp_path / "3.arpa.gz").write_bytes(gzip.compress(arpa_text(arpa).encode()))
    assert main(["lm", "pack", str(tmp_path / "3.arpa.gz"), "-o", str(tmp_path / "words.lm")]) == 0
    assert f"{sum(len(n) == 3 for n in arpa)} 3-grams" in capsys.readouterr().out
    assert load_lm(tmp_path / "words.lm").log_probs(["A", "THE"]) == packed(arpa).log_probs(["A", "THE"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["3.arpa.gz", "words.lm"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "whole ARPA file"),
        (lambda text: text[: len(text) // 2], "is not a log10 probability|found .*, expected|whole ARPA"),
        (lambda text: text.replace("\\2-grams:", "\\3-grams:"), "found .*, expected"),
        (lambda text: text.replace("ngram 2=", "ngram 3="), "is not 'ngram 2='"),
        (lambda text: text.replace("\tABLE\t", "\tAB\t", 1), "listed twice|not among"),
        (lambda text: re.sub("\tABLE\t.*", "\tABLE\tnan", text, count=1), "is not finite"),
        (lambda text: text.replace("\t<s> ", "\tNEVER ", 1), "NEVER' of the 2-grams"),
        (lambda text: text.replace("-", "minus", 1), "numbers|expected|probability"),
        (lambda text: text.replace("\\end\\", ""), "whole ARPA"),
    ],
)
def test_a_broken_arpa_file_is_named(
    change: Callable[[str], str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.arpa"
    path.write_text(change(arpa_text(random_arpa(3))))
    assert main(["lm", "pack", str(path), "-o", str(tmp_path / "words.lm")]) == 1
    error = capsys.readouterr().err
    assert str(path) in error and re.search(message, error), error
    assert not (tmp_path / "words.lm").exists()


def test_an_ngram_without_its_beginning_is_named() -> None:
    arpa = random_arpa(3)
    longest = next(n for n in arpa if len(n) == 3)
    del arpa[longest[:2]]
    with pytest.raises(LmError, match=" ".join(longest)):
        packed(arpa)


VALID_UTF8 = [b"TTT\xc3\x89", b"\xe0\xa0\x80TT", b"\xed\x9f\xbfTT", b"\xf0\x90\x80\x80T", b"\xf4\x8f\xbf\xbfT"]
INVALID_UTF8 = [
    *(b"\x80TTTT", b"\xc3TTTT", b"TTTT\xc3", b"TTT\0T", b"\xff\x80\x80\x80\x80", b"\xf8\x88\x80\x80\x80"),
    *(b"\xc1\x81TTT", b"\xe0\x9f\xbfTT", b"\xf0\x8f\xbf\xbfT", b"\xed\xa0\x80TT", b"\xf4\x90\x80\x80T"),
]


def test_only_utf8_words_are_accepted() -> None:
    data = pack(*read_arpa(iter(arpa_text(random_arpa(3)).splitlines())))
    for word in VALID_UTF8:
        assert word.decode() in NgramLm(np.frombuffer(sealed(data.replace("ÉTÉ".encode(), word)), np.uint8))
    for word in INVALID_UTF8:
        with pytest.raises(ValueError, match="a word is not UTF-8"):
            NgramLm(np.frombuffer(sealed(data.replace("ÉTÉ".encode(), word)), np.uint8))


# ---- training ----


def toy_text(path: Path, num_sentences: int, seed: int) -> Path:
    """Sentences from a grammar: each word depends on the two words before it."""
    rng = random.Random(seed)
    names = [f"{a}{b}" for a in "ABCDEFGH" for b in "AEIOU"]
    lines = []
    for _ in range(num_sentences):
        words = [rng.choice(names)]
        while rng.random() < 0.85:
            likely = names[(7 * names.index(words[-1]) + 3 * len(words)) % len(names)]
            words.append(likely if rng.random() < 0.7 else rng.choice(names))
        lines.append(" ".join(words))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("order", [2, 3, 4])
def test_trained_model_is_a_distribution_in_any_context(order: int, tmp_path: Path) -> None:
    text = toy_text(tmp_path / "train.txt", 3000, 0)
    for megabytes in ("1", "0.0007"):  # all n-grams; few of them
        out = tmp_path / f"{megabytes}.lm"
        command = ["lm", "train", str(text), "--order", str(order), "--num-words", "35", "--megabytes", megabytes]
        assert main([*command, "-o", str(out)]) == 0
    whole, pruned = (load_lm(tmp_path / f"{m}.lm") for m in ("1", "0.0007"))
    assert pruned.num_ngrams[-1] < 0.8 * whole.num_ngrams[-1]
    vocabulary = [*sorted({w for w in text.read_text().split() if w in whole}), "UNSEEN"]
    assert len(vocabulary) == 36
    rng = random.Random(3)
    for lm in (whole, pruned):
        for _ in range(20):
            history = rng.choices(vocabulary, k=rng.randrange(5))
            end = math.exp(lm.log_probs(history)[-1])
            total = end + sum(math.exp(lm.log_probs([*history, word])[len(history)]) for word in vocabulary)
            assert total == pytest.approx(1, abs=0.02)  # quantized


def test_training_learns_the_grammar_and_pruning_forgets_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, test = toy_text(tmp_path / "train.txt", 4000, 0), toy_text(tmp_path / "test.txt", 300, 1)
    perplexities = {}
    for order in ("2", "3"):
        command = ["lm", "train", str(text), "--order", order, "--megabytes", "0.02", "--test", str(test)]
        assert main([*command, "-o", str(tmp_path / "words.lm")]) == 0
        printed = capsys.readouterr().out
        found = re.search(r"perplexity ([\d.]+), pruned ([\d.]+); 0.00 % of the words", printed)
        assert found, printed
        perplexities[order] = float(found[2])
        lm = load_lm(tmp_path / "words.lm")
        log_probs = [p for line in test.read_text().splitlines() for p in lm.log_probs(line.split())]
        assert math.exp(-sum(log_probs) / len(log_probs)) == pytest.approx(perplexities[order], rel=0.02)
        assert (tmp_path / "words.lm").stat().st_size < 0.03e6
    assert perplexities["2"] < 32  # of 41 equally likely words
    assert perplexities["3"] < 0.7 * perplexities["2"]
    assert perplexities["3"] == pytest.approx(float(found[1]), rel=0.1)  # of the model before it was pruned


@pytest.mark.parametrize("order", ["2", "3", "5"])
def test_pruning_keeps_the_requested_size_at_any_order(order: str, tmp_path: Path) -> None:
    text = toy_text(tmp_path / "train.txt", 3000, 0)
    for kilobytes in (10, 20):
        command = ["lm", "train", str(text), "--order", order, "--megabytes", str(kilobytes / 1000)]
        assert main([*command, "-o", str(tmp_path / "words.lm")]) == 0
        size = (tmp_path / "words.lm").stat().st_size
        assert size < 1000 * kilobytes + 1000  # the heading and spellings
        assert order == "2" or size > 900 * kilobytes  # all 2-grams are less


def test_marks_in_the_text_are_unknown_words(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A <s> B </s> C\n" * 50)
    assert main(["lm", "train", str(tmp_path / "text.txt"), "-o", str(tmp_path / "words.lm")]) == 0
    lm = load_lm(tmp_path / "words.lm")
    assert lm.num_ngrams[0] == 6
    after_a, after_b = lm.log_probs(["A", "<unk>", "B"])[1:3]
    assert after_a > -0.7 and after_b > -0.7


@pytest.mark.parametrize(
    ("policy", "words", "message"),
    [
        ("drop", {"HELLO"}, "1 line with noise tags or cut-off words left out (--noise-tags strip keeps their words)"),
        ("strip", {"HELLO", "WORLD"}, "1 line with noise tags or cut-off words used without them"),
        ("keep", {"HELLO", "WORLD", "[NOISE]", "W-"}, ""),
    ],
)
def test_noise_tags_are_no_words(
    policy: str, words: set[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, model = tmp_path / "text.txt", tmp_path / "words.lm"
    text.write_text("HELLO <unk>\n[NOISE] W- WORLD\n")
    assert main(["lm", "train", str(text), "-o", str(model), "--noise-tags", policy]) == 0
    lm = load_lm(str(model))
    assert {word for word in ("HELLO", "WORLD", "[NOISE]", "W-") if word in lm} == words
    err = capsys.readouterr().err
    assert f"{message}: [NOISE] W-\n" in err if message else "cut-off" not in err


def test_the_share_of_unknown_words_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("A B\n" * 50)
    (tmp_path / "test.txt").write_text("A B C\nB D A A\n")
    command = ["lm", "train", str(tmp_path / "text.txt"), "--test", str(tmp_path / "test.txt")]
    assert main([*command, "-o", str(tmp_path / "words.lm")]) == 0
    assert "; 28.57 % of the words are unknown" in capsys.readouterr().out


def test_long_and_short_ranges_are_packed() -> None:
    """<s> is followed by all words, one word by 300, and others by one, if at all."""
    words = sorted(["<s>", "</s>", "<unk>", *(f"W{i:05}" for i in range(20_000))])
    base = len(words)
    falling = -np.linspace(1, 6, base, dtype=np.float32)[np.random.default_rng(0).permutation(base)]
    begin = np.full(base, words.index("<s>"))
    some, often = np.arange(5, base, 3), np.full(300, 9000)
    contexts, following = (begin, some, often), (np.arange(base), some, np.arange(300))
    pairs = np.stack((np.concatenate(contexts), np.concatenate(following)), axis=1)
    pairs = pairs[np.lexsort(pairs.T[::-1])]
    of_pairs = np.resize(falling, len(pairs))
    levels = [Ngrams(np.arange(base)[:, None], falling, np.zeros(base, np.float32)), Ngrams(pairs, of_pairs, of_pairs)]
    found_words, found = unpack(pack(words, levels))
    assert found_words == words
    assert all(np.array_equal(a.words, b.words) for a, b in zip(found, levels, strict=True))
    assert np.abs(found[1].log_probs - of_pairs).max() < 0.011


def test_a_model_of_an_older_release_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.lm"
    path.write_bytes(b"ASRNGRAM" + (1).to_bytes(4, "little") + bytes(100))
    with pytest.raises(LmError, match=r"old.lm: .* version 1, .* older release; write it again with `asr lm`"):
        load_lm(path)
    path.write_bytes(b"")
    with pytest.raises(LmError, match=r"old.lm: not a language model"):
        load_lm(path)


def test_ngrams_of_missing_words_are_refused() -> None:
    """Words of bigrams when the file is opened, because the search uses them as indexes; others when it is unpacked."""
    levels = [Ngrams(np.arange(5)[:, None], np.zeros(5, np.float32), np.zeros(5, np.float32))]
    for order in (2, 3):
        levels.append(Ngrams(np.full((1, order), 1), np.zeros(1, np.float32), np.zeros(1, np.float32)))
    words = ["</s>", "<s>", "<unk>", "A", "B"]
    packed, units = pack(words, levels), (1).to_bytes(8, "little") + bytes(8)
    bigrams = packed.index(units)
    trigrams = packed.index(units, bigrams + 1)
    with pytest.raises(ValueError, match="n-grams of words that it does not have"):
        NgramLm(np.frombuffer(sealed(packed[:bigrams] + b"\7" + packed[bigrams + 1 :]), np.uint8))
    damaged = sealed(packed[:trigrams] + b"\7" + packed[trigrams + 1 :])
    NgramLm(np.frombuffer(damaged, np.uint8)).log_probs(["A", "B"])
    with pytest.raises(LmError, match="a 3-gram of a word that it does not have"):
        unpack(damaged)


def test_an_array_is_kept_only_if_nobody_can_change_it() -> None:
    data = pack(*read_arpa(iter(arpa_text(random_arpa(3)).splitlines())))
    expected = NgramLm(np.frombuffer(data, np.uint8)).log_probs(["A", "THE"])
    writable, kept = np.frombuffer(bytearray(data), np.uint8), np.frombuffer(data, np.uint8)
    copied = NgramLm(writable)
    writable[:] = 0
    assert copied.log_probs(["A", "THE"]) == expected
    references = sys.getrefcount(kept)
    lm = NgramLm(kept)
    assert sys.getrefcount(kept) > references
    del lm
    assert sys.getrefcount(kept) == references


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what is mapped")
def test_processes_share_the_memory_of_a_file() -> None:
    """The bundled one has 34 MB, and lists made when it is opened 20 MB."""
    script = """
        import re
        from asr.lm.packed import load_lm
        lm = load_lm("bundled")
        text = open("/proc/self/smaps").read()
        entry = text[text.index("english.lm"):]
        print({key: int(re.search(key + r": +([0-9]+)", entry)[1]) for key in ("Size", "Rss", "Anonymous")})
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    sizes = ast.literal_eval(found.stdout)
    assert sizes["Size"] > 30_000 and sizes["Rss"] > 30_000 and sizes["Anonymous"] == 0


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (["--order", "10"], "A", "--order 10"),
        (["--num-words", "0"], "A", "--num-words"),
        ([], "\n\n", "there are no words"),
        ([], "caf\udce9", "is not UTF-8 text"),
    ],
)
def test_what_cannot_be_trained_on_is_named(
    options: list[str], text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text, errors="surrogateescape")
    assert main(["lm", "train", str(path), *options, "-o", str(tmp_path / "words.lm")]) == 1
    assert message in capsys.readouterr().err


def test_files_without_words_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, none = tmp_path / "text.txt", tmp_path / "none.txt"
    text.write_text("A B\n" * 50)
    none.write_text("")
    command = ["lm", "train", str(text), "-o", str(tmp_path / "words.lm")]
    for option, message in (("--vocabulary", "there are no words in"), ("--test", "there are no sentences in")):
        assert main([*command, option, str(none)]) == 1
        assert f"{message} {none}" in capsys.readouterr().err


def test_text_that_is_read_twice_is_no_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, pipe = tmp_path / "text.txt", tmp_path / "pipe"
    text.write_text("A B\n")
    os.mkfifo(pipe)
    assert main(["lm", "train", str(text), str(pipe), "-o", str(tmp_path / "words.lm")]) == 1
    error = capsys.readouterr().err
    assert error == f"asr lm: the text is read twice: {pipe} must be a file, or give --vocabulary\n"


@pytest.mark.parametrize("command", ["train", "adapt", "utterances", "pack"])
def test_the_output_is_no_input(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("A B\n")
    assert main(["lm", command, str(text), "-o", str(text)]) == 1
    assert f"{text} is also an input" in capsys.readouterr().err and text.read_text() == "A B\n"


@pytest.mark.parametrize(
    "command",
    [
        "mix in.lm*0.3 other.lm -o in.lm",
        "mix other.lm -o in.lm --g2p in.lm",
        "mix other.lm -o in.lm --test in.lm",
        "adapt text.txt -o in.lm --base in.lm",
        "adapt text.txt -o in.lm --lexicon in.lm",
        "train text.txt -o in.lm --vocabulary in.lm",
        "utterances text.txt -o in.lm --spellings in.lm",
    ],
)
def test_files_of_options_are_not_replaced(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.lm", "other.lm", "text.txt"):
        Path(name).write_text("A B\n")
    assert main(["lm", *command.split()]) == 1
    assert "in.lm is also an input" in capsys.readouterr().err and Path("in.lm").read_text() == "A B\n"


def test_a_missing_test_text_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, none = tmp_path / "text.txt", tmp_path / "none.txt"
    text.write_text("A B\n")
    assert main(["lm", "train", str(text), "-o", str(tmp_path / "a.lm")]) == 0
    monkeypatch.setattr(cli, "mix", lambda *_: pytest.fail("work has begun"))
    monkeypatch.setattr(cli.ngram, "estimate", lambda *_: pytest.fail("work has begun"))
    for command in (["train", str(text)], ["mix", str(tmp_path / "a.lm")]):
        assert main(["lm", *command, "-o", str(tmp_path / "b.lm"), "--test", str(none)]) == 1
        assert f"{none}: No such file" in capsys.readouterr().err


def test_a_vocabulary_needs_text_to_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = tmp_path / "text.txt", tmp_path / "words.txt"
    words.write_text("A B\n")
    for content in ("", "[noise]\n"):
        text.write_text(content)
        assert main(["lm", "train", str(text), "--vocabulary", str(words), "-o", str(tmp_path / "words.lm")]) == 1
        assert f"there are no sentences in {text}" in capsys.readouterr().err


def test_a_missing_arpa_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.arpa"
    assert main(["lm", "pack", str(path), "-o", str(tmp_path / "words.lm")]) == 1
    assert capsys.readouterr().err == f"asr lm: {path} cannot be read: No such file or directory\n"


def test_a_missing_dictionary_is_named_before_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"THE CAF\xe9\n")  # training would refuse it
    options = ["-o", str(tmp_path / "words.lm"), "--lexicon", str(tmp_path / "none.dict")]
    assert main(["lm", "train", str(text), *options]) == 1
    error = capsys.readouterr().err
    assert str(tmp_path / "none.dict") in error and "UTF-8" not in error


def test_vocabulary_has_one_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lm", "train", "a.txt", "--vocabulary", "b.txt", "--num-words", "9", "-o", str(tmp_path / "c.lm")])
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_vocabulary_is_that_of_its_file(tmp_path: Path) -> None:
    text, words, out = tmp_path / "text.txt", tmp_path / "words.txt", tmp_path / "words.lm"
    text.write_text("THE CAT SAT\nTHE DOG SAT\n" * 20)
    words.write_text("THE\nCAT\nZEBRA\n<unk>\n")
    assert main(["lm", "train", str(text), "--vocabulary", str(words), "-o", str(out)]) == 0
    lm = load_lm(out)
    found = {word: word in lm for word in ("THE", "CAT", "ZEBRA", "DOG", "SAT")}
    assert found == {"THE": True, "CAT": True, "ZEBRA": True, "DOG": False, "SAT": False}
