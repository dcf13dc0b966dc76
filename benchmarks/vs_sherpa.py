"""Compares asr-stream with sherpa-onnx: the same weights, chunk and search, one thread each.

    asr export bundled --target sherpa-onnx [--lm bundled] -o sherpa [--int8]
    python benchmarks/vs_sherpa.py sherpa [--int8] [--chunk-ms 640] [--plot cpu.png]
    python benchmarks/vs_sherpa.py sherpa [--int8] [--chunk-ms 640] --data data/dev --num-utterances 100

Each runs in its own process, in blocks of 20 ms like a microphone's, with endpoints after 0.8 s of silence; rounds
alternate, so that a busy machine affects all, and the best round counts. The search is greedy. If the folder has a
decoding graph, sherpa-onnx uses it, and asr-stream its first pass with the language model, whose n-grams are not pruned
as those of the graph. Latency is the time for a block that completes a chunk. With --data the texts of real
utterances are compared instead: each gets the utterance and as much silence as sherpa-onnx needs to decode its end.

--plot draws the CPU time of a second of audio by part, also that of asr-stream with its defaults: language models and
second pass.

It needs: pip install sherpa-onnx
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from memory import peak_mb

BLOCK = 320  # samples
LEFT_CONTEXT_MS = 2560
RUNNERS = ("asr-stream", "zipformer2_ctc")
ENDPOINT_RULES = ("silence_after_speech_s", "min_silence_after_speech_s", "silence_without_speech_s", "max_utterance_s")
THEIR_GRAPH = "zipformer2_ctc graph in our ONNX Runtime"
REST = "features, search and the rest"
Feed = Callable[[np.ndarray], "tuple[bool, str]"]
"""Takes samples; returns whether they completed a chunk, and the text of this utterance so far."""


def model_file(args: argparse.Namespace) -> str:
    """The model file of asr-stream; by default the bundled one of the requested precision."""
    from asr.runtime.onnx_model import bundled_model

    return args.model or str(bundled_model("int8" if args.int8 else "float32"))


def our_streams(args: argparse.Namespace, endpoints: bool) -> Callable[[], tuple[Feed, Callable[[], str]]]:
    """Returns a function that makes streams. A stream takes samples and returns its whole text at the end."""
    from asr import Recognizer
    from asr.streaming import Final, Partial

    limits = dict.fromkeys(ENDPOINT_RULES[:2], 0.8) if endpoints else dict.fromkeys(ENDPOINT_RULES, 120.0)
    settings: dict[str, Any] = {"second_pass": False, "neural_lm": None, "text": "plain", "punctuation": None}
    settings |= {"lm": args.lm} if graph_file(args).exists() else {"search": "greedy", "lm": None}
    recognizer = Recognizer(model_file(args), chunk_ms=args.chunk_ms, **settings, **limits)
    run = recognizer.onnx.encoder.run
    num_steps = 0

    def counted(*arguments: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        return run(*arguments)

    recognizer.onnx.encoder.run = counted  # type: ignore[method-assign]

    def make() -> tuple[Feed, Callable[[], str]]:
        stream = recognizer.stream()
        text = [""]

        def feed(samples: np.ndarray) -> tuple[bool, str]:
            before = num_steps
            stream.accept_waveform(samples)
            for event in stream.events():
                if isinstance(event, (Final, Partial)):
                    text[0] = event.raw if isinstance(event, Partial) else ""
            return num_steps > before, text[0]

        def finish() -> str:
            if recognizer.lm is None:
                return text[0]  # of whole chunks, because sherpa-onnx does not decode an incomplete one
            stream.finish()  # completes the last word
            return " ".join(event.raw for event in stream.events() if isinstance(event, Final))

        return feed, finish

    return make


def their_file(args: argparse.Namespace) -> Path:
    return args.folder / f"zipformer2_ctc.{args.chunk_ms}ms{'.int8' * args.int8}.onnx"


def graph_file(args: argparse.Namespace) -> Path:
    return args.folder / "HLG.fst"


def theirs(args: argparse.Namespace, endpoints: bool = False) -> Any:
    """The recognizer of sherpa-onnx."""
    import sherpa_onnx

    graph = graph_file(args)
    return sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
        str(args.folder / "tokens.txt"),
        str(their_file(args)),
        ctc_graph=str(graph) if graph.exists() else "",
        num_threads=1,
        enable_endpoint_detection=endpoints,
        rule1_min_trailing_silence=5.0,
        rule2_min_trailing_silence=0.8,
    )


def their_streams(args: argparse.Namespace, endpoints: bool) -> Callable[[], tuple[Feed, Callable[[], str]]]:
    """The same as `our_streams` for sherpa-onnx."""
    recognizer = theirs(args, endpoints)
    words: dict[str, str] = {}
    if graph_file(args).exists():
        lines = (args.folder / "words.txt").read_text(encoding="utf-8").splitlines()
        words = dict(line.split()[::-1] for line in lines)  # by number

    def make() -> tuple[Feed, Callable[[], str]]:
        stream = recognizer.create_stream()

        def feed(samples: np.ndarray) -> tuple[bool, str]:
            stream.accept_waveform(16000, samples)
            ready = False
            while recognizer.is_ready(stream):
                recognizer.decode_stream(stream)
                ready = True
            text = recognizer.get_result(stream) if ready else ""
            if ready and endpoints and recognizer.is_endpoint(stream):
                recognizer.reset(stream)
            return ready, text

        def finish() -> str:
            stream.input_finished()
            while recognizer.is_ready(stream):
                recognizer.decode_stream(stream)
            if words:
                return " ".join(words[str(number)] for number in recognizer.get_result_all(stream).words)
            return " ".join(recognizer.get_result(stream).split())  # sherpa-onnx writes two spaces for two boundaries

        return feed, finish

    return make


def recording(args: argparse.Namespace) -> np.ndarray:
    """The audio that costs are measured with, 16 kHz: the file and a second of silence, repeated."""
    import soundfile

    from asr.streaming.terminal.cli import SAMPLE

    audio = np.concatenate([soundfile.read(args.file or SAMPLE, dtype="float32")[0], np.zeros(16000, np.float32)])
    return np.resize(audio, int(args.seconds * 16000))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """CPU time, latency and memory of one of the two, in this process."""
    audio = recording(args)
    make = (our_streams if args.run == RUNNERS[0] else their_streams)(args, endpoints=True)
    feed, _ = make()
    for begin in range(0, 10 * 16000, BLOCK):  # excludes the allocations of the first steps
        feed(audio[begin % len(audio) :][:BLOCK])
    feed, _ = make()
    latencies = []
    started = time.process_time()
    for begin in range(0, len(audio), BLOCK):
        before = time.perf_counter()
        ready, _ = feed(audio[begin : begin + BLOCK])
        if ready:
            latencies.append(1000 * (time.perf_counter() - before))
    cpu_s = time.process_time() - started
    p50, p95 = np.percentile(latencies, [50, 95])
    return {"cpu_ms": 1000 * cpu_s / len(latencies), "p50_ms": p50, "p95_ms": p95, "memory_mb": peak_mb()}


def parts(args: argparse.Namespace) -> dict[str, float]:
    """CPU milliseconds per chunk: the parts of asr-stream; and sherpa-onnx's features and graph in our runtime."""
    import onnxruntime

    from asr._core import CtcGreedySearch, Fbank
    from asr.runtime.onnx_model import OnnxModel

    model = OnnxModel(model_file(args))
    chunk_size = args.chunk_ms // 40
    features = np.full((1, 4 * chunk_size + 3, 80), -9.0, np.float32)
    num_valid = np.full(1, features.shape[1], np.int64)
    state = model.init_cache(1, LEFT_CONTEXT_MS // 40)
    fbank, search = Fbank(), CtcGreedySearch()
    blocks = np.random.default_rng(0).normal(0, 0.1, (chunk_size * 2, BLOCK)).astype(np.float32)

    def compute_features() -> None:
        first = fbank.num_frames_ready
        for block in blocks:
            fbank.accept_waveform(block)
        fbank.get_frames(first, fbank.num_frames_ready - first)
        fbank.discard_frames(fbank.num_frames_ready)

    stream = theirs(args).create_stream()

    def compute_their_features() -> None:
        for block in blocks:
            stream.accept_waveform(16000, block)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(their_file(args)), options, providers=["CPUExecutionProvider"])
    feeds = {
        i.name: np.zeros([1 if d == "N" else d for d in i.shape], np.int64 if "int64" in i.type else np.float32)
        for i in session.get_inputs()
    }
    log_probs = model.step(features, num_valid, state)[0][0]

    def advance() -> None:
        for frame in range(chunk_size):
            search.advance(log_probs[frame : frame + 1])
        search.reset()

    work: dict[str, Callable[[], object]] = {
        "model": lambda: model.step(features, num_valid, state),
        "features": compute_features,
        "search": advance,
        "their features": compute_their_features,
        THEIR_GRAPH: lambda: session.run(None, feeds),
    }
    best = dict.fromkeys(work, np.inf)
    for _ in range(args.rounds * 5):
        for name, function in work.items():
            started = time.process_time()
            for _ in range(20):
                function()
            best[name] = min(best[name], 1000 * (time.process_time() - started) / 20)
    return best


