"""Recognition in noise: python benchmarks/noise.py data/dev.jsonl.gz [--noise DIR] [--rir DIR] [--snr-db 20,10,5,0]

The utterances of a data set as they are, in a room, and in a room with noise at each signal-to-noise ratio, all
through a `Recognizer` as `asr-stream` has it: errors of what a person has read when the utterance is over (the last
partial) and of what stays (the final). Rooms and noises are files of the folders, drawn by the name of the utterance,
or simulated. Then the recordings of the noise folder alone, in which nobody speaks: how many words are written.

The rooms and noises should be such that the model was not trained in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from command import new_parser, progress, show, utterances
from live_wer import utterance

from asr import Recognizer
from asr.noisy_room import NoisyCopies, find_sounds, read_sound
from asr.plots import new_axes
from asr.wer import count_errors

QUIET_DB = 60.0
"""Of a room without noise."""


def in_place(cut: Any, rooms: tuple[str, ...], noises: tuple[str, ...], snr_db: float | None) -> np.ndarray:
    """The utterance of `cut`, (num_samples,) float32, in a room with that much noise; None: as it is."""
    samples: np.ndarray = cut.load_audio()
    if snr_db is not None:
        ((_, room),) = NoisyCopies(1, rooms, noises, (snr_db, snr_db)).draw(cut.id)
        samples = room(samples, 16000)
    return samples[0]


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = new_axes(7, 4.5)
    for key, label in (("partial_wer", "last partial"), ("final_wer", "final")):
        axes.plot([100 * row[key] for row in rows], marker="o", label=label)
    axes.set_xticks(range(len(rows)), [row["place"] for row in rows])
    axes.set_ylabel("word error rate in %")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, format="png")


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--noise", type=Path, metavar="DIR", help="recordings of noise (default: coloured noise)")
    parser.add_argument("--rir", type=Path, metavar="DIR", help="room impulse responses (default: simulated rooms)")
    parser.add_argument("--snr-db", default="20,10,5,0", metavar="DB,...", help="default: %(default)s")
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--plot", type=Path, metavar="OUT.png")
    args = parser.parse_args()

    rooms = find_sounds(args.rir, "impulse response") if args.rir else ()
    noises = find_sounds(args.noise, "noise") if args.noise else ()
    cuts = utterances(args)
    references = [cut.supervisions[0].text for cut in cuts]
    recognizer = Recognizer(args.model, chunk_ms=args.chunk_ms)
    places: dict[str, float | None] = {"as it is": None, "a room": QUIET_DB}
    places |= {f"{float(snr_db):g} dB": float(snr_db) for snr_db in args.snr_db.split(",")}
    rows: list[dict[str, Any]] = []
    for place, snr_db in places.items():
        found = [utterance(recognizer, in_place(cut, rooms, noises, snr_db)) for cut in progress(cuts, place)]
        partials, finals, _ = zip(*found, strict=True)
        rows.append(
            {
                "place": place,
                "partial_wer": count_errors(references, list(partials)).rate,
                "final_wer": count_errors(references, list(finals)).rate,
                "num_utterances": len(cuts),
            }
        )
    if args.plot:
        plot(rows, args.plot)
    recordings = [read_sound(path) for path in noises]
    if recordings:
        finals = [utterance(recognizer, recording)[1] for recording in progress(recordings, "nobody speaks")]
        num_words = sum(len(text.split()) for text in finals)
        rows.append({"place": "nobody speaks", "minutes": sum(map(len, recordings)) / 960_000, "num_words": num_words})
    show(rows, args)


if __name__ == "__main__":
    main()
