"""Words or characters: which units should the language model of the beam search have?

Trains an n-gram model of characters on the same text as the word model, prunes it to the same size, and fuses both in
the same C++ search over the same log-probabilities of the bundled model. The search knows words only, so it is told
that each character is a word of its own, finished as soon as it is written; the border between words is one of them.
The weights of the character model are the best of a grid on every fourth of the utterances measured.

    python benchmarks/lm_units.py data/dev.jsonl.gz novels.txt.xz ls-train-clean-100.txt

Text: UTF-8, one sentence a line, spelled as the model spells; .xz or plain. 80 million characters take 4 GB.
"""

from __future__ import annotations

import argparse
import lzma
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np

from asr._core import LmFusion, NgramLm
from asr.data.cuts import evenly_spread, load_cuts
from asr.evaluation.engine import open_engine
from asr.evaluation.wer import WordErrors, count_errors
from asr.lm import ngram
from asr.lm.packed import BUNDLED, MAX_ORDER, SENTENCE_BEGIN, SENTENCE_END, UNKNOWN, load_lm, pack
from asr.runtime.onnx_model import bundled_model
from asr.runtime.search import LmWeights, decode, text

CHUNK, LEFT_CONTEXT = 16, 64  # encoder frames: 640 ms and 2560 ms
BORDER = "\u2581"
BORDER_WORD = "_"  # the border's name in the vocabulary of the character model


@dataclass(frozen=True)
class Utterance:
    log_probs: np.ndarray  # (T, V) float32
    words: str
    duration_s: float


def read_characters(paths: Sequence[Path], characters: str) -> np.ndarray:
    """All sentences, each between BOS and EOS, as ids of asr.lm.ngram, uint8: characters[i] is UNK + 1 + i."""
    pieces = []
    for path in paths:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            lines = [b" ".join(line.split()) for line in file]
        pieces.append(b"\n" + b"\0\n".join(filter(None, lines)) + b"\0")
    table = np.full(256, ngram.UNK, np.uint8)
    table[[ord(c) for c in characters]] = ngram.UNK + 1 + np.arange(len(characters))
    table[ord("\n")], table[0] = ngram.BOS, ngram.EOS
    raw = np.frombuffer(b"".join(pieces), np.uint8)
    return table[raw]


def count_ngrams(ids: np.ndarray, num_words: int, order: int) -> list[ngram.Order]:
    """What `ngram.count_ngrams` counts, for few symbols: an n-gram is one integer, and one sort counts all orders."""
    bits = num_words.bit_length()
    if bits * order > 63:
        raise ValueError(f"{order}-grams of {num_words} symbols do not fit 63 bits")
    keys = np.zeros(len(ids), np.int64)  # of the symbols from each place on, + 1; 0 where the sentence has ended
    inside = np.ones(len(ids), bool)
    for k in range(order):
        inside[len(ids) - k :] = False
        inside[: len(ids) - k] &= (ids[k:] != ngram.BOS) | (k == 0)
        keys <<= bits
        keys[: len(ids) - k] |= np.where(inside[: len(ids) - k], ids[k:] + 1, 0)
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts, keys = np.diff(first, append=len(keys)), keys[first]

    none, symbols = np.zeros(num_words, np.int64), np.arange(num_words)
    unigrams = np.bincount(ids, minlength=num_words).astype(float)
    orders = [ngram.Order(none, symbols, none, unigrams, symbols == ngram.BOS)]
    shorter = symbols + 1
    for n in range(2, order + 1):
        prefix = keys >> bits * (order - n)
        whole = prefix % (1 << bits) > 0
        prefix = prefix[whole]
        first = np.flatnonzero(np.diff(prefix, prepend=-1))
        grams = prefix[first]
        context = np.searchsorted(shorter, grams >> bits)
        suffix = np.searchsorted(shorter, grams % (1 << bits * (n - 1)))
        count = np.add.reduceat(counts[whole], first).astype(float)
        orders.append(ngram.Order(context, grams % (1 << bits) - 1, suffix, count, orders[-1].starts[context]))
        shorter = grams
    return orders


def train(ids: np.ndarray, characters: str, order: int, num_bytes: float) -> tuple[NgramLm, float]:
    """The character model and its bytes, were a character one byte in the file, which spends three on a word."""
    words = [SENTENCE_BEGIN, SENTENCE_END, UNKNOWN, *characters.replace(" ", BORDER_WORD)]
    model = ngram.estimate(count_ngrams(ids, len(words), order))
    sizes = [7] * (order - 1) + [2]  # character 1, log-probability 1; back-off 1 and index 4, but not of the highest
    pruned = ngram.prune(model, ngram.select(model, num_bytes, sizes))
    size = sum(size * int(keep.sum()) for size, keep in zip(sizes, pruned.keep, strict=True))
    return NgramLm(np.frombuffer(pack(*ngram.tables(pruned, words)), np.uint8)), size


def character_fusion(lm: NgramLm, tokens: Sequence[str], weight: float, bonus: float) -> LmFusion:
    """A border behind every character makes it a word."""
    spelled = [token.replace(BORDER, BORDER_WORD) for token in tokens]
    whole = [
        word + BORDER if word in lm and len(token) == 1 else "" for word, token in zip(spelled, tokens, strict=True)
    ]
    return LmFusion(lm, whole, weight=weight, word_bonus=bonus, oov_penalty=0.0, prior_weight=0.0)


@dataclass
class Row:
    """What a search makes of the utterances."""

    name: str
    errors: WordErrors
    num_unknown: int  # words of the references outside the vocabulary of the word model
    num_unknown_right: int
    num_invented: int  # words recognized outside it
    cpu_ms: float  # per second of audio


