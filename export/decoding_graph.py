"""The decoding graph HLG of our word search: frames of the phone head in, words out (Mohri, Pereira and Riley 2002,
"Weighted finite-state transducers in speech recognition").

G is the language model (asr.export.grammar), L has the pronunciations of its words, and H is the CTC topology of the
tokens. A graph decoder has no weights of its own, so the weights of our search (csrc/search/lm_fusion.h) are on the
arcs. The prior of a phone depends only on the previous phone of the same word, so it is part of L.

kaldifst composes L and G, then determinizes and minimizes the result. H is applied here, because a composition would
copy the words that may follow a context for each final phone of the context. Instead, each state of LG becomes a state
that reads blanks, plus one state for each token that leads to it, in which that token repeats. An epsilon arc leads
from the latter to the former. The latter has arcs of its own only if the same token may follow after a blank. Most
states are entered by a single token. There the two states are merged, which also lets the token repeat after a blank.
CTC would read that as two tokens, but this makes no difference unless a word has the token twice.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asr._core import LmFusion, NgramLm
from asr.export.fst import EPSILON, Fst, Ints
from asr.export.grammar import grammar
from asr.export.graph import ExportError
from asr.lm.packed import SPECIAL_WORDS, Ngrams
from asr.runtime.search import LmWeights

NUM_WORDS = 100_000
COST_STEP = 1 / 16
"""Costs of LG are rounded to multiples of this (in nats), which makes more of its states equal."""
MAX_EXTRA_ARCS = 2
"""Maximum number of arcs copied to save a state and its two arcs, for a state of LG and the tokens that lead to it."""
BLANK_LABEL = 1
"""Input labels of the graph are token ids + 1; 0 is epsilon."""
NOT_FINAL = np.float32(np.inf)


class DecodingGraph:
    """A graph and its symbol tables."""

    def __init__(
        self,
        lm: NgramLm,
        words: Sequence[str],
        levels: Sequence[Ngrams],
        phones: Sequence[str],
        weights: LmWeights | None = None,
        num_words: int = NUM_WORDS,
    ) -> None:
        """
        Args:
            lm: a language model with pronunciations, in `phones`.
            words, levels: the n-grams, as asr.lm.packed.unpack returns them.
            phones: the phones of the model, in its order.
            num_words: the graph has this many words, the most likely ones.
        Raises ExportError for a language model without pronunciations in these phones.
        """
        weights = weights or LmWeights()
        fusion = check_phones(lm, phones, weights)
        begins = {phone: 2 * place + 1 for place, phone in enumerate(phones)}
        labels = np.zeros(len(words), np.int64)
        self.words = ["<eps>"]
        pronunciations: list[tuple[int, list[int]]] = []
        for place in np.argsort(-levels[0].log_probs[np.argsort(levels[0].words[:, 0])], kind="stable").tolist():
            if len(self.words) > num_words:
                break
            word = words[place]
            found = [] if word in SPECIAL_WORDS else lm.pronunciations(word)
            for first, *others in found:
                pronunciations.append((len(self.words), [begins[first], *(begins[phone] + 1 for phone in others)]))
            if found:
                labels[place] = len(self.words)
                self.words.append(word)
        self.tokens = ["<blk>", *fusion.tokens[1:]]
        mark = max(len(self.tokens), len(self.words))  # the first label that is neither a token nor a word
        graph = determinized(
            lexicon(pronunciations, fusion, weights.word_bonus, mark), grammar(words, levels, labels, mark, weights)
        )
        self.fst = with_frames(without_marks(graph, len(self.tokens)), len(self.tokens))


def check_phones(lm: NgramLm, phones: Sequence[str], weights: LmWeights | None = None) -> LmFusion:
    """The fusion of our search over the phones of a model. Raises ExportError if the language model has different
    phones."""
    if not phones:
        raise ExportError(
            "the model writes no phones, which a decoding graph needs to find words: train it with data.lexicon"
        )
    if not lm.phones:
        raise ExportError(
            "the language model has no pronunciations, which a decoding graph needs to find words: asr lm ... --lexicon"
        )
    try:
        return (weights or LmWeights()).fusion(lm, ["<blk>"], phones=phones)
    except ValueError as error:
        raise ExportError(str(error)) from error


def lexicon(pronunciations: Sequence[tuple[int, list[int]]], fusion: LmFusion, word_bonus: float, mark: int) -> Fst:
    """The transducer L for sequences of words.

    pronunciations: the label and the tokens of each word. `mark` passes through; G needs it to back off. Each word ends
    in a mark: `mark` + n for the n-th word with the same pronunciation. Without these marks, LG could not be made
    deterministic, because of homophones and words that are prefixes of others.
    """
    num_tokens = len(fusion.tokens)
    gains = [[fusion.prior_gain(before, token) for token in range(num_tokens)] for before in range(num_tokens)]
    alike: Counter[tuple[int, ...]] = Counter()
    arcs: list[tuple[int, int, int, int]] = [(0, mark, mark, 0)]
    costs = [0.0]
    num_states = 1
    for word, tokens in pronunciations:
        alike[tuple(tokens)] += 1
        states = [0, *range(num_states, num_states + len(tokens)), 0]
        num_states += len(tokens)
        labels = [*tokens, mark + alike[tuple(tokens)]]
        for i, label in enumerate(labels):
            arcs.append((states[i], label, EPSILON if i else word, states[i + 1]))
            gain = gains[labels[i - 1] if i else 0][label if i < len(tokens) else 0]
            costs.append(-gain if i else -gain - word_bonus)
    source, reads, writes, target = np.array(arcs, np.int64).T
    final = np.full(num_states, NOT_FINAL)
    final[0] = 0.0
    return Fst(source, reads, writes, np.array(costs, np.float32), target, final)


def determinized(left: Fst, right: Fst) -> Fst:
    """The composition, determinized and minimized."""
    import kaldifst

    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "left"), Path(folder, "right")
        left.write(paths[0])
        right.write(paths[1])
        words = kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(paths[0])))
        kaldifst.arcsort(words, "olabel")  # for `compose`, which finds arcs of the left part by their output
        graph = kaldifst.compose(words, kaldifst.StdConstFst.read(str(paths[1])))
        del words
        kaldifst.determinize_star(graph)
        kaldifst.minimize_encoded(graph, COST_STEP)
        kaldifst.StdConstFst(graph).write(str(paths[0]))
        del graph
        return Fst.read(paths[0])


def without_marks(graph: Fst, num_tokens: int) -> Fst:
    """LG with epsilons for labels that are not tokens. These are merged into the preceding arcs if that does not add
    arcs."""
    reads = np.where(graph.reads < num_tokens, graph.reads, EPSILON)
    writes, cost, target = graph.writes.copy(), graph.cost.copy(), graph.target.copy()
    alone = np.bincount(graph.source, minlength=graph.num_states) == 1
    alone &= np.isinf(graph.final)
    ends = np.flatnonzero((reads == EPSILON) & alone[graph.source])
    end_of = np.full(graph.num_states, -1)
    end_of[graph.source[ends]] = ends
    while True:
        end = end_of[target]
        joined = np.flatnonzero((end >= 0) & ((writes == EPSILON) | (graph.writes[end] == EPSILON)))
        if not len(joined):
            return Fst(graph.source, reads, writes, cost, target, graph.final, graph.start).trimmed()
        end = end[joined]
        writes[joined] += graph.writes[end]
        cost[joined] += graph.cost[end]
        target[joined] = graph.target[end]


def with_frames(graph: Fst, num_tokens: int) -> Fst:
    """HLG for an LG whose arcs are sorted by source."""
    silent = graph.reads == EPSILON
    steps, skips = np.flatnonzero(~silent), np.flatnonzero(silent)
    first = np.searchsorted(graph.source, np.arange(graph.num_states + 1))
    read_here = np.unique(graph.source[steps] * num_tokens + graph.reads[steps])
    ends_word = np.bincount(graph.source[skips], minlength=graph.num_states) > 0

    def again(pairs: Ints) -> Ints:
        """The pairs whose token may follow itself, within the word or as the only phone of the next word."""
        state, token = np.divmod(pairs, num_tokens)
        return pairs[np.isin(pairs, read_here) | ((token % 2 == 1) & ends_word[state])]

    def arcs_of(pairs: Ints) -> tuple[Ints, Ints]:
        """The arcs of the states of the pairs as two arrays: the pair and the arc."""
        state = pairs // num_tokens
        count = first[state + 1] - first[state]
        of = np.repeat(np.arange(len(pairs)), count)
        return pairs[of], np.arange(len(of)) + (first[state] - np.cumsum(count) + count)[of]

    # A pair is a state and a token that repeats in it. The token led to that state, or to a state with an epsilon path
    # to it.
    pairs = new = np.unique(graph.target[steps] * num_tokens + graph.reads[steps])
    while len(new):
        before, arcs = arcs_of(again(new))
        skipped = np.unique((graph.target[arcs] * num_tokens + before % num_tokens)[silent[arcs]])
        new = np.setdiff1d(skipped, pairs)
        pairs = np.union1d(pairs, new)
    strict = again(pairs)
    num_tokens_of = np.bincount(pairs // num_tokens, minlength=graph.num_states)
    extra_arcs = (num_tokens_of - 1) * np.diff(first)
    small = (extra_arcs <= MAX_EXTRA_ARCS)[pairs // num_tokens]
    joined = np.setdiff1d(pairs[small], strict)
    lenient = np.setdiff1d(pairs[~small], strict)

    def place(wanted: Ints) -> Ints:
        return graph.num_states + np.searchsorted(pairs, wanted)

    def entered(arcs: Ints) -> Ints:
        return place(graph.target[arcs] * num_tokens + graph.reads[arcs])

    blanks = np.arange(graph.num_states)
    parts: list[tuple[Any, ...]] = [  # source, input label, output label, cost, target
        (blanks, BLANK_LABEL, EPSILON, 0.0, blanks),
        (graph.source[steps], graph.reads[steps] + 1, graph.writes[steps], graph.cost[steps], entered(steps)),
        (graph.source[skips], EPSILON, graph.writes[skips], graph.cost[skips], graph.target[skips]),
        (place(pairs), pairs % num_tokens + 1, EPSILON, 0.0, place(pairs)),
        (place(lenient), EPSILON, EPSILON, 0.0, lenient // num_tokens),
        (place(joined), BLANK_LABEL, EPSILON, 0.0, place(joined)),
        (place(strict), BLANK_LABEL, EPSILON, 0.0, strict // num_tokens),
    ]
    for group in (joined, strict):
        before, arcs = arcs_of(group)
        token, ends = before % num_tokens, silent[arcs]
        goes_on = ~ends & (graph.reads[arcs] != token)
        a, b = arcs[ends], arcs[goes_on]
        skipped = graph.target[a] if group is joined else place(graph.target[a] * num_tokens + token[ends])
        parts.append((place(before[ends]), EPSILON, graph.writes[a], graph.cost[a], skipped))
        parts.append((place(before[goes_on]), graph.reads[b] + 1, graph.writes[b], graph.cost[b], entered(b)))
    source, reads, writes, cost, target = (
        np.concatenate([np.broadcast_to(part[column], len(part[0])) for part in parts]) for column in range(5)
    )
    final = np.full(graph.num_states + len(pairs), NOT_FINAL)
    final[: graph.num_states] = graph.final
    for group in (joined, strict):
        final[place(group)] = graph.final[group // num_tokens]
    return Fst(source, reads, writes, cost.astype(np.float32), target, final, graph.start).trimmed()
