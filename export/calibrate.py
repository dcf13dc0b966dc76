"""`asr calibrate`: replaces the calibration and the language in a model file.

benchmarks/confidence.py and benchmarks/search_weights.py fit the numbers; csrc/calibration.h defines them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from asr._core import CALIBRATION
from asr.files import replacing
from asr.options import flag
from asr.runtime.metadata import EXPORT_AGAIN, MetadataError
from asr.runtime.onnx_model import OnnxModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="a file of `asr export`; it is replaced")
    parser.add_argument("--language", metavar="CODE", help="language of the model: en, de, de-CH, ...")
    for key, numbers in CALIBRATION.items():
        example = ",".join(f"{number:g}" for number in numbers.values())
        parser.add_argument(
            flag(key),
            type=_numbers,
            metavar="NUMBERS",
            help=f"{', '.join(numbers)}; bundled models: {example}",
        )


def run(args: argparse.Namespace) -> int:
    """Entry of `asr calibrate`."""
    given = {key: value for key in CALIBRATION if (value := getattr(args, key)) is not None}
    if not given and args.language is None:
        raise ValueError("nothing to write: give --language, --confidence-with-lm, ...; see asr calibrate --help")
    calibrate(args.model, given, args.language)
    named = ", ".join([*given, *(["language"] if args.language is not None else [])])
    print(f"{args.model}: wrote {named}")
    return 0


def calibrate(path: str | Path, numbers: Mapping[str, Sequence[float]], language: str | None = None) -> None:
    """Atomically replaces these rows of the metadata of the model file at `path`.

    Args:
        numbers: keyed as in `CALIBRATION`. language: a BCP 47 code, or empty; None keeps the present one.
    Raises ValueError for an unusable file or values out of range.
    """
    import onnx

    from asr.export.write import with_checksum

    model = OnnxModel(path)
    changes: dict[str, object] = {key: tuple(map(float, row)) for key, row in numbers.items()}
    if language is not None:
        changes["language"] = language
    try:
        properties = replace(model.metadata, **changes).to_properties()  # type: ignore[arg-type]
    except MetadataError as error:
        raise ValueError(str(error).removesuffix(f": {EXPORT_AGAIN}")) from error
    proto = onnx.load(path)
    kept = {entry.key: entry.value for entry in proto.metadata_props}
    onnx.helper.set_model_props(proto, kept | properties)
    with replacing(Path(path), durable=True) as part:
        part.write_bytes(with_checksum(proto))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers separated by commas") from None
