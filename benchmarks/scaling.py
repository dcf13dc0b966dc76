"""How errors fall with parameters, data and training: python benchmarks/scaling.py DATA --valid DATA --points FILE

Trains encoders of 1 to 8 M parameters on 4 to 30 hours of speech, for 12 to 100 hours of audio in their batches, fits a
power law above a floor to their phone errors, and predicts the largest one, which the fit has not seen. `--rates`
trains three widths with five learning rates each. Every finished training is a row of FILE; the same command trains the
missing rows and continues an interrupted training. `--fit` only reads FILE. Fewer hours are fewer speakers, in a random
order.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ablations import AblationError, Commands, train
from command import plain_parser

from asr.data.cuts import load_cuts
from asr.evaluation.plots import new_axes
from asr.files import replacing
from asr.training.checkpoint import Checkpoint

BATCH_S = 60
SETTINGS = (
    *("model.decoder_layers=1", "model.decoder_ff_dim=192", "model.condition_layers=[]", "model.dropout=0"),
    *("model.running_mean=false", "loss.phone_weight=1", "data.lexicon=bundled", f"data.max_batch_s={BATCH_S}"),
    *("data.curriculum_epochs=1", "data.num_workers=0", "data.valid_utterances=282"),
    *("augment.max_frequency_warp=0.08", "optim.kind=muon", "optim.schedule=linear", "optim.ema_decay=0.99"),
    *("train.device=cpu", "train.keep_checkpoints=1", "train.save_every=100"),
)
"""Only phones, because the search with the language model uses only these."""
LAYERS = {96: 9, 128: 10, 176: 11, 224: 13}
"""The encoders by width: 1.1, 2.1, 4.2 and 8.0 M parameters."""
RATE = 6e-3
"""Learning rate at a width of 128. It scales with the inverse square root of the width: the optimizer's step has the
same root mean square in each matrix, so its spectral norm scales with the square root of the width (Yang et al. 2023,
"A spectral condition for feature learning"). The best rate of `--rates` decays faster, with exponents of -0.7 to -1."""
ALL_HOURS = 30
LEAST_ROWS = 6
NUM_DRAWS = 400
NUM_FLOORS = 50


@dataclass(frozen=True)
class Run:
    """A training: width and layers of the encoder, hours of speech, hours of audio in its batches, learning rate."""

    width: int
    layers: int
    hours: int
    seen_hours: float
    rate: float
    seed: int = 1

    @property
    def name(self) -> str:
        return "-".join(f"{key[0]}{value:g}" for key, value in asdict(self).items())

    def overrides(self, data: Path, valid: str) -> list[str]:
        steps = round(self.seen_hours * 3600 / BATCH_S)
        return [
            *SETTINGS,
            *(f"model.dim={self.width}", f"model.encoder_layers={self.layers}"),
            *(f"model.encoder_ff_dim={4 * self.width}", f"optim.lr={self.rate}", f"train.seed={self.seed}"),
            *(f"train.max_steps={steps}", f"train.valid_every={steps}", f"optim.warmup_steps={min(steps // 5, 200)}"),
            *(f"data.train={data}", f"data.valid={valid}"),
        ]


def law_runs() -> list[Run]:
    """The trainings for the law, cheapest first. The last one is predicted before it is trained."""
    points = [(w, ALL_HOURS, seen) for w in LAYERS for seen in (12.5, 25.0, 50.0)]
    points += [(96, ALL_HOURS, 100.0), (224, ALL_HOURS, 80.0)]
    points += [(w, hours, 50.0) for w, hours in ((128, 4), (128, 8), (128, 16), (224, 4), (224, 16))]
    runs = [Run(w, LAYERS[w], hours, seen, round(RATE * (128 / w) ** 0.5, 5)) for w, hours, seen in points]
    return sorted(runs, key=lambda run: run.width**2 * run.layers * run.seen_hours)


def rate_runs() -> list[Run]:
    """The trainings that compare learning rates at three widths and one depth."""
    return [Run(w, 6, ALL_HOURS, 12.0, rate) for rate in (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2) for w in (96, 144, 192)]


class Points:
    """The finished trainings, a file of rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []

    def find(self, run: Run) -> dict[str, Any] | None:
        return next((row for row in self.rows if asdict(run).items() <= row.items()), None)

    def add(self, run: Run, measured: Mapping[str, Any]) -> None:
        self.rows.append({**asdict(run), **measured})
        with replacing(self._path) as part:
            part.write_text("[\n" + ",\n".join(map(json.dumps, self.rows)) + "\n]\n", encoding="utf-8")


