"""Files for sherpa-onnx: the step function with the interface of its streaming recognizer.

`zipformer2_ctc` has one file per latency and any batch size. The runtime passes the states of a Zipformer by position.
For each layer we use the keys and the two halves of the values, whose numbers are in an order of our own; the other
states are empty or pass through.

The file traces AsrModel.step, with the token head alone or with the phone head and a graph that finds words (see
asr.export.decoding_graph). The runtime steps whole chunks only, so a client sends some silence after the last sample.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from asr.export.decoding_graph import DecodingGraph
from asr.export.graph import ExportError, require_relative, trace, with_products
from asr.export.parity import (
    MAX_DIVERGENCE,
    MAX_ERROR,
    MAX_RELATIVE_ERROR,
    Case,
    FloatArray,
    chunks,
    hold,
    speech_like,
    step_torch,
    whole_lengths,
)
from asr.export.quantize import SMALLEST, quantize
from asr.export.ranges import ranges_in_layers
from asr.features import ENCODER_FRAME_MS, FEATURE_OVERLAP, LOG_FLOOR, NUM_MEL_BINS, SUBSAMPLING
from asr.files import replacing
from asr.model.encoder import Cache, EncoderCache, SpeakerCache
from asr.model.model import AsrModel
from asr.model.speaker import NUM_SUMS as NUM_SPEAKER_SUMS
from asr.runtime.onnx_session import open_session

T = TypeVar("T")
STATES_OF_A_LAYER = ("cached_key", "cached_nonlin_attn", "cached_val1", "cached_val2", "cached_conv1", "cached_conv2")
KEYS_AND_VALUES = (0, 2, 3)
"""Indexes of the states of a layer that are used."""
EMBED_STATES = (128, 3, 19)
"""Shapes per stream, as created by the runtime. The first elements store the sums of an encoder with a running mean."""
NUM_CHUNKS = 50
"""Chunks of each case of the parity gate."""
LETTERS, PHONES = 0, 2
"""Indexes of the heads in asr.export.parity.Stream."""
README = """\
# A streaming recognizer for sherpa-onnx

`{model}` writes phones; `HLG.fst` finds words by their pronunciations with a language model:

    recognizer = sherpa_onnx.OnlineRecognizer.from_zipformer2_ctc(
        tokens="tokens.txt", model="{model}", ctc_graph="HLG.fst", num_threads=1)
    words = dict(line.split()[::-1] for line in open("words.txt", encoding="utf-8"))
    print(" ".join(words[str(id)] for id in recognizer.get_result_all(stream).words))

