"""Recognition in rooms and noise: python benchmarks/noise.py data/dev [--noise DIR] [--rir DIR]

Recognizes the utterances of a data set as they are, at the 8 kHz of a telephone, from a microphone with low gain, in a
room, and in a room with noise at each signal-to-noise ratio, in 16 bits, with a `Recognizer` like that of `asr-stream`.
Counts errors of the text at the end of the utterance (the last partial) and of the final. Rooms and noises are files of
the folders, or simulated. Then it recognizes the recordings of the noise folder alone, without speech, and counts the
words.

Use rooms and noises that the model was not trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from command import new_parser, progress, show, utterances
from live_wer import utterance

from asr import Recognizer
from asr.data.audio import MAX_NOISE_S, find_sounds, read_audio
from asr.data.speech import Clip
from asr.evaluation.plots import new_axes
from asr.evaluation.wer import count_errors
from asr.features import SAMPLE_RATE
from asr.training.sounds import colored_noise, power, read_rooms

NO_NOISE_DB = 60.0


@dataclass(frozen=True)
class Place:
    """The condition of an utterance. snr_db: signal-to-noise ratio in a room; None: as recorded."""

    name: str
    gain_db: float = 0.0
    snr_db: float | None = None
    sample_rate: int = SAMPLE_RATE

    def recorded(self, clip: Clip, number: int, rooms: np.ndarray, noises: list[np.ndarray]) -> np.ndarray:
        """An utterance, (num_samples,) int16 at `sample_rate`. number: chooses the room and the noise."""
        samples = clip.waveform()
        if self.snr_db is not None:
            samples = in_room(samples, rooms[number % len(rooms)], noises, self.snr_db, number)
        if self.sample_rate != SAMPLE_RATE:
            samples = soxr.resample(samples, SAMPLE_RATE, self.sample_rate)
        scaled = 32767 * 10 ** (self.gain_db / 20) * np.clip(samples, -1, 1)
        return np.round(scaled).astype(np.int16)


def in_room(samples: np.ndarray, room: np.ndarray, noises: list[np.ndarray], snr_db: float, seed: int) -> np.ndarray:
    """Samples (num_samples,) float32 in a room with noise, of the same power. noises: empty for colored noise."""
    rng = np.random.default_rng(seed)
    size = len(samples) + len(room)
    wet = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(room.astype(np.float32), size), size)[: len(samples)]
    wet *= np.sqrt(power(samples) / max(power(wet), 1e-20))
    if noises:
        recording = noises[int(rng.integers(len(noises)))]
        start = int(rng.integers(len(recording)))
        noise = recording.take(np.arange(start, start + len(wet)), mode="wrap")
        level = max(power(noise), power(recording) / 100)
    else:
        noise = colored_noise(len(wet), rng)
        level = power(noise)
    noisy = wet + np.sqrt(power(wet) / max(level, 1e-20) / 10 ** (snr_db / 10)) * noise
    return (noisy * min(1.0, 0.99 / max(np.abs(noisy).max(), 1e-9))).astype(np.float32)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = new_axes(7, 4.5)
    for key, label in (("partial_wer", "last partial"), ("final_wer", "final")):
        axes.plot([100 * row[key] for row in rows], marker="o", label=label)
    axes.set_xticks(range(len(rows)), [row["place"] for row in rows])
    axes.set_xlabel("gain in dB; signal-to-noise ratio in a room in dB")
    axes.set_ylabel("word error rate in %")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, format="png")


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--noise", type=Path, metavar="DIR", help="recordings of noise (default: colored noise)")
    parser.add_argument("--rir", type=Path, metavar="DIR", help="room impulse responses (default: simulated rooms)")
    parser.add_argument("--quieter-db", default="20,30,40", metavar="DB,...", help="default: %(default)s")
    parser.add_argument("--snr-db", default="20,10,5,0", metavar="DB,...", help="default: %(default)s")
    parser.add_argument("--chunk-ms", type=int, default=640)
    parser.add_argument("--plot", type=Path, metavar="OUT.png")
    args = parser.parse_args()

    rooms = read_rooms(args.rir or "", 100, 1, 0)
    paths = find_sounds(args.noise, "noise") if args.noise else ()
    noises = [read_audio(path, MAX_NOISE_S).samples for path in paths]
    clips = utterances(args)
    references = [clip.text for clip in clips]
    recognizer = Recognizer(args.model, chunk_ms=args.chunk_ms)
    places = [Place("as it is"), Place("8 kHz", sample_rate=8000)]
    places += [Place(f"-{db:g} dB", gain_db=-db) for db in map(float, args.quieter_db.split(","))]
    places += [Place("a room", snr_db=NO_NOISE_DB)]
    places += [Place(f"SNR {db:g}", snr_db=db) for db in map(float, args.snr_db.split(","))]
    rows: list[dict[str, Any]] = []
    for place in places:
        found = [
            utterance(recognizer, place.recorded(clip, number, rooms, noises), place.sample_rate)
            for number, clip in enumerate(progress(clips, place.name))
        ]
        partials, finals, _ = zip(*found, strict=True)
        rows.append(
            {
                "place": place.name,
                "partial_wer": count_errors(references, list(partials)).rate,
                "final_wer": count_errors(references, list(finals)).rate,
                "num_utterances": len(clips),
            }
        )
    if args.plot:
        plot(rows, args.plot)
    if noises:
        finals = [utterance(recognizer, recording)[1] for recording in progress(noises, "nobody speaks")]
        num_words = sum(len(text.split()) for text in finals)
        minutes = sum(map(len, noises)) / SAMPLE_RATE / 60
        rows.append({"place": "nobody speaks", "minutes": minutes, "num_words": num_words})
    show(rows, args)


if __name__ == "__main__":
    main()
