"""Shared by the command lines of benchmarks: a data set, a model, and rows of resulting numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from asr import Recognizer
from asr._core import Hypothesis, align_tokens, spell
from asr.data.speech import Clip, Speech, evenly_spread
from asr.evaluation.engine import Engine
from asr.features import ENCODER_FRAME_MS, SAMPLE_RATE, SUBSAMPLING, fbank
from asr.runtime.onnx_model import Encoded, OnnxModel
from asr.runtime.search import Word, output_symbols, words
from asr.streaming import Event, Final
from asr.text import WORD_BOUNDARY

T = TypeVar("T")
LEFT_CONTEXT = 64  # in encoder frames, 2560 ms


def plain_parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def data_parser(
    description: str | None, model: str = "default: the bundled one", num_utterances: int | None = None
) -> argparse.ArgumentParser:
    """A parser with a data set, a model and a number of utterances. `model`: the help text of --model."""
    parser = plain_parser(description)
    parser.add_argument("data", type=Path, help="written by `asr prepare`")
    parser.add_argument("--model", help=model)
    number = "all" if num_utterances is None else str(num_utterances)
    parser.add_argument(
        "--num-utterances", type=int, default=num_utterances, metavar="N", help=f"evenly spread; default: {number}"
    )
    return parser


def new_parser(description: str | None, model: str = "default: the bundled one") -> argparse.ArgumentParser:
    """`data_parser` with --json, for `show`."""
    parser = data_parser(description, model)
    parser.add_argument("--json", action="store_true", help="print rows for programs")
    return parser


def utterances(args: argparse.Namespace) -> list[Clip]:
    """The requested utterances."""
    return evenly_spread(Speech.load(args.data), args.num_utterances)


def encode(
    engine: Engine, clips: Sequence[Clip], chunk_ms: int, name: str = "encoding"
) -> Iterator[tuple[str, Encoded]]:
    """Yields the reference and the model's output for each of `clips`. chunk_ms: 0 is full context, as in the second
    pass."""
    for clip in progress(clips, name):
        (encoded,) = engine.encode([clip.features().numpy()], chunk_ms // ENCODER_FRAME_MS, LEFT_CONTEXT)
        yield clip.text, encoded


def aligned_words(aligner: OnnxModel, samples: np.ndarray, text: str) -> list[Word]:
    """The words of a transcript with their times in the recording; see `aligned`."""
    return words(aligned(aligner, samples, text), aligner.tokens)


def aligned(aligner: OnnxModel, samples: np.ndarray, text: str) -> Hypothesis:
    """The tokens of a transcript with their frames in the recording, by forced alignment. samples: float32, 16 kHz.

    It shares the model's bias: it measures errors of a search, not the true beginning of a sound.
    """
    ids = spell(text, output_symbols(aligner.tokens))
    return align_tokens(encode_whole(aligner, samples).log_probs, ids)


def word_tokens(ids: Sequence[int], tokens: Sequence[str]) -> list[list[int]]:
    """Indices in `ids` of the tokens of each word."""
    found: list[list[int]] = []
    begins = True
    for place, id in enumerate(ids):
        begins |= tokens[id].startswith(WORD_BOUNDARY)
        if tokens[id] == WORD_BOUNDARY:
            continue
        if begins:
            found.append([])
        found[-1].append(place)
        begins = False
    return found


def encode_whole(model: OnnxModel, samples: np.ndarray) -> Encoded:
    """The output of the model with full context. samples: float32, 16 kHz."""
    features = fbank(samples).numpy()
    return model.encode(features, len(features) // SUBSAMPLING, 0)


def recognize(recognizer: Recognizer, samples: np.ndarray) -> list[Word]:
    """The recognized words of all finals."""
    stream = recognizer.stream()
    stream.accept_waveform(samples)
    stream.finish()
    return [word for event in stream.events() if isinstance(event, Final) for word in event.raw_words]


def timed_events(recognizer: Recognizer, samples: np.ndarray, block: int) -> Iterator[tuple[float, Event]]:
    """Yields the events of 16 kHz audio sent in blocks of `block` samples, each with the seconds of audio sent before
    it."""
    stream = recognizer.stream()
    for begin in range(0, len(samples), block):
        stream.accept_waveform(samples[begin : begin + block])
        yield from [(stream.sample_offset / SAMPLE_RATE, event) for event in stream.events()]
    stream.finish()
    yield from [(stream.sample_offset / SAMPLE_RATE, event) for event in stream.events()]


def by_speaker(clips: Iterable[Clip]) -> list[list[Clip]]:
    """The utterances of each speaker, in order."""

    def speaker(clip: Clip) -> str:
        return clip.speaker

    return [list(group) for _, group in groupby(sorted(clips, key=speaker), speaker)]


def room_tone(samples: np.ndarray, seconds: float) -> np.ndarray:
    """Noise at the level of the quietest 5 % of `samples`."""
    frames = samples[: len(samples) // 400 * 400].reshape(-1, 400)
    level = np.percentile(np.sqrt((frames**2).mean(1)), 5)
    return np.random.default_rng(0).normal(0, level, int(16000 * seconds)).astype(np.float32)


def progress(items: Iterable[T], name: str) -> Iterable[T]:
    """`items`, with a progress bar on standard error."""
    return track(items, name, console=Console(stderr=True))


def show(rows: Iterable[Mapping[str, Any]], args: argparse.Namespace) -> None:
    """Prints a line per row, or JSON."""
    if args.json:
        print(json.dumps(list(rows)))
        return
    for row in rows:
        print(
            "  ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
            )
        )
