"""Writes the corpus of the fuzz targets anew: PYTHONPATH=tests python tests/fuzz/make_corpus.py"""

from __future__ import annotations

import struct
from pathlib import Path

import onnx
from support.arpa import packed

from asr._core import ONNX_OPSET, OPTIONS
from asr.lm.packed import load_lm, with_pronunciations
from asr.runtime.metadata import ModelMetadata

CORPUS = Path(__file__).parent / "corpus"
PCM = struct.pack("<HHIIHH", 1, 1, 16000, 32000, 2, 16)
EXTENSIBLE = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 16000, 32000, 2, 16, 22, 16, 4) + struct.pack("<H14x", 1)


def chunk(name: bytes, data: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if size is None else size) + data + b"\0" * (len(data) % 2)


def wav(*chunks: bytes) -> bytes:
    return chunk(b"RIFF", b"WAVE" + b"".join(chunks))


def model(*tensors: onnx.TensorProto) -> bytes:
    properties = ModelMetadata(tokens=("<blk>", "<unk>", "<s>", "▁"), num_layers=2, dim=8)
    graph = onnx.helper.make_graph([], "graph", [], [], list(tensors))
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", ONNX_OPSET)])
    onnx.helper.set_model_props(proto, properties.to_properties())
    return proto.SerializeToString()


# Calls of api_fuzz.cc. Audio of the recording: from a sample, 128 samples each.
END_UTTERANCE, FINISH, EVENTS = b"\6", b"\10", b"\11"
PIECES = "old man|children|the|road|walked|new line|scratch that|comma| |\n|\n| -> |=".split("|")


