"""Compares the npm package with Python, same model and audio: benchmarks/web.py data/dev --num-utterances 100

Every utterance goes through both in blocks of 20 ms; first build the package with `make js`. Times are CPU time, which
other programs disturb least: for loading, and per second of audio (the real-time factor on one core).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from command import data_parser, utterances

from asr import Recognizer
from asr.evaluation.wer import count_errors
from asr.lm.packed import BUNDLED
from asr.runtime.neural_lm import bundled_neural_lm
from asr.runtime.onnx_model import bundled_model
from asr.runtime.punctuation import bundled_punctuation
from asr.streaming import Final

BLOCK = 320  # samples


def python(model: Path, audio: list[np.ndarray]) -> dict[str, Any]:
    """Texts and figures of the recognizer in this process."""
    started = time.process_time()
    recognizer = Recognizer(model, lm=BUNDLED, neural_lm=bundled_neural_lm())
    load_cpu_s = time.process_time() - started
    started, texts = time.process_time(), []
    for samples in audio:
        stream = recognizer.stream()
        for begin in range(0, len(samples), BLOCK):
            stream.accept_waveform(samples[begin : begin + BLOCK])
        stream.finish()
        texts.append(" ".join(event.raw for event in stream.events() if isinstance(event, Final)))
    rtf = (time.process_time() - started) / (sum(map(len, audio)) / 16000)
    return {"texts": texts, "load_cpu_s": load_cpu_s, "rtf": rtf}


def node(model: Path, audio: list[np.ndarray]) -> dict[str, Any]:
    """The same for the npm package."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{index}.wav" for index in range(len(audio))]
        for file, samples in zip(files, audio, strict=True):
            soundfile.write(file, samples, 16000, subtype="PCM_16")
        models = (model, BUNDLED, bundled_punctuation(), bundled_neural_lm())
        command = ["node", Path(__file__).with_suffix(".mjs"), *models, *files]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    args = data_parser(__doc__, "default: the bundled int8 one", num_utterances=100).parse_args()
    clips, model = utterances(args), Path(args.model or bundled_model())
    references = [clip.text for clip in clips]
    audio = [np.round(32767 * np.clip(clip.waveform(), -1, 1)).astype(np.int16) for clip in clips]
    rows = {"python": python(model, audio), "node": node(model, audio)}
    for name, row in rows.items():
        wer = count_errors(references, row["texts"]).rate
        print(f"{name}: wer {wer:.4f}  rtf {row['rtf']:.3f}  load_cpu_s {row['load_cpu_s']:.2f}")
    same = sum(a == b for a, b in zip(rows["python"]["texts"], rows["node"]["texts"], strict=True))
    print(f"node holds {rows['node']['rss_mb']:.0f} MB at the end")
    print(f"{same} of {len(clips)} utterances have the same words")


if __name__ == "__main__":
    main()