def default_parts(args: argparse.Namespace) -> dict[str, float]:
    """CPU milliseconds per second of audio of each part of asr-stream with its defaults."""
    from asr import Recognizer
    from asr.streaming.stream import Stream
    from asr.streaming.work import compute

    lm = "auto" if args.model else args.lm
    stream = Stream(Recognizer(model_file(args), chunk_ms=args.chunk_ms, lm=lm), deferred=True)
    names = {"neural_lm": "neural language model"}
    audio = recording(args)
    spent: Counter[str] = Counter()
    started = time.process_time()
    for begin in range(0, len(audio), BLOCK):
        stream.accept_waveform(audio[begin : begin + BLOCK])
        while (work := stream.pending()) is not None:
            use, name = work.work.state, work.work.network
            part = "encoder, second pass" if use and use.slot and name == "encoder" else names.get(name, name)
            before = time.process_time()
            compute([work])
            spent[part] += time.process_time() - before
        for _ in stream.events():
            pass
    spent[REST] = time.process_time() - started - sum(spent.values())
    return {part: 1000 * seconds / args.seconds for part, seconds in spent.items()}


def plot(bars: dict[str, dict[str, float]], path: Path, title: str) -> None:
    """Writes a PNG with a horizontal bar for each of `bars`: milliseconds by part."""
    from asr.evaluation.plots import new_axes

    figure, axes = new_axes(8, 3)
    ends = dict.fromkeys(bars, 0.0)
    for part in sorted({part for bar in bars.values() for part in bar}, key=lambda part: (part == REST, part)):
        shown = [name for name in bars if part in bars[name]]
        axes.barh(shown, [bars[name][part] for name in shown], 0.6, [ends[name] for name in shown], label=part)
        for name in shown:
            ends[name] += bars[name][part]
    for name, end in ends.items():
        axes.text(end, name, f" {end:.1f}", va="center")
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("ms of CPU time per second of audio")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, format="png")


