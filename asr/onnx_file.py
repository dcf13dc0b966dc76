"""The bytes of an .onnx file, looked over before ONNX Runtime opens them.

A file of ours is whole, is of one opset, and holds its weights itself. Weights may also lie in another file that
the model names, and releases of ONNX Runtime before 1.24 follow such a name wherever it leads; so what is here
walks the protocol buffers of onnx.proto far enough to find every tensor. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

OPSET = 18
"""Of the standard operators; part of format version 1."""

# Message -> field number -> the message in that field: the ways in onnx.proto that lead to a tensor.
_INSIDE = {
    "model": {7: "graph", 8: "opset", 20: "training", 25: "function"},
    "opset": {},
    "graph": {1: "node", 5: "tensor", 15: "sparse_tensor"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse_tensor", 23: "sparse_tensor"},
    "sparse_tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor
_DOMAIN, _VERSION = 1, 2  # of an opset
_STANDARD_DOMAINS = (b"", b"ai.onnx")
_MAX_DEPTH = 100  # as in Google's parser
_FIXED_SIZES = {1: 8, 5: 4}


class OnnxFileError(ValueError):
    """Bytes that are no model of this format; the message says where or why."""


def check(data: bytes) -> None:
    """Raises OnnxFileError unless `data` is a whole model in opset OPSET without data outside it."""
    opsets = []
    waiting = [("model", 0, len(data), 0)]
    while waiting:
        message, begin, end, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise OnnxFileError(f"it nests more than {_MAX_DEPTH} deep at byte {begin}")
        inside = _INSIDE[message]
        domain, version = b"", 0
        for number, value, first, last in _fields(data, begin, end):
            if number in inside:
                waiting.append((inside[number], first, last, depth + 1))
            elif message == "tensor" and (number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)):
                raise OnnxFileError("its weights lie in another file (external data), which is never read")
            elif message == "opset" and number == _DOMAIN:
                domain = data[first:last]
            elif message == "opset" and number == _VERSION:
                version = value or 0
        if message == "opset" and domain in _STANDARD_DOMAINS:
            opsets.append(version)
    if opsets != [OPSET]:
        found = " and ".join(map(str, opsets)) or "unknown"
        raise OnnxFileError(f"its opset is {found}, and that of this format is {OPSET}")


def _fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int | None, int, int]]:
    """(number, value of a number or None of anything longer, first byte, byte after the last) of each field."""
    at = begin
    while at < end:
        tag, first = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0 or tag >> 32:
            raise OnnxFileError(f"byte {at} begins no field")
        if kind == 0:
            value, at = _varint(data, first, end)
            yield number, value, first, at
            continue
        if kind == 2:
            length, first = _varint(data, first, end)
        elif kind in _FIXED_SIZES:
            length = _FIXED_SIZES[kind]
        else:  # groups, which onnx.proto has none of
            raise OnnxFileError(f"byte {at} begins no field")
        at = first + length
        if at > end:
            raise OnnxFileError(f"it ends {at - end} bytes early, or is damaged before byte {first}")
        yield number, None, first, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, seven bits a byte, and the byte after it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise OnnxFileError(f"byte {at} belongs to no whole number")
