"""CPU time of a chunk in several model files that take turns: python benchmarks/chunk_time.py OLD.onnx NEW.onnx

Ratios are to the first file: the median over blocks of five chunks, one block of each file after the other, so other
work on the machine slows all of them alike.
"""

from __future__ import annotations

import time

import numpy as np
from command import LEFT_CONTEXT, plain_parser, progress

from asr.features import ENCODER_FRAME_MS, FEATURE_OVERLAP, NUM_MEL_BINS, SUBSAMPLING
from asr.runtime.onnx_model import OnnxModel

BLOCK = 5


def main() -> None:
    parser = plain_parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="FILE.onnx")
    parser.add_argument("--chunk-ms", type=int, default=640, metavar="MS")
    parser.add_argument("--num-blocks", type=int, default=80, metavar="N", help=f"of {BLOCK} chunks (80)")
    args = parser.parse_args()

    models = [OnnxModel(path) for path in args.models]
    caches = [model.init_cache(1, LEFT_CONTEXT) for model in models]
    num_features = SUBSAMPLING * (args.chunk_ms // ENCODER_FRAME_MS) + FEATURE_OVERLAP
    features = np.random.default_rng(0).normal(-9, 3, (1, num_features, NUM_MEL_BINS)).astype(np.float32)
    num_valid = np.array([num_features])

    def block_ms(number: int) -> float:
        start = time.process_time()
        for _ in range(BLOCK):
            caches[number] = models[number].step(features, num_valid, caches[number]).cache
        return 1000 * (time.process_time() - start) / BLOCK

    for _ in range(4):  # until the cache is full
        for number in range(len(models)):
            block_ms(number)
    blocks = progress(range(args.num_blocks), f"{args.chunk_ms} ms")
    times = np.array([[block_ms(number) for number in range(len(models))] for _ in blocks])
    for path, column in zip(args.models, times.T, strict=True):
        print(f"{path}  {np.median(column):.2f} ms  ratio {np.median(column / times[:, 0]):.2f}")


if __name__ == "__main__":
    main()