The result's `text` has phones; its `words` are numbers, which `words.txt` spells.
"""


@dataclass(frozen=True)
class ExportedFile:
    """A written file, and its difference from PyTorch."""

    path: Path
    size: int
    """Bytes."""
    num_chunks: int
    max_error: float
    """Largest absolute difference of log-probabilities and of the last cache."""
    divergence: float
    """Mean KL divergence of posteriors, in nats per frame."""


class ZipformerGraph(nn.Module):
    """`AsrModel.step` with its cache in the states of a Zipformer. phones: whether log_probs are those of the phone
    head."""

    def __init__(self, model: AsrModel, phones: bool = False) -> None:
        super().__init__()
        self.model, self.phones = with_products(model), phones

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """
        Args:
            x: (N, 4c + 3, 80) float32
            states: for each layer `STATES_OF_A_LAYER`, (C, N, dim), (1, N, C, 0), (C, N, dim / 2) twice, (N, 1, 0)
                twice; then embed_states (N, 128, 3, 19) and processed_lens (N,) int64, the encoder frames so far.
        Returns log_probs (N, c, V) and the next states.
        """
        used = _keys_and_values(states)
        embed_states, processed_lens = states[-2:]
        size, heads = used[0].shape[0], self.model.config.num_heads
        shape = (heads * 2 * self.model.config.encoder_layers, size, self.model.config.dim // heads)
        keys_values = torch.cat([state.transpose(0, 1).flatten(1) for state in used], 1).unflatten(1, shape)
        num_valid = torch.full_like(processed_lens, x.shape[1])
        spare = embed_states.flatten(1)
        cache: Cache = EncoderCache(keys_values, processed_lens)
        if self.model.config.running_mean:
            cache = SpeakerCache(keys_values, processed_lens, spare[:, :NUM_SPEAKER_SUMS])
        letters, _, new, phones = self.model.step(x, num_valid, cache)
        if isinstance(new, SpeakerCache):
            spare = torch.cat((new.speaker_sums, spare[:, NUM_SPEAKER_SUMS:]), 1)
        out = list(states[:-2])
        parts = new.keys_values.flatten(1).split([size * state.shape[2] for state in used], 1)
        for number, part in enumerate(parts):
            layer, each = divmod(number, len(KEYS_AND_VALUES))
            out[6 * layer + KEYS_AND_VALUES[each]] = part.unflatten(1, (size, -1)).transpose(0, 1)
        return (phones if self.phones else letters, *out, spare.unflatten(1, EMBED_STATES), new.num_frames)


def _keys_and_values(states: Sequence[T]) -> list[T]:
    """The states that are used, layer by layer."""
    return [states[index + each] for index in range(0, len(states) - 2, 6) for each in KEYS_AND_VALUES]


def require_known_states(model: AsrModel) -> None:
    """Raises ExportError for an encoder with a state that the interface does not have."""
    cache = model.encoder.init_cache(1, 1)
    if type(cache) not in (EncoderCache, SpeakerCache):
        raise ExportError(
            f"this model has the states {', '.join(cache._fields)}; sherpa-onnx carries only "
            f"{', '.join(SpeakerCache._fields)}: export it as a native file"
        )


def zipformer_graph(model: AsrModel, chunk_size: int, left_context: int, phones: bool = False) -> onnx.ModelProto:
    """The graph for one latency, with the metadata that the runtime reads; sizes are in encoder frames."""
    require_relative(model)
    require_known_states(model)
    config = model.config
    if config.dim // config.num_heads % 2:
        raise ExportError(
            f"model.dim = {config.dim} in model.num_heads = {config.num_heads} heads cannot be exported for "
            "sherpa-onnx, which halves the width of a head: it must be even"
        )
    window, size = SUBSAMPLING * chunk_size + FEATURE_OVERLAP, left_context
    half = config.dim // 2
    layer = [(size, 2, config.dim), (1, 2, size, 0), (size, 2, half), (size, 2, half), (2, 1, 0), (2, 1, 0)]
    layer_dims = [{1: "N"}] * 4 + [{0: "N"}] * 2
    example = [torch.zeros(2, window, NUM_MEL_BINS)]
    example += [torch.zeros(shape) for _ in range(config.encoder_layers) for shape in layer]
    example += [torch.zeros(2, *EMBED_STATES), torch.zeros(2, dtype=torch.int64)]
    dims = ({0: "N"}, *layer_dims * config.encoder_layers, {0: "N"}, {0: "N"})
    states = [f"{name}_{index}" for index in range(config.encoder_layers) for name in STATES_OF_A_LAYER]
    states += ["embed_states", "processed_lens"]
    outputs = ("log_probs", *(f"new_{name}" for name in states))
    graph = trace(ZipformerGraph(model, phones), tuple(example), dims, dims, ("x", *states), outputs)
    metadata = {
        "encoder_dims": 1,
        "cnn_module_kernels": 1,
        "query_head_dims": config.dim // config.num_heads,
        "value_head_dims": config.dim // config.num_heads // 2,
        "num_heads": config.num_heads,
        "num_encoder_layers": config.encoder_layers,
        "left_context_len": left_context,
        "T": window,
        "decode_chunk_len": SUBSAMPLING * chunk_size,
    }
    return _with_metadata(graph, metadata)


def export_sherpa(
    model: AsrModel,
    tokens: Sequence[str],
    folder: str | Path,
    *,
    int8: bool = False,
    chunk_sizes: Sequence[int] = (16,),
    left_context: int = 64,
    license: str = "",
    words: DecodingGraph | None = None,
) -> list[ExportedFile]:
    """Writes `zipformer2_ctc.<latency>ms.onnx` (or `.int8.onnx`) for each latency, and `tokens.txt`.

    With a decoding graph the files use the phone head, and `HLG.fst`, `words.txt` and `README.md` are written, too.

    Args:
            tokens: the spelling of each token id.
            folder: created if missing. All files are replaced at once, after all have passed the parity gate.
            chunk_sizes: encoder frames of a chunk, each at least 1; one file for each.
            left_context: encoder frames before a chunk, at least 1.
            license: of the weights, SPDX; written into the metadata.
            words: the decoding graph, for a model with these phones.
    Raises ExportError where the model cannot be exported or differs from PyTorch; OSError from writing.
    """
    if left_context < 1 or not chunk_sizes or min(chunk_sizes) < 1:
        raise ExportError(
            f"chunk_sizes {list(chunk_sizes)} and left_context {left_context} must be at least 1 encoder frame each"
        )
    folder = Path(folder)
    require_output_folder(folder)
    suffix = ".int8.onnx" if int8 else ".onnx"
    written = []
    with Parts() as parts:
        for chunk_size in sorted(set(chunk_sizes)):
            path = folder / f"zipformer2_ctc.{chunk_size * ENCODER_FRAME_MS}ms{suffix}"
            cases = [Case(n, chunk_size, left_context, NUM_CHUNKS) for n in (1, 3)]
            graph = zipformer_graph(model, chunk_size, left_context, words is not None)
            head = LETTERS if words is None else PHONES
            written.append(write_gated(model, graph, path, parts.of(path), cases, int8, license, head))
        if words is not None:
            words.fst.write(parts.of(folder / "HLG.fst"))
            parts.of(folder / "words.txt").write_text(tokens_text(words.words), encoding="utf-8")
            parts.of(folder / "README.md").write_text(README.format(model=written[-1].path.name), encoding="utf-8")
        tokens = tokens if words is None else words.tokens
        parts.of(folder / "tokens.txt").write_text(tokens_text(tokens), encoding="utf-8")
    return written


def require_output_folder(path: Path) -> None:
    """Raises ExportError unless `path` is a folder that can be written, or one can be made there."""
    if path.suffix == ".onnx":
        raise ExportError(f"output {path} must be a folder, because several files are written")
    found = next((each for each in (path, *path.parents) if os.path.lexists(each)), Path())
    if not found.is_dir():
        raise ExportError(f"output {path} must be a folder, but {found} is not a folder; name another one")
    if not os.access(found, os.W_OK):
        raise ExportError(f"output {path}: the folder {found} cannot be written: Permission denied; name another one")


class Parts(ExitStack):
    """The files of one export. They get their final names together, after all have been written."""

    def of(self, path: Path) -> Path:
        """The temporary path to write `path` to; its folder is created if missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return self.enter_context(replacing(path, durable=True))


