"""Writes the corpus of the fuzz targets anew: PYTHONPATH=tests python tests/fuzz/make_corpus.py

files/language_model_1 is not rewritten, because nothing writes that version any more.
"""

from __future__ import annotations

import struct
from pathlib import Path

import onnx
from support.arpa import packed

from asr._core import ONNX_OPSET
from asr.runtime.metadata import ModelMetadata

CORPUS = Path(__file__).parent / "corpus"
PCM = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
EXTENSIBLE = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 16000, 32000, 2, 16, 22, 16, 4) + struct.pack("<H14x", 1)


def chunk(name: bytes, data: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if size is None else size) + data + b"\0" * (len(data) % 2)


def wav(*chunks: bytes) -> bytes:
    return chunk(b"RIFF", b"WAVE" + b"".join(chunks))


def model(*tensors: onnx.TensorProto) -> bytes:
    properties = ModelMetadata(tokens=("<blk>", "<unk>", "<s>", "▁"), num_layers=2, dim=8, decoder_onnx=b"graph")
    graph = onnx.helper.make_graph([], "graph", [], [], list(tensors))
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", ONNX_OPSET)])
    onnx.helper.set_model_props(proto, properties.to_properties())
    return proto.SerializeToString()


def main() -> None:
    samples = chunk(b"data", bytes(20))
    external = onnx.helper.make_tensor("weight", onnx.TensorProto.FLOAT, [2], [1, 2])
    external.data_location = onnx.TensorProto.EXTERNAL
    properties = onnx.load_from_string(model()).metadata_props
    lines = "\n".join(f"{p.key}={p.value}".replace("\n", ";") for p in properties)
    files = {
        "wav/plain": wav(chunk(b"fmt ", PCM), samples),
        "wav/extensible": wav(chunk(b"fmt ", EXTENSIBLE), samples),
        "wav/streamed": wav(chunk(b"fmt ", PCM), chunk(b"data", bytes(20), 0xFFFFFFFF)),
        "wav/odd_chunk": wav(chunk(b"LIST", b"odd"), chunk(b"fmt ", PCM), samples),
        "wav/stereo": wav(chunk(b"fmt ", PCM.replace(b"\1\0\1\0", b"\1\0\2\0")), samples),
        "wav/no_format": wav(samples),
        "files/onnx": b"O" + model(),
        "files/external": b"O" + model(external),
        "files/metadata": b"M" + lines.encode(),
        "files/language_model": b"L"
        + packed(("-1 <s> -0.3", "-1 </s>", "-2 <unk>", "-1 A -0.2"), ("-0.5 <s> A", "-0.4 A </s>")),
        "files/g2p": b"G"
        + packed(
            ("-1 <s> -0.3", "-1 </s>", "-2 <unk>", "-1 A}a -0.2", "-1 PH}f", "-1 É}e|i"),
            ("-0.5 <s> PH}f", "-0.4 A}a </s>"),
        ),
        # options (five bytes: chunk, search, second pass, beam, 1: as they are), then calls (see api_fuzz.cc)
        "api/live": bytes([3, 2, 1, 9, 1]) + bytes([0, 0x40, 0x1F, 7, 0, 0, 0, 0, 6]) * 3 + bytes([5, 6]),
        "api/gaps": bytes([7, 1, 0, 3, 1, 2, 0x80, 0x20, 5, 4, 0, 2, 0x80, 0x20, 6, 4, 1]) + bytes([9, *[0] * 7, 5, 6]),
        "api/greedy": bytes([15, 0, 1, 3, 1, 2, 0x80, 0x2C, 5, 2, 0x80, 0x2C, 5, 5, 2, 5, 0, 7, 6]),
        "api/streams": bytes([1, 1, 1, 3, 1, 2, 0x80, 0x10, 5, 8, 9, 2, 0, 7, 1, 2, 0x80, 0x10, 5, 7, 5, 7]),
        "api/options": bytes([1, 1, 1, 3, 0, 40]) + struct.pack("<d", float("nan")) + bytes([5]),
        "api/load": bytes([1, 1, 1, 3, 1, 9]) + model(),
    }
    for name, data in files.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
