"""Echoes of a meeting without headphones: python benchmarks/echo.py data/dev --rir rir [--echo-db -10,-20]

Utterances of the data set are played one after another, with pauses. The microphone hears them through room impulse
responses, at `--echo-db` below its user's voice, who speaks other utterances: half of them in the pauses, half while
others speak. Counts the words of `me` that the others said, and those that the user said, with and without `Echoes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from command import new_parser, progress, show, utterances

from asr import Recognizer
from asr.data.speech import Clip
from asr.evaluation.wer import matched_words
from asr.streaming import Event, Final
from asr.streaming.terminal.echo import Echoes

DELAY_S, PAUSE_S = 0.1, 3.0
BLOCK = 1600


def meetings(clips: Sequence[Clip]) -> Iterator[tuple[Clip, Clip, bool]]:
    """Played, spoken by the user, and whether both speak at once; of two speakers."""
    half = len(clips) // 2
    for number, (played, own) in enumerate(zip(clips[:half], clips[half:], strict=False)):
        if played.speaker != own.speaker:
            yield played, own, number % 2 == 1


def at_level(samples: np.ndarray, level_db: float) -> np.ndarray:
    return samples * 10 ** (level_db / 20) / max(float(np.sqrt(np.mean(samples**2))), 1e-9)


def mixed(
    played: Clip, own: Clip, at_once: bool, response: np.ndarray, echo_db: float
) -> tuple[np.ndarray, np.ndarray]:
    """What is played and what the microphone hears, both (num_samples,) float32."""
    loud, voice = at_level(played.waveform(), -26), at_level(own.waveform(), -26)
    begin = 16000 if at_once else len(loud) + int(PAUSE_S * 16000)
    length = max(begin + len(voice), len(loud)) + int(PAUSE_S * 16000)
    others, me = np.zeros((2, length), np.float32)
    others[: len(loud)] = loud
    echo = np.convolve(others, response)[: length - int(DELAY_S * 16000)]
    me[int(DELAY_S * 16000) :] = at_level(echo, -26 + echo_db) * np.sqrt(length / len(loud))
    me[begin : begin + len(voice)] += voice
    return others, me


def finals(recognizer: Recognizer, others: np.ndarray, me: np.ndarray, echoes: Echoes | None) -> list[str]:
    """The words of `me`."""
    streams = recognizer.stream(), recognizer.stream()
    found: list[Event] = []

    def take() -> None:
        for event in streams[0].events():
            if echoes:
                echoes.played(event)
        found.extend(kept for event in streams[1].events() if (kept := echoes.without_echo(event) if echoes else event))

    for begin in range(0, len(me), BLOCK):
        for stream, samples in zip(streams, (others, me), strict=True):
            stream.accept_waveform(samples[begin : begin + BLOCK])
        take()
    for stream in streams:
        stream.finish()
    take()
    return [word.word for event in found if isinstance(event, Final) for word in event.raw_words]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rir", type=Path, required=True, help="a folder of room impulse responses")
    parser.add_argument("--echo-db", default="-10,-20", metavar="DB,...")
    args = parser.parse_args()
    paths = sorted(path for path in args.rir.iterdir() if re.search(r"\.(wav|flac|opus)$", path.name))
    responses = [soundfile.read(path, dtype="float32", always_2d=True)[0][:, 0] for path in paths]
    recognizer = Recognizer(args.model, text="plain")
    pairs = list(meetings(utterances(args)))
    rows: list[dict[str, Any]] = []
    for echo_db in map(float, args.echo_db.split(",")):
        for echoes in (False, True):
            counts = {False: np.zeros(4, int), True: np.zeros(4, int)}
            for number, (played, own, at_once) in enumerate(progress(pairs, f"{echo_db:g} dB")):
                others, me = mixed(played, own, at_once, responses[number % len(responses)], echo_db)
                words = finals(recognizer, others, me, Echoes() if echoes else None)
                of_others, of_own = played.text.split(), own.text.split()
                right = len(matched_words(of_own, words))
                counts[at_once] += (len(matched_words(of_others, words)), len(of_others), right, len(of_own))
            for at_once, (repeated, num_played, right, num_own) in counts.items():
                row = {"echo_db": echo_db, "left_out": echoes, "at_once": at_once}
                shares = {"words_twice": repeated / max(num_played, 1), "own_words": right / max(num_own, 1)}
                rows.append(row | shares)
    show(rows, args)


if __name__ == "__main__":
    main()
