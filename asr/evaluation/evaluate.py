"""`asr evaluate`: word error rate against latency, for trained weights or an exported file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from asr._core import JOINT_BEAM_SIZE, LmFusion
from asr.command import add_option
from asr.data.speech import Clip, Speech, batches_by_length, evenly_spread
from asr.evaluation.plots import plot_wer
from asr.evaluation.wer import WordErrors, count_errors
from asr.features import ENCODER_FRAME_MS
from asr.files import distinct_names, replacing, require_folder
from asr.lm.packed import load_lm
from asr.options import flag
from asr.runtime.joint_search import JOINT_CTC_WEIGHT, joint_search
from asr.runtime.search import BEAM_SIZE, DECODER_SEARCHES, SEARCHES, LmWeights, decode_words, words
from asr.tables import write_tsv

if TYPE_CHECKING:
    from asr.evaluation.engine import Encoded, Engine

MAX_CHUNK_MS = 5120
FULL = "full"
MAX_BATCH_S = 60.0


@dataclass
class Result:
    """The result for one data set, latency and search."""

    data: str
    chunk_ms: int | None
    """None stands for the whole utterance."""
    search: str
    errors: WordErrors = field(default_factory=WordErrors)
    audio_s: float = 0.0
    encoder_s: float = 0.0
    """Seconds that the encoder took: CPU time, or wall-clock time on a GPU."""
    search_s: float = 0.0
    """The same for the search, including rescoring."""
    hypotheses: list[tuple[str, str, str]] = field(default_factory=list, repr=False)
    """Utterance id, reference, hypothesis."""

    @property
    def real_time_factor(self) -> float:
        return (self.encoder_s + self.search_s) / self.audio_s if self.audio_s else 0.0

    @property
    def chunk(self) -> str:
        return FULL if self.chunk_ms is None else str(self.chunk_ms)

    def to_dict(self) -> dict[str, Any]:
        """The numbers for the JSON report."""
        return {
            "data": self.data,
            "chunk_ms": self.chunk_ms,
            "search": self.search,
            "wer": self.errors.rate,
            **asdict(self.errors),
            "audio_s": round(self.audio_s, 3),
            "encoder_s": round(self.encoder_s, 4),
            "search_s": round(self.search_s, 4),
            "real_time_factor": self.real_time_factor,
        }


def evaluate(
    engine: Engine,
    speech: Sequence[Clip],
    data: str,
    chunks_ms: Sequence[int | None],
    left_context_ms: int,
    searches: Sequence[str],
    beam_size: int | None = None,
    ctc_weight: float | None = None,
    fusion: LmFusion | None = None,
    on_batch: Callable[[int], object] | None = None,
) -> list[Result]:
    """Recognizes `speech` at every latency with every search.

    beam_size: hypotheses in the beam; None: JOINT_BEAM_SIZE for attention and joint, otherwise BEAM_SIZE.
    ctc_weight: weight of CTC relative to the decoder; None: the model's own for rescoring, JOINT_CTC_WEIGHT for joint.
    fusion: the language model of the searches whose name ends in "+lm".
    on_batch: called with the number of utterances after each batch at one latency.
    Returns one result per latency and search.
    """
    results = [Result(data, chunk, search) for chunk in chunks_ms for search in searches]
    for chunk_ms in chunks_ms:
        rows = [result for result in results if result.chunk_ms == chunk_ms]
        for batch in batches_by_length(speech, MAX_BATCH_S if engine.batched else 0.0):
            features = [clip.features().numpy() for clip in batch]
            started = engine.seconds()
            frames = (chunk_ms or 0) // ENCODER_FRAME_MS, left_context_ms // ENCODER_FRAME_MS
            encoded = engine.encode(features, *frames)
            encoder_s = engine.seconds() - started
            for result in rows:
                result.encoder_s += encoder_s
                for clip, utterance in zip(batch, encoded, strict=True):
                    _recognize(engine, result, clip, utterance, beam_size, ctc_weight, fusion)
            if on_batch is not None:
                on_batch(len(batch))
    return results


def _recognize(
    engine: Engine,
    result: Result,
    clip: Clip,
    encoded: Encoded,
    beam_size: int | None,
    ctc_weight: float | None,
    fusion: LmFusion | None,
) -> None:
    log_probs, encoder_out, phone_log_probs = encoded
    name, _, lm = result.search.partition("+")
    by_steps = name in DECODER_SEARCHES
    weight = ctc_weight
    if weight is None:
        weight = JOINT_CTC_WEIGHT if by_steps else engine.rescore_ctc_weight
    if beam_size is None:
        beam_size = JOINT_BEAM_SIZE if by_steps else BEAM_SIZE
    started = engine.seconds()
    if by_steps:
        weight = 0.0 if name == "attention" else weight
        hypotheses = joint_search(log_probs, engine.step_decoder(), encoder_out, weight, beam_size)
        found = words(hypotheses[0], engine.tokens)
    else:
        found = decode_words(
            log_probs,
            engine.tokens,
            name,
            beam_size,
            lambda tokens: engine.score(tokens, encoder_out),
            weight,
            fusion if lm else None,
            phone_log_probs,
        )
    recognized = " ".join(word.word for word in found)
    result.search_s += engine.seconds() - started
    result.audio_s += clip.seconds
    result.errors += count_errors([clip.text], [recognized])
    result.hypotheses.append((clip.id, clip.text, recognized))


def parse_chunks(option: str) -> list[int | None]:
    """ "full,640,320" -> [None, 640, 320]. Raises ValueError unless they are multiples of 40 ms in [40, 5120]."""
    chunks: list[int | None] = []
    for part in option.split(","):
        part = part.strip().lower()
        value = None if part == FULL else int(part) if part.isdigit() else 0
        if value is not None and (value % ENCODER_FRAME_MS or not ENCODER_FRAME_MS <= value <= MAX_CHUNK_MS):
            raise ValueError(
                f"--chunk-ms {part!r}: give {FULL} or multiples of {ENCODER_FRAME_MS} "
                f"in [{ENCODER_FRAME_MS}, {MAX_CHUNK_MS}]"
            )
        if value not in chunks:
            chunks.append(value)
    return chunks


def parse_searches(option: str | None, with_lm: bool) -> list[str]:
    """ "greedy,beam+lm" -> ["greedy", "beam+lm"]; None: the default searches. Raises ValueError for an unknown one."""
    if option is None:
        return ["greedy", "beam", "beam+lm", "rescore+lm"] if with_lm else list(SEARCHES)
    searches = list(dict.fromkeys(part.strip() for part in option.split(",")))
    known = (*SEARCHES, *DECODER_SEARCHES, "beam+lm", "rescore+lm")
    for search in searches:
        if search not in known:
            raise ValueError(f"--search {search!r} is not known: choose from {', '.join(known)}")
        if search.endswith("+lm") and not with_lm:
            raise ValueError(f"--search {search} needs a language model: add --lm")
    if with_lm and not any(search.endswith("+lm") for search in searches):
        raise ValueError(f"--search {option} uses no language model: add beam+lm, or leave out --lm")
    return searches


def refuse_unused(searches: Sequence[str], beam_size: int | None, ctc_weight: float | None) -> None:
    """Raises ValueError for a setting that none of the searches uses."""
    rescored = {"rescore", "rescore+lm", "joint"}
    for option, value, is_used, way_out in (
        ("--beam-size", beam_size, set(searches) != {"greedy"}, "beam"),
        ("--rescore-ctc-weight", ctc_weight, rescored & set(searches), "rescore or joint"),
    ):
        if value is not None and not is_used:
            raise ValueError(
                f"{option} {value:g} has no effect on --search {','.join(searches)}: add {way_out} to --search, or "
                f"leave out {option}"
            )


def table(results: Sequence[Result]) -> Table:
    """The report as a table: one row per data set, latency and search."""
    out = Table(title="word error rate", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("data", "chunk ms", "search"):
        out.add_column(column, overflow="fold")
    for column in ("WER %", "ins", "del", "sub", "words", "RTF"):
        out.add_column(column, justify="right")
    for r in results:
        e = r.errors
        counts = (e.insertions, e.deletions, e.substitutions, e.num_words)
        out.add_row(r.data, r.chunk, r.search, f"{100 * e.rate:.2f}", *map(str, counts), f"{r.real_time_factor:.4f}")
    return out


def write_hypotheses(results: Sequence[Result], path: Path) -> None:
    """A TSV of references and hypotheses."""
    columns = ("data", "chunk_ms", "search", "id", "reference", "hypothesis")
    write_tsv(path, columns, ((r.data, r.chunk, r.search, *row) for r in results for row in r.hypotheses))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", help="an .onnx or .safetensors file, a checkpoint, the folder of a training run, or bundled"
    )
    parser.add_argument("--data", nargs="+", required=True, metavar="DATA", help="written by `asr prepare`")
    parser.add_argument(
        "--chunk-ms",
        default="full,1280,640,320,160",
        metavar="MS,...",
        help="chunk sizes; full is the whole utterance in one chunk",
    )
    add_option(parser, "--left-context-ms", 2560, "MS", "audio before the chunk that the encoder sees")
    parser.add_argument(
        "--search",
        metavar="NAME,...",
        help="greedy, beam, rescore, beam+lm, rescore+lm; slow, with the decoder and without language model: "
        "attention, joint (with CTC); default: greedy,beam,rescore; with --lm greedy,beam,beam+lm,rescore+lm",
    )
    parser.add_argument("--lm", metavar="FILE", help="language model from `asr lm`, or bundled")
    for name in asdict(LmWeights()):
        parser.add_argument(flag(f"lm_{name}"), type=float, metavar="X", help="default: the model's own")
    parser.add_argument(
        "--beam-size",
        type=int,
        metavar="N",
        help=f"hypotheses in the beam (attention and joint: {JOINT_BEAM_SIZE}; others: {BEAM_SIZE})",
    )
    parser.add_argument(
        "--rescore-ctc-weight",
        type=float,
        metavar="W",
        help=f"weight of CTC relative to the decoder; default: the model's own, {JOINT_CTC_WEIGHT:g} for joint search",
    )
    parser.add_argument(
        "--num-utterances",
        type=int,
        metavar="N",
        help="number of utterances to evaluate, evenly spread over each data set (default: all)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="plot word error rate against latency")
    parser.add_argument("--json", type=Path, metavar="OUT.json", help="write the numbers of the table and its settings")
    parser.add_argument("--hypotheses", type=Path, metavar="OUT.tsv", help="write every reference and its hypothesis")


def run(args: argparse.Namespace) -> int:
    """Entry of `asr evaluate`."""
    chunks, searches = parse_chunks(args.chunk_ms), parse_searches(args.search, args.lm is not None)
    refuse_unused(searches, args.beam_size, args.rescore_ctc_weight)
    weights_given = {name: value for name in asdict(LmWeights()) if (value := getattr(args, f"lm_{name}")) is not None}
    if weights_given and args.lm is None:
        names = [flag(f"lm_{name}") for name in weights_given]
        raise ValueError(f"{' and '.join(names)} {'are' if names[1:] else 'is'} for a language model: add --lm")
    if args.left_context_ms < 0 or args.left_context_ms % ENCODER_FRAME_MS:
        raise ValueError(
            f"--left-context-ms {args.left_context_ms} must be a multiple of {ENCODER_FRAME_MS}, at least 0"
        )
    if args.num_utterances is not None and args.num_utterances < 1:
        raise ValueError(f"--num-utterances {args.num_utterances} must be at least 1")
    for path in (args.plot, args.json, args.hypotheses):
        if path is not None:
            require_folder(path)  # fail before the work, not after it
    from asr.evaluation.engine import open_engine

    names = distinct_names(args.data, "--data")
    data = [(name, _select(path, args.num_utterances)) for name, path in zip(names, args.data, strict=True)]
    engine = open_engine(args.model, args.device)
    if engine.phones and args.lm is None:
        print("asr evaluate: without --lm words are spelled; --lm bundled finds them by their phones", file=sys.stderr)
    if set(searches) & set(DECODER_SEARCHES):
        engine.step_decoder()  # fail now rather than later
    fusion = weights = None
    if args.lm is not None:
        weights = replace(LmWeights(*engine.lm_weights), **weights_given)
        fusion = weights.fusion(load_lm(args.lm), engine.tokens, phones=engine.phones)
        if fusion.over_phones and "rescore+lm" in searches:
            if args.search:
                raise ValueError(
                    f"--search rescore+lm: {args.model} and --lm {args.lm} search over phones, without rescoring; "
                    "use beam+lm"
                )
            searches.remove("rescore+lm")
            refuse_unused(searches, args.beam_size, args.rescore_ctc_weight)

    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for name, speech in data:
            task = progress.add_task(name, total=len(speech) * len(chunks))
            results += evaluate(
                engine,
                speech,
                name,
                chunks,
                args.left_context_ms,
                searches,
                args.beam_size,
                args.rescore_ctc_weight,
                fusion,
                partial(progress.advance, task),
            )
    Console().print(table(results))
    if args.json:
        report = {
            "model": str(args.model),
            "left_context_ms": args.left_context_ms,
            "beam_size": args.beam_size,
            "rescore_ctc_weight": args.rescore_ctc_weight,
            "lm": args.lm,
            "lm_weights": None if weights is None else asdict(weights),
            "num_utterances": args.num_utterances,
            "results": [result.to_dict() for result in results],
        }
        with replacing(args.json) as part:
            part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.hypotheses:
        write_hypotheses(results, args.hypotheses)
    if args.plot:
        curves: dict[str, list[tuple[int | None, float]]] = {}
        for r in results:
            name = f"{r.data}, {r.search}" if len(data) > 1 else r.search
            curves.setdefault(name, []).append((r.chunk_ms, r.errors.rate))
        plot_wer(curves, args.plot, " + ".join(names))
    return 0


def _select(name: str, num_utterances: int | None) -> list[Clip]:
    speech = Speech.load(name)
    if not len(speech):
        raise ValueError(f"{name} holds no utterance")
    return evenly_spread(speech, num_utterances)
