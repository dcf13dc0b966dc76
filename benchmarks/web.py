"""The npm package against Python, same model and audio: python benchmarks/web.py data/dev.jsonl.gz --num-utterances 100

Every utterance goes through both in blocks of 20 ms; build the package with `make js` before. Times are CPU time, which
other programs on the machine disturb least: of loading, and per second of audio (the real-time factor of one core).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asr import Recognizer
from asr.data.cuts import evenly_spread, load_cuts
from asr.evaluation.wer import count_errors
from asr.lm.packed import BUNDLED
from asr.runtime.onnx_model import bundled_model
from asr.runtime.shown_text import bundled_punctuation
from asr.streaming import Final

BLOCK = 320  # samples


def python(model: Path, audio: list[np.ndarray]) -> dict[str, Any]:
    """Texts and figures of the recognizer in this process."""
    started = time.process_time()
    recognizer = Recognizer(model, lm=BUNDLED)
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
    """The same of the npm package."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{index}.wav" for index in range(len(audio))]
        for file, samples in zip(files, audio, strict=True):
            soundfile.write(file, samples, 16000, subtype="PCM_16")
        command = ["node", Path(__file__).with_suffix(".mjs"), model, BUNDLED, bundled_punctuation(), *files]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="written by `asr prepare`; the recordings are read again")
    parser.add_argument("--model", type=Path, default=bundled_model(), help="default: the bundled int8 one")
    parser.add_argument("--num-utterances", type=int, default=100, metavar="N", help="evenly spread")
    args = parser.parse_args()

    cuts = evenly_spread(list(load_cuts(args.data)), args.num_utterances)
    references = [cut.supervisions[0].text for cut in cuts]
    audio = [np.round(32767 * np.clip(cut.load_audio()[0], -1, 1)).astype(np.int16) for cut in cuts]
    rows = {"python": python(args.model, audio), "node": node(args.model, audio)}
    for name, row in rows.items():
        wer = count_errors(references, row["texts"]).rate
        print(f"{name}: wer {wer:.4f}  rtf {row['rtf']:.3f}  load_cpu_s {row['load_cpu_s']:.2f}")
    same = sum(a == b for a, b in zip(rows["python"]["texts"], rows["node"]["texts"], strict=True))
    print(f"node holds {rows['node']['rss_mb']:.0f} MB at the end")
    print(f"{same} of {len(cuts)} utterances have the same words")


if __name__ == "__main__":
    main()