def texts(args: argparse.Namespace) -> list[str]:
    """Texts of the utterances in `args.audio`."""
    make = (our_streams if args.run == RUNNERS[0] else their_streams)(args, endpoints=False)
    found = []
    with np.load(args.audio) as utterances:
        for audio in utterances.values():
            feed, finish = make()
            for begin in range(0, len(audio), BLOCK):
                feed(audio[begin : begin + BLOCK])
            found.append(finish())
    return found


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {"parts": parts, "default_parts": default_parts}


def padded(samples: np.ndarray, chunk_ms: int) -> np.ndarray:
    """Adds silence until sherpa-onnx decodes the end: it needs one feature frame more than a chunk."""
    from asr.features import num_frames

    shift = chunk_ms // 10
    num_chunks = -(-(num_frames(len(samples)) + 10 - 4) // shift)
    return np.pad(samples, (0, (num_chunks * shift + 4) * 160 - len(samples)))


def in_process(name: str, *more: str) -> Any:
    command = [sys.executable, __file__, *sys.argv[1:], "--run", name, *more]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="written by `asr export --target sherpa-onnx`")
    parser.add_argument("--model", help="the native file of the same weights; default: the bundled one")
    parser.add_argument("--lm", default="bundled", help="that of the folder's decoding graph, if it has one (bundled)")
    parser.add_argument("--int8", action="store_true", help="compare the int8 files")
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--file", help="default: the bundled recording")
    parser.add_argument("--seconds", type=float, default=60.0, help="of audio; the file is repeated (default 60)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="a picture of the CPU time by part")
    parser.add_argument("--data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--num-utterances", type=int, metavar="N", help="evenly spread; default: all")
    parser.add_argument("--audio", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=(*RUNNERS, *PARTS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run = PARTS.get(args.run, texts if args.audio else measure)
        print(json.dumps(run(args)))
        return
    for file in (args.folder / "tokens.txt", their_file(args)):
        if not file.exists():
            options = f"-o {args.folder} --chunk-ms {args.chunk_ms}" + " --int8" * args.int8
            parser.error(f"{file} is not there: asr export bundled --target sherpa-onnx {options}")
    if args.data:
        compare_texts(args)
    else:
        compare_cost(args)


def compare_cost(args: argparse.Namespace) -> None:
    rounds = [{name: in_process(name) for name in RUNNERS} for _ in range(args.rounds)]
    best = {name: {key: min(r[name][key] for r in rounds) for key in rounds[0][name]} for name in RUNNERS}
    for name, row in best.items():
        ratio = best[RUNNERS[0]]["cpu_ms"] / row["cpu_ms"]
        print(
            f"{name:15} CPU {row['cpu_ms']:.2f} ms a chunk   latency p50 {row['p50_ms']:.2f} ms, "
            f"p95 {row['p95_ms']:.2f} ms   memory {row['memory_mb']:.0f} MB   ratio of ours {ratio:.2f}"
        )
    costs = in_process("parts")
    print("parts: " + ", ".join(f"{name} {value:.2f} ms" for name, value in costs.items()))
    if args.plot:
        graphs = {RUNNERS[0]: costs["model"], RUNNERS[1]: costs[THEIR_GRAPH]}
        shown = {RUNNERS[0]: "asr-stream, greedy", RUNNERS[1]: "sherpa-onnx, greedy,\nthe same weights"}
        chunks_per_s = 1000 / args.chunk_ms
        bars = {
            shown[name]: {"encoder": graph * chunks_per_s, REST: (best[name]["cpu_ms"] - graph) * chunks_per_s}
            for name, graph in graphs.items()
        }
        runs = [in_process("default_parts") for _ in range(args.rounds)]
        bars["asr-stream, default"] = min(runs, key=lambda run: sum(run.values()))
        title = f"{'int8' if args.int8 else 'float32'}, chunks of {args.chunk_ms} ms, one thread"
        plot(bars, args.plot, title)


def compare_texts(args: argparse.Namespace) -> None:
    from asr.data.speech import Speech, evenly_spread
    from asr.evaluation.wer import count_errors

    clips = evenly_spread(Speech.load(args.data), args.num_utterances)
    references = [clip.text for clip in clips]
    with tempfile.TemporaryDirectory() as folder:
        audio = Path(folder) / "audio.npz"
        np.savez(audio, *(padded(clip.waveform(), args.chunk_ms) for clip in clips))
        expected, *others = (in_process(name, "--audio", str(audio)) for name in RUNNERS)
    print(f"{RUNNERS[0]}: word error rate {count_errors(references, expected).rate:.2%}")
    for name, found in zip(RUNNERS[1:], others, strict=True):
        differing = [(a, b) for a, b in zip(expected, found, strict=True) if a != b]
        rate = count_errors(references, found).rate
        print(f"{name}: word error rate {rate:.2%}, {len(found) - len(differing)} of {len(found)} texts equal ours")
        for a, b in differing:
            print(f"  ours   {a}\n  theirs {b}")


if __name__ == "__main__":
    main()
