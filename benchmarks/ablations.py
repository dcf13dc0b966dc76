"""Ablations in one table, all with the same budget: python benchmarks/ablations.py --train T --valid V

Trains a baseline (a recipe, for a small number of steps) and variants of it, each with one or two settings changed:
same data, same updates, same seed. `asr train` trains each, `asr evaluate` measures it, and the results are saved: the
same command continues after an interruption, even within a training. A table (ablations.md), a plot (ablations.png) and
the numbers (results.json) are written after each variant.

A step takes two batches, on one process or two. Its duration is the median between points of the training curve.
On a CPU, several single-threaded trainings at a time (--jobs) are faster than one with several processes.
The variant seed-2 changes only the seed: differences smaller than its are not significant.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from asr.config import Config, ConfigError
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import count_errors
from asr.files import replacing
from asr.model.model import AsrModel, with_vocab
from asr.recipe import load_config
from asr.training.checkpoint import Checkpoint, checkpoint_path, load_pretrained
from asr.training.pretrained import Pretrained

BASELINE = "baseline"
CHUNKS = {"full": "full", "640": "640 ms", "320": "320 ms", "160": "160 ms"}
"""Chunks to score with greedy search, and their headings. At 640 ms, rescoring by the decoder is also scored, because
it shows the effect of label smoothing and similar settings. Errors are in characters: after a small budget, hardly any
word is right, but character errors show differences."""
DEFAULT_STEPS = 1200
"""About 10 minutes of the recipe tiny on two CPU cores, at 0.5 s a step."""

EXAMPLES = """examples:
  python benchmarks/ablations.py --list
  python benchmarks/ablations.py --train data/train.jsonl.gz --valid data/dev.jsonl.gz --processes 2
  python benchmarks/ablations.py --train data/train.jsonl.gz --valid data/dev.jsonl.gz --only norm-post position-none
  cheap, from trained weights; variants that these do not fit are left out:
  python benchmarks/ablations.py --train data/train.jsonl.gz --valid data/dev.jsonl.gz --init bundled --steps 400 \\
      --set optim.lr=2e-4 optim.warmup_steps=50 data.curriculum_epochs=0 --out runs/ablations-init
"""


class AblationError(Exception):
    """A training or an evaluation failed. Its own message has been printed."""


def all_variants(base: Config) -> dict[str, tuple[str, ...]]:
    """Name and overrides of every variant, including those that equal `base`."""

    def choices(name: str, key: str, *values: str) -> dict[str, tuple[str, ...]]:
        return {f"{name}-{value}": (f"{key}={value}",) for value in values}

    return {
        **choices("seed", "train.seed", str(base.train.seed + 1)),
        **choices("position", "model.position", "rope", "relative", "sinusoidal", "learned", "none"),
        **choices("norm", "model.norm", "pre", "post"),
        **choices("activation", "model.activation", "relu", "gelu", "swiglu"),
        "condition-none": ("model.condition_layers=[]",),
        "condition-middle": (f"model.condition_layers=[{base.model.encoder_layers // 2}]",),
        "chunk-fixed-640": ("chunk.full_probability=0", "chunk.sizes=[16]"),
        "chunk-none": ("chunk.full_probability=1",),
        **choices("label-smoothing", "loss.label_smoothing", "0", "0.1"),
        **choices("scheduled-sampling", "loss.scheduled_sampling", "0", "0.2"),
        "units-char": ("tokenizer.kind=char",),
        **{f"units-bpe-{n}": ("tokenizer.kind=bpe", f"tokenizer.vocab_size={n}") for n in (128, 256, 512)},
        "units-wordpiece-256": ("tokenizer.kind=wordpiece", "tokenizer.vocab_size=256"),
        "cr-ctc-off": ("loss.cr_ctc_weight=0",),
        "cr-ctc": ("loss.cr_ctc_weight=0.2",),
        # Two views cost twice the computation, so half the audio makes the cost equal.
        "cr-ctc-half-batch": ("loss.cr_ctc_weight=0.2", f"data.max_batch_s={base.data.max_batch_s / 2:g}"),
        **choices("ctc-weight", "loss.ctc_weight", "0.3", "0.5", "0.7", "1"),
        **choices("intermediate-ctc", "loss.intermediate_ctc_weight", "0", "0.3"),
    }


def choose_variants(recipe: str, common: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The variants that differ from the baseline (`recipe` with the overrides `common`), by name; and those that cannot
    be run on it, with the reason.

    Raises ValueError if the baseline itself cannot be run.
    """
    base = load_config(recipe, common)
    pretrained = load_pretrained(base.train.init) if base.train.init else None
    if reason := _misfit(base, base, pretrained):
        raise ValueError(f"the baseline cannot start from the weights of {base.train.init}: {reason}")
    chosen: dict[str, tuple[str, ...]] = {}
    left_out: dict[str, str] = {}
    for name, overrides in all_variants(base).items():
        try:
            config = load_config(recipe, [*common, *overrides])
            reason = _misfit(config, base, pretrained)
        except ConfigError as error:
            reason = str(error)
        if reason:
            left_out[name] = reason
        elif config != base:
            chosen[name] = overrides
    return chosen, left_out


