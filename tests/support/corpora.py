"""Small synthesized corpora for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr.data.manifests import Utterance
from asr.data.prepare import REFUSED
from asr.data.report import PrepareResult
from asr.data.speech import MARK, write_table
from asr.tables import UTTERANCES
from support.synth import hum, speech, write_audio


def utterances(folder: Path, count: int = 3, duration_s: float = 1.0) -> list[Utterance]:
    """`count` recordings of a hum, 0.1 s longer each, with the texts WORD A, WORD B, ..."""
    return [
        Utterance(
            f"u{i}",
            write_audio(folder / f"u{i}.wav", hum(duration_s + 0.1 * i, seed=i)),
            f"WORD {chr(65 + i)}",
        )
        for i in range(count)
    ]


def reasons(result: PrepareResult) -> dict[str, str]:
    """The reason why each utterance was rejected, by utterance ID."""
    return {refusal.id: refusal.reason for refusal in result.refusals}


def write_data_set(folder: Path, clips: Sequence[tuple[str, np.ndarray]]) -> Path:
    """A data set of texts and samples, (num_samples,) int16, as `asr prepare` writes it; the ids are u0, u1, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    np.concatenate([samples for _, samples in clips]).astype("<i2").tofile(folder / "samples-1.s16")
    rows, first = [], 0
    for i, (text, samples) in enumerate(clips):
        rows.append((f"u{i}", str(first), str(len(samples)), f"speaker {i % 2}", f"/audio/u{i}.wav", "0", text))
        first += len(samples)
    write_table(folder / UTTERANCES, "samples-1.s16", rows)
    return folder


def content(data_set: Path) -> tuple[list[str], bytes, str]:
    """The rows, the samples and the refusals of a data set: all except the random name of its file of samples."""
    head, *rows = (data_set / UTTERANCES).read_text(encoding="utf-8").splitlines()
    samples = (data_set / head.removeprefix(MARK)).read_bytes()
    return rows, samples, (data_set / REFUSED).read_text(encoding="utf-8")


def write_librispeech(folder: Path) -> Path:
    """A corpus in LibriSpeech's tree: two parts, one broken line, one missing file."""
    root = folder / "LibriSpeech"
    for part, speaker, words in (("train-clean-100", "19", ["ONE", "TWO"]), ("dev-clean", "84", ["THREE"])):
        chapter = root / part / speaker / "198"
        lines = [f"{speaker}-198-{i:04d} {word} MORE\n" for i, word in enumerate(words)]
        for i, word in enumerate(words):
            write_audio(chapter / f"{speaker}-198-{i:04d}.flac", speech(f"{word} more"))
        lines += [f"{speaker}-198-0008\n", f"{speaker}-198-0009 NOT THERE\n"]
        (chapter / f"{speaker}-198.trans.txt").write_text("".join(lines))
    return root