def subset(data: Path, hours: int) -> Path:
    """The manifest of the first speakers, in a random order, with `hours` in total. An utterance without a speaker
    counts as a speaker.

    It is written next to `data`, because a data set has its features in its own folder.
    """
    path = data.parent / f"{data.name.split('.')[0]}-{hours}h.jsonl"
    if hours == ALL_HOURS:
        return data
    if not path.is_file():
        cuts = list(load_cuts(data))
        speakers = [str(cut.supervisions[0].speaker) for cut in cuts]
        groups = [cut.id if name in ("unk", "None") else name for cut, name in zip(cuts, speakers, strict=True)]
        order = sorted(set(groups))
        random.Random(1).shuffle(order)
        place = {name: number for number, name in enumerate(order)}
        ranked = sorted(zip((place[group] for group in groups), cuts, strict=True), key=lambda pair: pair[0])
        ends = np.cumsum([cut.duration for _, cut in ranked])
        chosen = [cut for (_, cut), end in zip(ranked, ends, strict=True) if end <= hours * 3600]
        with replacing(path) as part:
            part.write_text("".join(json.dumps(cut.to_dict()) + "\n" for cut in chosen), encoding="utf-8")
    return path


def measure(checkpoint: Checkpoint) -> dict[str, Any]:
    """Phone error rates (0.1 is 10 %), parameters of encoder and phone head, and hours of audio in the batches."""
    names = ("encoder.", "phone_ctc.")
    parameters = sum(w.numel() for name, w in checkpoint.average.items() if name.startswith(names))
    state = checkpoint.training
    errors = state["history"][-1]["wer"]
    return {"parameters": parameters, "audio_hours": round(state["audio_hours"], 2), "phone_errors": errors}


class Law(NamedTuple):
    """errors = floor + exp(coefficients[0] + coefficients[1:] @ logarithms of (parameters, hours, hours seen)).

    The floor is the part that no size and no training removes (Hoffmann et al. 2022, "Training compute-optimal large
    language models"). coefficients: (4,); without rows of fewer hours, the exponent of hours is zero.
    """

    floor: float
    coefficients: np.ndarray

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """(num_rows, 4) of `law_inputs` -> (num_rows,) errors."""
        return self.floor + np.exp(inputs @ self.coefficients)


