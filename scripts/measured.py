"""Writes measured numbers into the documentation, so that none is typed twice: python scripts/measured.py [--check]

A comment behind a number in a page names it: 8.3<!--dev-->. Its value comes from a file in docs/measured, which a
benchmark wrote, or from the bundled models. --check only lists the numbers that would change.

To measure the recognition again, with the data sets dev, dev_cv and dev_nonnative of docs/model_card.md in data/:

    python scripts/measured.py --commands | sh    # an hour
    python scripts/measured.py
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MEASURED, MODELS = ROOT / "docs" / "measured", ROOT / "asr" / "models"
SETS = ("dev", "dev_cv", "dev_nonnative")
NUMBER = re.compile(r"(\d[\d.]*)<!--([^ >]+)-->")

EVALUATE = "asr evaluate asr/models/tiny.int8.onnx --lm bundled"
COMMANDS = {
    **{f"live_{name}": f"python benchmarks/live_wer.py data/{name} --json > OUT" for name in SETS},
    "joint_dev": "python benchmarks/live_wer.py data/dev --lm none --search joint --json > OUT",
    "latency_sample": "python benchmarks/latency.py --json > OUT",
    "latency_dev": "python benchmarks/latency.py --file data/dev.wav --seconds 300 --json > OUT",
    "evaluate_dev": f"{EVALUATE} --data data/dev --search greedy,rescore,beam+lm --json OUT --plot docs/images/wer.png",
    "evaluate_accents": f"{EVALUATE} --data data/dev_cv data/dev_nonnative --search beam+lm "
    "--chunk-ms full,640,160 --json OUT",
    "noise": "python benchmarks/noise.py data/dev --noise data/noise --rir data/rir --num-utterances 141 "
    "--quieter-db 30 --snr-db 20,10,0 --json > OUT",
}
"""The command that writes each file of docs/measured, which is OUT here."""


def join(data: Path, output: Path, seconds: float = 300.0) -> None:
    """Writes a recording of about `seconds`: utterances of a data set, evenly spread, each followed by a second of
    silence."""
    import numpy as np
    import soundfile

    from asr.data.speech import Speech, evenly_spread

    speech = Speech.load(data)
    number = max(1, round(len(speech) * seconds / (speech.seconds + len(speech))))
    spoken = [clip.waveform() for clip in evenly_spread(speech, number)]
    pause = np.zeros(16000, np.float32)
    soundfile.write(output, np.concatenate([part for audio in spoken for part in (audio, pause)]), 16000)


def measured(name: str) -> Any:
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def numbers() -> dict[str, str]:
    """The text of each number that a page may use, by name."""
    return dict([*word_errors(), *delays(), *sizes()])


def word_errors() -> Iterator[tuple[str, str]]:
    """Word errors in %: finals (`dev`), finals of one pass, last partials; by search and chunk size."""
    for name in SETS:
        one_pass, finals = measured(f"live_{name}")
        yield name, percent(finals["final_wer"])
        yield f"{name}.one_pass", percent(one_pass["final_wer"])
        yield f"{name}.partial", percent(finals["partial_wer"])
    for row, place in zip(measured("joint_dev"), ("dev.joint.one_pass", "dev.joint"), strict=True):
        yield place, percent(row["final_wer"])
    rates = {}
    for row in (*measured("evaluate_dev")["results"], *measured("evaluate_accents")["results"]):
        place = f"{row['data']}.{row['search']}.{row['chunk_ms'] or 'full'}"
        rates[place] = row["wer"]
        yield place, percent(row["wer"])
        for kind in ("insertions", "deletions", "substitutions"):
            yield f"{place}.{kind}", str(row[kind])
    for row in measured("noise"):
        place = re.sub(r"\W+", "_", row["place"])
        yield f"noise.{place}", percent(row["final_wer"]) if "final_wer" in row else str(row["num_words"])
    yield "dev.ratio", f"{rates['dev.beam+lm.640'] / rates['dev.beam+lm.full']:.2f}"


def delays() -> Iterator[tuple[str, str]]:
    """For the sample and for read speech: 95th percentiles in ms, CPU ms per second of audio, peak memory in MB."""
    for name in ("sample", "dev"):
        row = measured(f"latency_{name}")
        for kind in row.keys() & {"partial_ms", "final_ms"}:
            yield f"{name}.{kind}", f"{row[kind]['p95']:.0f}"
        yield f"{name}.cpu_ms", f"{1000 * row['real_time_factor']['value']:.0f}"
        yield f"{name}.mb", f"{row['peak_memory_mb']['value']:.0f}"


def sizes() -> Iterator[tuple[str, str]]:
    """File sizes in MB, parameters in millions."""
    import onnx

    from asr.training.checkpoint import load_pretrained

    for path in (*MODELS.glob("*.onnx"), *MODELS.glob("*.lm")):
        yield f"{path.name}.mb", f"{path.stat().st_size / 1e6:.1f}"
    weights = load_pretrained("bundled").weights
    yield "parameters", f"{sum(value.numel() for value in weights.values()) / 1e6:.1f}"
    constants = onnx.load(MODELS / "english.neural.onnx").graph.initializer
    yield "neural.parameters", f"{sum(onnx.numpy_helper.to_array(value).size for value in constants) / 1e6:.1f}"


def percent(rate: float) -> str:
    return f"{100 * rate:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; status 1 if a number is not the measured one"
    )
    parser.add_argument("--commands", action="store_true", help="print the commands that write docs/measured")
    parser.add_argument(
        "--join", nargs=2, type=Path, metavar=("DATA", "OUT.wav"), help="write five minutes of a data set"
    )
    args = parser.parse_args()
    if args.join:
        join(*args.join)
        return 0
    if args.commands:
        print("python scripts/measured.py --join data/dev data/dev.wav")
        print(*(text.replace("OUT", f"docs/measured/{name}.json") for name, text in COMMANDS.items()), sep="\n")
        return 0
    known, wrong = numbers(), []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for value, name in NUMBER.findall(text):
            if name not in known:
                raise SystemExit(f"{page} names '{name}'; known: {', '.join(sorted(known))}")
            if value != known[name]:
                wrong.append(f"{page.relative_to(ROOT)}: {name} is {known[name]}, not {value}")
        if not args.check:
            page.write_text(NUMBER.sub(lambda match: f"{known[match[2]]}<!--{match[2]}-->", text), encoding="utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