def speech(begin: int, end: int) -> bytes:
    pieces = [(at, min(254, (end - at) // 128)) for at in range(begin, end, 254 * 128)]
    return b"".join(struct.pack("<BHBB", i % 4, at // 2, count, 0) for i, (at, count) in enumerate(pieces))


def silence(quarters: int) -> bytes:
    return bytes([4, 16 * quarters])


def gap(hundreds: int) -> bytes:
    return bytes([5, hundreds])


def settings(options: dict[str, int] | None = None, *lists: tuple[int, str]) -> bytes:
    """options: the place of each in its range, 0 to 255. lists: hotwords, phrases, mask, replacements, commands."""
    numbers = {name: index for index, name in enumerate(OPTIONS)}
    found = bytes([len(options or {})]) + b"".join(bytes([numbers[k], v]) for k, v in (options or {}).items())
    found += bytes([sum(1 << kind for kind, _ in lists)])
    return found + b"".join(bytes([len(text.split("|")), *map(PIECES.index, text.split("|"))]) for _, text in lists)


def change(chosen: bytes) -> bytes:
    return b"\7" + chosen + b"\1"


WITH_LM, WITHOUT_LM = b"\x81", b"\1"


def sessions() -> dict[str, bytes]:
    """The recording says: the old man walked slowly down the road and the children ran after him."""
    first, second, whole = speech(0, 46000), speech(40000, 86000), speech(16000, 62000)
    commands = (4, "old man| -> |new line"), (3, "children| -> |the")
    return {
        "plain": settings() + WITH_LM + whole + EVENTS + FINISH + EVENTS,
        "letters": settings() + WITHOUT_LM + first + silence(4) + FINISH + EVENTS,
        "greedy": settings({"search": 0, "text": 1}) + WITHOUT_LM + second + END_UTTERANCE + FINISH,
        "joint": settings({"search": 3, "max_alternatives": 30}) + WITHOUT_LM + speech(16000, 40000) + FINISH,
        "cut": settings({"max_utterance_s": 70, "second_pass": 0}) + WITH_LM + whole + EVENTS + FINISH,
        "cut_twice": settings({"max_utterance_s": 30, "second_pass": 0, "chunk_ms": 3}) + WITH_LM + second + FINISH,
        "ended": settings({"second_pass": 0})
        + WITH_LM
        + speech(16000, 30000)
        + END_UTTERANCE
        + EVENTS
        + speech(30000, 46000)
        + END_UTTERANCE
        + gap(80)
        + speech(46000, 60000)
        + FINISH,
        "changed": settings()
        + WITH_LM
        + speech(16000, 36000)
        + change(settings({"search": 1, "chunk_ms": 7}))
        + speech(36000, 50000)
        + change(settings({"text": 1, "spelling": 1}, (2, "road")))
        + EVENTS
        + FINISH,
        "hotwords": settings({"max_alternatives": 60}, (0, "old man|\n|children")) + WITH_LM + first + FINISH,
        "phrases": settings({"unknown_cost": 90}, (1, "the|" + " |old man|\n|walked")) + WITH_LM + first + FINISH,
        "commands": settings({"commands": 1}, *commands[::-1]) + WITH_LM + first + silence(6) + second + FINISH,
        "endpoint": settings({"silence_after_speech_s": 20, "min_silence_after_speech_s": 10})
        + WITH_LM
        + first
        + silence(8)
        + EVENTS
        + speech(60000, 70000)
        + silence(8)
        + FINISH,
        "streams": settings() + WITH_LM + gap(9) + speech(20000, 24000) + b"\12" + settings() + b"\4\x40\x1f" + first,
        "load": settings() + WITH_LM + FINISH + b"\13" + bytes(3) + model(),
    }


def words_of_the_recording() -> bytes:
    """A language model of some words, as the bundled model pronounces them."""
    bundled = load_lm("bundled")
    words = "A AFTER AND CHILDREN DOWN HE HIM I MAN OLD RAN ROAD ROWED SLOWLY THE THERE WALKED WAS".split()
    unigrams = ("-99 <s> -0.3", "-1.5 </s>", "-3 <unk> -0.1", *(f"-{1 + len(word) / 10} {word} -0.3" for word in words))
    pairs = ("-0.5 <s> THE", "-0.9 OLD MAN", "-0.6 THE CHILDREN", "-0.7 THE OLD", "-0.8 THE ROAD", "-0.7 HIM </s>")
    pronunciations = {word: bundled.pronunciations(word) for word in words}
    return with_pronunciations(packed(unigrams, pairs), bundled.phones, pronunciations)


def main() -> None:
    samples = chunk(b"data", bytes(20))
    external = onnx.helper.make_tensor("weight", onnx.TensorProto.FLOAT, [2], [1, 2])
    external.data_location = onnx.TensorProto.EXTERNAL
    properties = onnx.load_from_string(model()).metadata_props
    lines = "\n".join(f"{p.key}={p.value}".replace("\n", ";") for p in properties)
    pronounced = with_pronunciations(
        packed(("-1 <s> -0.3", "-1 </s>", "-2 <unk>", "-1 A -0.2"), ("-0.5 <s> A", "-0.4 A </s>")),
        ("AH", "EY"),
        {"A": [("AH",), ("EY",)]},
    )
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
        "files/pronunciations": b"L" + pronounced,
        "files/punctuation": b"P" + b"model_type=asr_stream_punctuation\nformat_version=1\nlook_ahead=4\n"
        b'left_context=9\nmixed_case={"api": "API", "o\'neil": "O\'Neil"}',
        "files/neural": b"N"
        + "model_type=asr_stream_neural_lm\nformat_version=1\nshare=0.5\nweight=1.5\n"
        "pieces=<blk>;<unk>;<s>;▁the;▁;a".encode(),
        "files/decoder": b"D"
        + "model_type=asr_stream_decoder\nformat_version=1\ndim=8\ntokens=<blk>;<unk>;<s>;▁\n"
        "states=key_cache float32 N,2,C,8;memory_keys float32 1,2,C,8".encode(),
        **{f"api/{name}": data for name, data in sessions().items()},
    }
    for name, data in files.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (CORPUS.parent / "words.lm").write_bytes(words_of_the_recording())


if __name__ == "__main__":
    main()