def law_inputs(rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(num_rows, 4): one, and the logarithms of M parameters, share of all hours, and hours seen."""
    values = [[row["parameters"] / 1e6, row["hours"] / ALL_HOURS, row["audio_hours"]] for row in rows]
    return np.column_stack([np.ones(len(rows)), np.log(values)])


def law_errors(rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(num_rows,) phone errors with full context."""
    return np.array([row["phone_errors"]["full"] for row in rows])


def fit(inputs: np.ndarray, errors: np.ndarray) -> Law:
    """The law with the least squared error of log errors, over floors below the smallest error."""

    def law(floor: float) -> Law:
        return Law(floor, np.linalg.lstsq(inputs, np.log(errors - floor), rcond=None)[0])

    laws = map(law, np.linspace(0, 0.95 * errors.min(), NUM_FLOORS))
    return min(laws, key=lambda law: float(np.square(np.log(errors / law(inputs))).sum()))


def predict(rows: Sequence[Mapping[str, Any]], point: Mapping[str, Any]) -> tuple[float, float, float]:
    """The errors of `point` by the law of `rows`, with the 95 % interval of resampled residuals (bootstrap)."""
    inputs, errors, at = law_inputs(rows), law_errors(rows), law_inputs([point])
    law = fit(inputs, errors)
    fitted = law(inputs)
    free = max(len(rows) - inputs.shape[1] - 1, 1)  # the floor is also fitted
    residuals = np.log(errors / fitted) * np.sqrt(len(rows) / free)
    random_state = np.random.default_rng(1)
    drawn = [
        fit(inputs, fitted * np.exp(random_state.choice(residuals, len(rows))))(at)[0]
        * np.exp(random_state.choice(residuals))
        for _ in range(NUM_DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(law(at)[0]), float(low), float(high)


def report(points: Points, plot: Path | None) -> Iterator[str]:
    """Lines of the trainings, of the fit, and of the prediction of the largest one."""
    runs = law_runs()
    rows = [row for run in runs[:-1] if (row := points.find(run))]
    if len(rows) < LEAST_ROWS:
        yield from table(rows)
        yield f"{len(rows)} of {len(runs)} trainings: a fit needs {LEAST_ROWS}"
        return
    law = fit(law_inputs(rows), law_errors(rows))
    yield from table(rows, [f"{100 * rate:.1f}" for rate in law(law_inputs(rows))])
    names = ("parameters", "hours", "hours seen")
    yield f"{len(rows)} trainings: errors above a floor of {100 * law.floor:.1f} % go with " + ", ".join(
        f"{name}^{value:.2f}" for name, value in zip(names, law.coefficients[1:], strict=True)
    )
    largest = points.find(runs[-1])
    point = largest or {"parameters": 8.0e6, "hours": ALL_HOURS, "audio_hours": runs[-1].seen_hours}
    rate, low, high = predict(rows, point)
    found = f"{100 * largest['phone_errors']['full']:.1f} % measured" if largest else "not trained yet"
    yield f"the largest: {100 * rate:.1f} % predicted, {100 * low:.1f} to {100 * high:.1f}; {found}"
    if plot:
        draw(rows + ([largest] if largest else []), law, plot)


def table(rows: Sequence[Mapping[str, Any]], law: Sequence[str] = ()) -> Iterator[str]:
    """Lines of a Markdown table. law: the law's prediction for each row, or empty."""
    yield "| parameters, M | hours of speech | hours in batches | rate | phone errors %, full context | 640 ms | law |"
    yield "|---|---|---|---|---|---|---|"
    for row, rate in zip(rows, law or [""] * len(rows), strict=True):
        errors = row["phone_errors"]
        sizes = f"| {row['parameters'] / 1e6:.1f} | {row['hours']} | {row['audio_hours']:.0f} | {row['rate']:g} |"
        yield f"{sizes} {100 * errors['full']:.1f} | {100 * errors['640ms']:.1f} | {rate} |"


def draw(rows: Sequence[Mapping[str, Any]], law: Law, path: Path) -> None:
    """Writes a PNG: phone errors over hours seen, a line per network, on logarithmic axes; dashed: the law."""
    figure, axes = new_axes(7, 4.5)
    whole = [row for row in rows if row["hours"] == ALL_HOURS]
    for number, width in enumerate(sorted({row["width"] for row in whole})):
        mine = sorted((row for row in whole if row["width"] == width), key=lambda row: row["audio_hours"])
        seen = [row["audio_hours"] for row in mine]
        color, label = f"C{number}", f"{mine[0]['parameters'] / 1e6:.1f} M parameters"
        axes.plot(seen, 100 * law_errors(mine), "o", markersize=6, label=label, color=color)
        axes.plot(seen, 100 * law(law_inputs(mine)), "--", linewidth=1.5, color=color)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0f}")
        axis.set_minor_formatter("{x:.0f}")
    axes.set_xlabel("hours of audio in all batches")
    axes.set_ylabel("phone error rate in %, greedy, full context")
    axes.legend()
    figure.savefig(path, format="png")


def main() -> int:
    parser = plain_parser(__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="all training data, written by `asr prepare`")
    parser.add_argument("--valid", help="to measure on")
    parser.add_argument("--points", type=Path, required=True, help="the results, a JSON file")
    parser.add_argument("--out", type=Path, default=Path("runs/scaling"), help="folder (default: %(default)s)")
    parser.add_argument("--rates", action="store_true", help="train the comparison of learning rates instead")
    parser.add_argument("--fit", action="store_true", help="train nothing")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time (default: 1)")
    parser.add_argument("--plot", type=Path, help="a PNG of the fit")
    args = parser.parse_args()
    points = Points(args.points)
    if not args.fit:
        if not (args.data and args.valid):
            parser.error("DATA and --valid are needed, unless --fit is given")
        args.data = args.data.resolve()
        train_all(points, rate_runs() if args.rates else law_runs(), args)
    for line in table(points.rows) if args.rates else report(points, args.plot):
        print(line)
    return 0


def train_all(points: Points, runs: Sequence[Run], args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    commands = Commands()

    def one(run: Run) -> dict[str, Any]:
        print(f"\n{run}", flush=True)
        overrides = run.overrides(subset(args.data, run.hours), args.valid)
        return measure(train(commands, "tiny", overrides, args.out / run.name, 1))

    with ThreadPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(one, run): run for run in runs if not points.find(run)}
        try:
            for job in as_completed(jobs):
                points.add(jobs[job], job.result())
        except (KeyboardInterrupt, AblationError):
            commands.stop()
            pool.shutdown(cancel_futures=True)
            raise


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("scaling: interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
    except (AblationError, ValueError, OSError) as error:
        print(f"scaling: {error}", file=sys.stderr)
        sys.exit(1)