def measure(
    name: str,
    utterances: Sequence[Utterance],
    tokens: Sequence[str],
    fusion: LmFusion | None,
    beam: int,
    known: NgramLm,
) -> Row:
    started = time.process_time()
    found = [decode(u.log_probs, "beam", beam, fusion=fusion) for u in utterances]
    cpu_ms = 1e3 * (time.process_time() - started) / sum(u.duration_s for u in utterances)
    recognized = [text(hypothesis, tokens) for hypothesis in found]
    references = [u.words for u in utterances]
    total, right = unknown_words(references, recognized, known)
    invented = sum(word not in known for hypothesis in recognized for word in hypothesis.split())
    return Row(f"{name}, beam {beam}", count_errors(references, recognized), total, right, invented, cpu_ms)


def unknown_words(references: Sequence[str], recognized: Sequence[str], known: NgramLm) -> tuple[int, int]:
    """Words of the references outside the vocabulary of `known`: how many, and how many of them came out right."""
    total = right = 0
    aligned = jiwer.process_words(list(references), list(recognized))
    for words, chunks in zip(aligned.references, aligned.alignments, strict=True):
        total += sum(word not in known for word in words)
        for chunk in chunks:
            if chunk.type == "equal":
                right += sum(word not in known for word in words[chunk.ref_start_idx : chunk.ref_end_idx])
    return total, right


def numbers(option: str) -> list[float]:
    return [float(part) for part in option.split(",")]


def integers(option: str) -> list[int]:
    return [int(part) for part in option.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a prepared data set")
    parser.add_argument("text", type=Path, nargs="+", help="what the word model was trained on")
    parser.add_argument("--model", type=Path, default=bundled_model(), help="its units are characters")
    parser.add_argument("--word-lm", type=Path, default=BUNDLED)
    parser.add_argument("--order", type=int, default=MAX_ORDER, help="of the character model (%(default)s)")
    parser.add_argument("--megabytes", type=float, help="of the character model; default: as many as the word model")
    parser.add_argument("--weights", type=numbers, default=[0.8, 1.0, 1.2], metavar="X,...")
    parser.add_argument("--bonuses", type=numbers, default=[1.0, 1.5, 2.0], metavar="X,...", help="per character")
    parser.add_argument("--beams", type=integers, default=[16, 64], metavar="N,...")
    parser.add_argument(
        "--word-beams", type=integers, default=[16, 64, 128, 256], metavar="N,...", help="words take less time"
    )
    parser.add_argument("--num-utterances", type=int, metavar="N", help="evenly spread; default: all")
    args = parser.parse_args()

    engine = open_engine(str(args.model), "cpu")
    tokens = engine.tokens
    utterances = []
    for cut in evenly_spread(list(load_cuts(args.data)), args.num_utterances):
        log_probs = engine.encode([cut.load_features()], CHUNK, LEFT_CONTEXT)[0].log_probs
        utterances.append(Utterance(log_probs, cut.supervisions[0].text, cut.duration))
    hours = sum(u.duration_s for u in utterances) / 3600
    print(f"{len(utterances)} utterances, {hours:.2f} h, {sum(len(u.words.split()) for u in utterances)} words")

    characters = "".join(t for t in tokens if len(t) == 1).replace(BORDER, " ")
    ids = read_characters(args.text, characters)
    num_bytes = 1e6 * args.megabytes if args.megabytes else args.word_lm.stat().st_size
    started = time.process_time()
    chars, size = train(ids, characters, args.order, num_bytes)
    print(f"characters: {len(ids) / 1e6:.1f} M, {time.process_time() - started:.0f} s of CPU time to train on them")
    print(f"  n-grams of order 1, 2, ...: {chars.num_ngrams}, {size / 1e6:.1f} MB at one byte a character")
    word_lm = load_lm(args.word_lm)
    print(f"words: {word_lm.num_ngrams}, file of {args.word_lm.stat().st_size / 1e6:.1f} MB")

    rows = []
    for beam in args.beams:
        rows.append(measure("none", utterances, tokens, None, beam, word_lm))
    small = min(args.beams)
    grid = {}
    for weight in args.weights:
        for bonus in args.bonuses:
            fusion = character_fusion(chars, tokens, weight, bonus)
            row = measure("characters", utterances[::4], tokens, fusion, small, word_lm)
            grid[weight, bonus] = row
            print(f"  characters, weight {weight:g}, bonus {bonus:g}: {100 * row.errors.rate:.2f} %", flush=True)
    best = min(grid, key=lambda at: grid[at].errors.rate)
    for beam in args.beams:
        fusion = character_fusion(chars, tokens, *best)
        rows.append(measure("characters", utterances, tokens, fusion, beam, word_lm))
    for beam in args.word_beams:
        fusion = LmWeights().fusion(word_lm, tokens)
        rows.append(measure("words", utterances, tokens, fusion, beam, word_lm))
    print(f"\ncharacters: weight {best[0]:g}, bonus {best[1]:g}; words: {LmWeights()}\n")
    print("| language model | WER % | ins | del | sub | unknown words right | unknown words written | CPU ms per s |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        e = r.errors
        counts = f"{e.insertions} | {e.deletions} | {e.substitutions}"
        unknown = f"{r.num_unknown_right} of {r.num_unknown} | {r.num_invented}"
        print(f"| {r.name} | {100 * e.rate:.1f} | {counts} | {unknown} | {r.cpu_ms:.2f} |")


if __name__ == "__main__":
    main()