def tokens_text(tokens: Sequence[str]) -> str:
    """The contents of tokens.txt: the spelling and the id of each token."""
    return "".join(f"{token} {id}\n" for id, token in enumerate(tokens))


def run_zipformer(session: Any, features: FloatArray, case: Case) -> tuple[FloatArray, FloatArray]:
    """Steps a session through features (N, T, 80), with states that start at zero, as in the runtime.

    Returns log_probs (N, T', V), and the last keys and values (N, L * 2 * C * dim), in the order of EncoderCache.
    """
    names = [i.name for i in session.get_inputs()]
    states = [
        np.zeros([case.batch_size if d == "N" else d for d in i.shape], np.int64 if "int64" in i.type else np.float32)
        for i in session.get_inputs()[1:]
    ]
    log_probs = []
    for chunk, _ in chunks(features, whole_lengths(features), case):
        piece, *states = session.run(None, dict(zip(names, (chunk, *states), strict=True)))
        log_probs.append(piece)
    keys_values = [state.transpose(1, 0, 2).reshape(case.batch_size, -1) for state in _keys_and_values(states)]
    return np.concatenate(log_probs, 1), np.concatenate(keys_values, 1)


def write_gated(
    model: AsrModel,
    graph: onnx.ModelProto,
    path: Path,
    part: Path,
    cases: Sequence[Case],
    int8: bool,
    license: str,
    head: int,
) -> ExportedFile:
    """Writes `part`, which becomes `path`, and checks the written file against the bounds."""
    metadata = {p.key: p.value for p in graph.metadata_props} | ({"license": license} if license else {})
    # The float graph is checked first, because int8 rounding hides small faults of a graph.
    for rounded in (False, True) if int8 else (False,):
        if rounded:
            ranges = ranges_in_layers(graph, model, run_zipformer, cases[0])
            graph = quantize(graph, ranges, smallest=SMALLEST)
        graph = _with_metadata(graph, metadata)
        part.write_bytes(graph.SerializeToString(deterministic=True))
        max_error, divergence = _check(model, part, cases, rounded, path.name, head)
    return ExportedFile(path, part.stat().st_size, sum(c.num_chunks for c in cases), max_error, divergence)


def _check(model: AsrModel, file: Path, cases: Sequence[Case], int8: bool, name: str, head: int) -> tuple[float, float]:
    max_error = relative_error = 0.0
    divergences = []
    try:
        session = open_session(file.read_bytes(), name, "cpu", 1)
        for seed, case in enumerate(cases):
            features, _ = speech_like(model, case, seed)
            features = np.maximum(features, np.float32(LOG_FLOOR))  # the minimum of the filterbank
            features[:, 100:140] = LOG_FLOOR  # digital silence
            streams, (keys_values, *_) = step_torch(model, features, whole_lengths(features), case)
            expected = (np.stack([stream[head] for stream in streams]), keys_values.reshape(case.batch_size, -1))
            found = run_zipformer(session, features, case)
            errors = [np.abs(a - b).max(initial=0) for a, b in zip(expected, found, strict=True)]
            max_error = float(np.max([max_error, *errors]))  # `max` would drop NaN
            divergences.append((np.exp(expected[0]) * (expected[0] - found[0])).sum(-1).mean())
            if keys_values.size:
                difference = np.linalg.norm(expected[1] - found[1]) / np.linalg.norm(expected[1])
                relative_error = float(np.maximum(relative_error, difference))
    except Exception as error:  # ONNX Runtime raises its own types, RuntimeError and others
        raise ExportError(f"the exported graph {name} does not run: {str(error).splitlines()[0]}") from error
    divergence = float(np.mean(divergences))
    bounds = [("error", max_error, MAX_ERROR)]
    if int8:
        bounds = [
            ("divergence of posteriors", divergence, MAX_DIVERGENCE),
            ("relative error of the cached keys and values", relative_error, MAX_RELATIVE_ERROR),
        ]
    hold(bounds, int8)
    return max_error, divergence


def _with_metadata(graph: onnx.ModelProto, values: Mapping[str, object]) -> onnx.ModelProto:
    onnx.helper.set_model_props(graph, {name: str(value) for name, value in values.items()})
    return graph