def _misfit(config: Config, base: Config, pretrained: Pretrained | None) -> str | None:
    """Why a training of `config` cannot start from `pretrained`."""
    if pretrained is None:
        return None
    if config.tokenizer != base.tokenizer:  # `asr train` refuses it
        return "other text units than those of the weights"
    with torch.device("meta"):
        model = AsrModel(with_vocab(config.model, pretrained.tokenizer.vocab_size))
    ours, theirs = (
        {name: tensor.shape for name, tensor in tensors.items() if not name.startswith("phone_ctc.")}
        for tensors in (model.state_dict(), pretrained.weights)
    )  # a phone head may start untrained
    return "other parameters than the weights hold" if ours != theirs else None


class Commands:
    """Runs `asr` in separate processes, several at a time, until `stop` or `kill`."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, *arguments: str, processes: int = 1) -> None:
        """Runs a command. Raises AblationError if it fails, or if no command may start anymore."""
        torchrun = ["torch.distributed.run", f"--nproc_per_node={processes}", "--standalone", "-m"]
        command = [sys.executable, "-m", *(torchrun if processes > 1 else []), "asr.cli", *arguments]
        with self._lock:
            if self._stopped:
                raise AblationError("interrupted")
            # In its own session, so that only this process gets Ctrl-C and can let a training finish its step.
            process = subprocess.Popen(command, start_new_session=True)
            self._running.append(process)
        status = process.wait()
        with self._lock:
            self._running.remove(process)
        if status:
            raise AblationError(f"asr {arguments[0]} ended with status {status}")

    def stop(self) -> None:
        """Interrupts all processes. A training finishes its step and saves a checkpoint."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()

    def kill(self) -> None:
        """Kills all processes."""
        with self._lock:
            for process in self._running:
                os.killpg(process.pid, signal.SIGKILL)


def train(commands: Commands, recipe: str, overrides: Sequence[str], run: Path, processes: int) -> Checkpoint:
    """Runs `asr train` to its last step, resuming if it was interrupted; returns the last checkpoint."""
    commands.run("train", recipe, *overrides, f"train.output={run}", "--resume", processes=processes)
    last = checkpoint_path(run, load_config(recipe, overrides).train.max_steps)
    if not last.is_file():
        raise AblationError(f"training ended before {last}")
    return Checkpoint.load(last)


def measure(commands: Commands, checkpoint: Checkpoint, run: Path, options: Sequence[str]) -> dict[str, Any]:
    """Size, speed and error rates (0.1 is 10 %) of a trained model. options: of `asr evaluate`."""

    def recognized(search: str, *chunks: str) -> dict[str, list[list[str]]]:
        path = run / f"{search}.tsv"
        chosen = ["--chunk-ms", ",".join(chunks), "--search", search, "--hypotheses", str(path)]
        commands.run("evaluate", str(run), *options, *chosen)
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        return {chunk: [row[4:] for row in rows if row[1] == chunk] for chunk in chunks}

    texts = recognized("greedy", *CHUNKS)
    has_decoder = checkpoint.config.loss.ctc_weight < 1  # otherwise it is untrained
    return {
        "parameters": sum(p.numel() for p in checkpoint.pretrained().model().parameters()),
        "seconds_per_step": seconds_per_step(run),
        "cer": {chunk: character_error_rate(pairs) for chunk, pairs in texts.items()},
        "rescored_640": character_error_rate(recognized("rescore", "640")["640"]) if has_decoder else None,
        "wer_640": count_errors(*zip(*texts["640"], strict=True)).rate,
    }


