"""Small synthesized corpora for tests."""

from __future__ import annotations

from pathlib import Path

from asr.data.manifests import Utterance
from asr.data.prepare import PrepareResult
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