def character_error_rate(texts: Sequence[Sequence[str]]) -> float:
    """Character error rate of pairs of a reference and a hypothesis; a space is a character, too."""
    spelled = [[" ".join(text.replace(" ", "_")) for text in pair] for pair in texts]
    return count_errors(*zip(*spelled, strict=True)).rate


def seconds_per_step(run: Path) -> float | None:
    """Median over the points of the training curve, so that interruptions do not matter; None for fewer than two."""
    curves = EventAccumulator(str(run / "tensorboard")).Reload()
    points = curves.Scalars("train/lr") if "train/lr" in curves.Tags()["scalars"] else []
    times = [(b.wall_time - a.wall_time) / (b.step - a.step) for a, b in pairwise(points) if b.step > a.step]
    return statistics.median(times) if times else None


class Results:
    """The results for one budget, in a file, keyed by variant."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Loads the results of an earlier run from `path`. Raises ValueError if its settings differ."""
        self._path = path
        self.settings = dict(settings)
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"settings": self.settings}
        for key, value in self.settings.items():
            if (former := found["settings"].get(key)) != value:
                raise ValueError(
                    f"{path} holds results of another budget ({key} was {former!r}, is {value!r}): choose another --out"
                )
        self.by_name: dict[str, dict[str, Any]] = found.get("results", {})
        self._write()

    def add(self, name: str, overrides: Sequence[str], measured: Mapping[str, Any]) -> None:
        self.by_name[name] = {"overrides": list(overrides), **measured}
        self._write()

    def _write(self) -> None:
        with replacing(self._path) as part:
            part.write_text(json.dumps({"settings": self.settings, "results": self.by_name}, indent=1) + "\n")


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: the baseline, then the others in the order of `results`, with their differences in parentheses."""
    base = results[BASELINE]
    heads = [*CHUNKS.values(), "rescored, 640 ms", "words, 640 ms"]
    lines = [
        "Character errors in %, greedy unless stated; in brackets the difference to the baseline.\n",
        "| variant | settings | parameters | s/step | " + " | ".join(heads) + " |",
        "|---|---|" + "---:|" * (2 + len(heads)),
    ]
    for name, result in results.items():
        rates = zip(_rates(result), _rates(base), strict=True)
        cells = [_cell(rate, None if result is base else reference) for rate, reference in rates]
        settings = "; ".join(f"`{override}`" for override in result["overrides"])
        speed = result["seconds_per_step"]
        size = f"{result['parameters'] / 1e6:.2f} M"
        row = [name, settings, size, "" if speed is None else f"{speed:.2f}", *cells]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _rates(result: Mapping[str, Any]) -> list[float | None]:
    return [*(result["cer"][chunk] for chunk in CHUNKS), result["rescored_640"], result["wer_640"]]


def _cell(rate: float | None, reference: float | None) -> str:
    if rate is None:
        return ""
    return f"{100 * rate:.1f}" + ("" if reference is None else f" ({100 * (rate - reference):+.1f})")


def plot(results: Mapping[str, Mapping[str, Any]], path: Path, title: str) -> None:
    """Writes a PNG: a row of dots per variant, one per chunk size; vertical lines for the baseline."""
    figure, axes = new_axes(7, 1.5 + 0.25 * len(results))
    for number, (chunk, heading) in enumerate(CHUNKS.items()):
        color = f"C{number}"
        axes.axvline(100 * results[BASELINE]["cer"][chunk], color=color, alpha=0.4)
        rates = [100 * result["cer"][chunk] for result in results.values()]
        axes.plot(rates, range(len(results)), "o", color=color, label=heading)
    axes.set_yticks(range(len(results)), list(results))
    axes.invert_yaxis()
    axes.set_xlabel("character error rate in %, greedy")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, format="png")


def write_report(results: Results, names: Sequence[str], folder: Path) -> None:
    """Writes the table and the plot of the available results, in the order of `names`."""
    found = {name: results.by_name[name] for name in names if name in results.by_name}
    settings = results.settings
    title = f"{Path(settings['recipe']).stem}, {settings['steps']} steps"
    about = f"{title}; " + ", ".join(f"`{override}`" for override in settings["overrides"])
    (folder / "ablations.md").write_text(f"{about}. {table(found)}", encoding="utf-8")
    plot(found, folder / "ablations.png", title)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", nargs="+", default=[], metavar="DATA", help="to train on, as data.train")
    parser.add_argument("--valid", metavar="DATA", help="to measure on")
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"), help="folder (default: %(default)s)")
    parser.add_argument("--recipe", default="tiny", help="the baseline's (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help="of each training (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time (default: 1)")
    parser.add_argument("--num-utterances", type=int, metavar="N", help="of --valid, evenly spread (default: all)")
    parser.add_argument("--processes", type=int, default=1, help="of a training, by torchrun (default: 1)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--init", metavar="WEIGHTS", help="as train.init: fine-tune these, e.g. bundled")
    parser.add_argument("--set", nargs="+", default=[], metavar="key=value", help="for the baseline and all variants")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these variants, and the baseline")
    parser.add_argument("--list", action="store_true", help="list the variants and exit")
    args = parser.parse_args(argv)
    if not args.list and not (args.train and args.valid):
        parser.error("--train and --valid are needed: data sets written by `asr prepare`")
    for name in ("processes", "jobs"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} {getattr(args, name)} must be at least 1")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    try:
        return run_all(args)
    except (ValueError, OSError, AblationError) as error:
        print(f"ablations: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ablations: interrupted; the same command goes on", file=sys.stderr)
        return 130


def run_all(args: argparse.Namespace) -> int:
    """Trains and measures missing variants. Raises AblationError at the end if one failed."""
    init = [f"train.init={args.init}"] if args.init else []
    common = [f"train.max_steps={args.steps}", "train.batches_per_step=2", *init, *args.set]
    variants, left_out = choose_variants(args.recipe, common)
    unknown = [name for name in args.only or () if name not in variants]
    if unknown:
        reasons = [f"{name} ({left_out[name]})" if name in left_out else name for name in unknown]
        raise ValueError(f"--only {', '.join(reasons)}: there are {', '.join(variants)}")
    order = {BASELINE: (), **variants}
    if args.list:
        for name, overrides in order.items():
            print(f"{name:22} {' '.join(overrides or common)}")
        for name, reason in left_out.items():
            print(f"{name:22} left out: {reason}")
        return 0

    args.out.mkdir(parents=True, exist_ok=True)
    given = ("recipe", "steps", "train", "valid", "num_utterances", "processes", "device")
    results = Results(args.out / "results.json", {name: getattr(args, name) for name in given} | {"overrides": common})
    # No validation during training, so that the last weights are measured.
    common = [*common, f"data.train={json.dumps(args.train)}", "data.valid=[]", "train.keep_checkpoints=1"]
    common.append(f"train.device={args.device}")
    wanted = [BASELINE, *(name for name in variants if not args.only or name in args.only)]
    evaluation = ["--data", args.valid, "--device", args.device]
    evaluation += ["--num-utterances", str(args.num_utterances)] if args.num_utterances else []
    commands = Commands()

    def train_and_measure(number: int, name: str) -> dict[str, Any]:
        print(f"\n[{number}/{len(wanted)}] {name} {' '.join(order[name])}", flush=True)
        run = args.out / name
        checkpoint = train(commands, args.recipe, [*common, *order[name]], run, args.processes)
        return measure(commands, checkpoint, run, evaluation)

    failed = []
    with ThreadPoolExecutor(args.jobs) as pool:
        missing = [(number, name) for number, name in enumerate(wanted, 1) if name not in results.by_name]
        jobs = {pool.submit(train_and_measure, number, name): name for number, name in missing}
        try:
            for job in as_completed(jobs):
                name = jobs[job]
                try:
                    results.add(name, order[name], job.result())
                except AblationError as error:
                    print(f"ablations: {name}: {error}", file=sys.stderr)
                    failed.append(name)
                if BASELINE in results.by_name:  # no comparison without a baseline
                    write_report(results, list(order), args.out)
        except KeyboardInterrupt:
            commands.stop()
            try:
                pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:  # again
                commands.kill()
            raise
    if BASELINE in failed:
        raise AblationError("without a baseline there is nothing to compare with; the same command tries again")
    write_report(results, list(order), args.out)
    print((args.out / "ablations.md").read_text(encoding="utf-8"))
    if failed:
        raise AblationError(f"failed: {', '.join(failed)}; the same command tries them again")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
