"""Export: PyTorch and the .onnx file are one function, and a file that is not never gets written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from conftest import shared_folder
from filelock import FileLock

from asr._core import ONNX_OPSET
from asr.cli import main
from asr.config import Config, DataConfig, ModelConfig
from asr.export import write as export_write
from asr.export.graph import ExportError, decoder_graph, step_graph
from asr.export.parity import Case, check_parity, speech_like, step_onnx, step_torch
from asr.export.write import describe, export_model, in_half_precision
from asr.model.model import AsrModel
from asr.runtime.metadata import MetadataError, ModelMetadata
from asr.runtime.onnx_model import INPUTS, OUTPUTS, PHONE_OUTPUT, OnnxModel
from asr.tokenizer import SOS_EOS_ID, Tokenizer
from asr.training.checkpoint import Checkpoint, checkpoint_path

TOKENS = ("<blk>", "<unk>", "<sos/eos>", "▁", *"ABCDEFGHIJ")
SMALL = ModelConfig(
    dim=32,
    num_heads=2,
    encoder_layers=2,
    encoder_ff_dim=64,
    decoder_layers=2,
    decoder_ff_dim=64,
    subsampling_channels=4,
    vocab_size=len(TOKENS),
    phones=("AA", "B", "K"),
)


def make_checkpoint(config: ModelConfig = SMALL) -> Checkpoint:
    """A seeded random model; everything that starts at zero or one is moved away from it."""
    torch.manual_seed(5)
    model = AsrModel(config)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.encoder.set_cmvn(torch.linspace(-12, -8, 80), torch.linspace(2, 4, 80))
    average = model.state_dict()
    weights = {name: torch.zeros_like(value) for name, value in average.items()}  # what must not be exported
    training = {
        "step": 7,
        "audio_hours": 1.25,
        "history": [{"step": 5, "wer": {"full": 0.5, "640ms": 0.625}}],
    }
    everything = Config(model=config, data=DataConfig(train=("data/some.jsonl.gz",)))
    return Checkpoint(everything, Tokenizer("char", TOKENS), weights, average, training)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return make_checkpoint()


@pytest.fixture(scope="module")
def traced(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], onnx.ModelProto]:
    """The graphs of `checkpoint` by the name of their maker, fresh copies: tracing takes seconds, so that it is done
    once for all processes of pytest-xdist."""
    folder = shared_folder(tmp_path_factory) / "traced"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            model, part = in_half_precision(checkpoint.model()), tmp_path_factory.mktemp("traced")
            for make in (step_graph, decoder_graph):
                onnx.save(make(model), part / make.__name__)
            part.rename(folder)
    return lambda name: onnx.load(folder / name)


@pytest.fixture
def quick(traced: Callable[[str], onnx.ModelProto], monkeypatch: pytest.MonkeyPatch) -> None:
    reuse(traced, monkeypatch)


def reuse(traced: Callable[[str], onnx.ModelProto], patch: pytest.MonkeyPatch) -> None:
    """Lets `export_model(checkpoint, ...)` take the graphs that were traced already."""
    for name in ("step_graph", "decoder_graph"):
        patch.setattr(export_write, name, lambda model, name=name: traced(name))


@pytest.fixture(scope="module")
def exported(
    checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    with pytest.MonkeyPatch.context() as patch:
        reuse(traced, patch)
        export_model(checkpoint, path, chunk_size=8, left_context=32, rescore_ctc_weight=0.25, license="CC-BY-4.0")
    return path


@pytest.fixture(scope="module")
def exported_int8(
    checkpoint: Checkpoint, traced: Callable[[str], onnx.ModelProto], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("int8") / "model.int8.onnx"
    with pytest.MonkeyPatch.context() as patch:
        reuse(traced, patch)
        export_model(checkpoint, path, int8=True)
    return path


@pytest.mark.parametrize(
    "training",
    [
        {"step": torch.zeros(2)},
        {"audio_hours": None},
        {"history": 5},
        {"history": {"a": 1}},
        {"history": torch.zeros(2)},
        {"history": [None]},
        {"history": [{"wer": [0.5]}]},
        {"history": [{"wer": {"full": None}}]},
    ],
    ids=str,
)
def test_a_damaged_summary_of_the_training_is_named(checkpoint: Checkpoint, training: dict[str, object]) -> None:
    with pytest.raises(ExportError, match=r"summary of the training .* is damaged .* another checkpoint"):
        describe(dataclasses.replace(checkpoint, training=training))


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 16, 64, 50),
        Case(4, 5, 12, 50),
        Case(2, 3, 0, 52),
        Case(1, 1, 0, 60),
        Case(2, 1, 1, 60),
        Case(1, 70, 100, 50),
    ],
    ids=str,
)
def test_pytorch_step_equals_onnx_with_the_cache_carried(checkpoint: Checkpoint, exported: Path, case: Case) -> None:
    model = in_half_precision(checkpoint.model())
    features, num_frames = speech_like(model, case, seed=99)
    expected, cache = step_torch(model, features, num_frames, case)
    found, onnx_cache = step_onnx(OnnxModel(exported), features, num_frames, case)
    for stream, other, length in zip(expected, found, num_frames, strict=True):
        assert [array.shape for array in other] == [(length // 4, size) for size in (len(TOKENS), SMALL.dim, 7)]
        for a, b in zip(stream, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-3)
    for a, b in zip(cache, onnx_cache, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": "relative", "activation": "gelu", "dropout": 0.3},
        {"position": "none", "norm": "post", "activation": "swiglu", "phones": ()},
    ],
    ids=str,
)
def test_every_kind_of_model_passes_the_gate(changes: dict[str, object], tmp_path: Path) -> None:
    # What more layers carry in their caches is tested above.
    checkpoint = make_checkpoint(dataclasses.replace(SMALL, decoder_layers=1, **changes))  # type: ignore[arg-type]
    report = export_model(checkpoint, tmp_path / "model.onnx")
    assert report.parity.max_error < 1e-4 and report.parity.num_chunks >= 50
    model, phones = OnnxModel(tmp_path / "model.onnx"), changes.get("phones", SMALL.phones)
    output = model.step(np.zeros((1, 19, 80), np.float32), np.array([19]), model.init_cache(1, 4))
    assert (output.phone_log_probs is not None) == bool(phones) == bool(model.metadata.num_phone_tokens)
    assert model.metadata.phones == phones


def test_a_model_without_phones_does_not_score_them() -> None:
    with pytest.raises(ValueError, match="no phone head"):
        AsrModel(dataclasses.replace(SMALL, phones=())).phone_log_probs(torch.zeros(1, 1, SMALL.dim))


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_absolute_positions_are_refused(position: str, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(dataclasses.replace(SMALL, position=position))
    with pytest.raises(ExportError, match=f"{position}.*rope, relative or none"):
        export_model(checkpoint, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("int8", [False, True])
def test_a_stream_alone_equals_the_same_stream_in_a_batch(
    checkpoint: Checkpoint, exported: Path, exported_int8: Path, int8: bool
) -> None:
    case = Case(5, 6, 20, 50)
    features, num_frames = speech_like(checkpoint.model(), case, seed=3)
    model = OnnxModel(exported_int8 if int8 else exported)
    together, cache = step_onnx(model, features, num_frames, case)
    for row in range(case.batch_size):
        one = slice(row, row + 1)
        alone, own = step_onnx(model, features[one], num_frames[one], case._replace(batch_size=1))
        for a, b in zip((*alone[0], *own), (*together[row], *(array[one] for array in cache)), strict=True):
            if int8:
                assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
        for head in (0, 2):
            assert np.array_equal(alone[0][head].argmax(-1), together[row][head].argmax(-1))


def test_in_int8_what_is_not_finite_stays_in_its_stream(exported: Path, exported_int8: Path) -> None:
    features = np.random.default_rng(0).normal(-9, 3, (3, 35, 80)).astype(np.float32)
    num_valid = np.array([35, 35, 20])
    clean = OnnxModel(exported_int8).step(features, num_valid, OnnxModel(exported_int8).init_cache(3, 5))
    features[0] = 0.0  # digital zeros are no division by zero
    features[1, 9, 5], features[2, 24:] = np.nan, np.nan  # a valid frame; padding, which is ignored
    for path in (exported, exported_int8):
        found = OnnxModel(path).step(features, num_valid, OnnxModel(path).init_cache(3, 5))
        for array in (found.log_probs, found.encoder_out, found.cache.keys):
            assert np.isfinite(array[0]).all() and np.isnan(array[1]).any() and np.isfinite(array[2]).all()
    assert found.log_probs[2, :5].tobytes() == clean.log_probs[2, :5].tobytes()


def test_scores_equal_the_decoder(checkpoint: Checkpoint, exported: Path) -> None:
    random = np.random.default_rng(1)
    encoder_out = random.standard_normal((33, SMALL.dim)).astype(np.float32)
    tokens = [[3, 4, 5], [], [4] * 20, [5, 5, 6, 7]]
    found = OnnxModel(exported).score(tokens, encoder_out)
    decoder = in_half_precision(checkpoint.model()).decoder
    for row, score in zip(tokens, found, strict=True):
        with torch.no_grad():
            ids, lengths = torch.tensor([row or [0]]), torch.tensor([len(row)])
            expected = decoder.score(ids, lengths, torch.from_numpy(encoder_out)[None], torch.tensor([33]))
        assert score == pytest.approx(float(expected), abs=1e-5 * (len(row) + 1))


def test_decoder_steps_equal_the_decoder(checkpoint: Checkpoint, exported: Path) -> None:
    """Hypotheses of one utterance, some dropped and some taken twice between steps, as a beam search does."""
    random = np.random.default_rng(2)
    encoder_out = random.standard_normal((21, SMALL.dim)).astype(np.float32)
    model = OnnxModel(exported)
    assert model.has_decoder_steps
    cache = model.decoder.begin(encoder_out)
    tokens = np.full((1, 1), SOS_EOS_ID)
    decoder, memory = in_half_precision(checkpoint.model()).decoder, torch.from_numpy(encoder_out)[None]
    for rows in ([0, 0, 0], [2, 0, 1, 1], [3, 0], [1, 1, 0]):
        log_probs, new = model.decoder.step(tokens[:, -1], cache)
        with torch.no_grad():
            logits = decoder(
                torch.from_numpy(tokens), memory.expand(len(tokens), -1, -1), torch.full((len(tokens),), 21)
            )
        np.testing.assert_allclose(log_probs, logits[:, -1].log_softmax(-1), rtol=0, atol=1e-4)
        assert new.keys.shape == new.values.shape == (len(tokens), SMALL.decoder_layers, tokens.shape[1], SMALL.dim)
        assert new.memory_keys.shape == (1, SMALL.decoder_layers, 21, SMALL.dim)
        cache = new.select(rows)
        tokens = np.concatenate([tokens[rows], random.integers(3, len(TOKENS), (len(rows), 1))], axis=1)


def test_graph_is_dynamic_standard_and_bare(traced: Callable[[str], onnx.ModelProto]) -> None:
    graph = traced("step_graph")
    assert [(o.domain, o.version) for o in graph.opset_import] == [("", ONNX_OPSET)]
    assert {node.domain for node in graph.graph.node} == {""}
    dims = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.graph.input, *graph.graph.output)
    ]
    cache, new = ["N", 2, "C", 32], "(T-3)/4"
    assert dims == [
        ["N", "T", 80],
        ["N"],
        cache,
        cache,
        ["N"],
        ["N", new, 14],
        ["N", new, 32],
        cache,
        cache,
        ["N"],
        ["N", new, 7],
    ]
    assert [v.name for v in graph.graph.input] == list(INPUTS)
    assert [v.name for v in graph.graph.output] == [*OUTPUTS, PHONE_OUTPUT]
    text = graph.SerializeToString()
    assert b"/work" not in text and b".py" not in text, "the file tells of the machine that wrote it"
    # Waste that exporters leave: guards for rows that see nothing, random numbers of dropout, constant
    # folding undone.
    kinds = {node.op_type for node in graph.graph.node}
    assert not kinds & {"IsNaN", "RandomUniformLike", "Identity", "Dropout", "If", "Loop"}


def test_metadata_says_everything(checkpoint: Checkpoint, exported: Path) -> None:
    meta = OnnxModel(exported).metadata
    assert meta.tokens == TOKENS and meta.phones == ("AA", "B", "K")
    assert (meta.num_layers, meta.dim, meta.default_chunk_size, meta.default_left_context) == (2, 32, 8, 32)
    assert (meta.rescore_ctc_weight, meta.license, meta.quantization) == (0.25, "CC-BY-4.0", "none")
    np.testing.assert_allclose(meta.cmvn_mean, np.linspace(-12, -8, 80), rtol=1e-5)
    np.testing.assert_allclose(meta.cmvn_std, np.linspace(2, 4, 80), rtol=1e-5)
    assert meta.config["model"]["encoder_ff_dim"] == 64
    assert meta.training["steps"] == 7 and meta.training["audio_hours"] == 1.25
    assert meta.training["wer"] == {"full": 0.5, "640ms": 0.625} and meta.training["data"] == ["some.jsonl.gz"]
    assert list(exported.parent.iterdir()) == [exported], "one file is all"


def matrices(path: Path) -> list[onnx.TensorProto]:
    return [i for i in onnx.load(path).graph.initializer if len(i.dims) >= 2 and min(i.dims) > 1]


def test_a_float_file_stores_matrices_in_16_bits_and_means_32(checkpoint: Checkpoint, exported: Path) -> None:
    assert {i.data_type for i in matrices(exported)} == {onnx.TensorProto.FLOAT16}, "a weight matrix stayed wide"
    model = checkpoint.model()
    before = {name: value.clone() for name, value in model.named_parameters()}
    after = dict(in_half_precision(model).named_parameters())
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed == {name for name, value in before.items() if value.dim() >= 2}
    for name in changed:
        torch.testing.assert_close(after[name], before[name], rtol=2**-11, atol=2**-25)
    with torch.no_grad():
        model.ctc.weight[0, 0] = 1e5  # float16 ends at 65504
    assert in_half_precision(model).ctc.weight[0, 0] == 1e5


def test_int8_is_smaller_and_close(checkpoint: Checkpoint, exported: Path, exported_int8: Path) -> None:
    model = OnnxModel(exported_int8)
    assert model.metadata.quantization == "int8" and model.metadata.batch_invariant
    graph, float_graph = onnx.load(exported_int8), onnx.load(exported)
    assert {node.domain for node in graph.graph.node} == {""}
    products = [i for i in matrices(exported_int8) if len(i.dims) == 2]
    assert {i.data_type for i in products} == {onnx.TensorProto.INT8}, "a weight matrix stayed float"
    # Metadata and nodes are most of a model this small: the weights are compared, not the files.
    size, float_size = (sum(len(i.raw_data) for i in g.graph.initializer) for g in (graph, float_graph))
    assert size < 0.7 * float_size
    assert len(model.metadata.decoder_onnx) < len(OnnxModel(exported).metadata.decoder_onnx)
    report = check_parity(in_half_precision(checkpoint.model()), model)
    assert 1e-6 < report.relative_error < 0.1 and report.agreement > 0.9


def _change_weight(graph: onnx.ModelProto) -> None:
    weight = next(i for i in graph.graph.initializer if len(i.dims) == 2 and i.data_type == onnx.TensorProto.FLOAT)
    array = onnx.numpy_helper.to_array(weight).copy()
    array[0, 0] += 0.05
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))


def _swap_operator(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Cos").op_type = "Sin"


def _break_mask(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Less").op_type = "Greater"


def _break_int8_weight(graph: onnx.ModelProto) -> None:
    weight = next(i for i in graph.graph.initializer if i.data_type == onnx.TensorProto.INT8 and len(i.dims) == 2)
    array = -onnx.numpy_helper.to_array(weight)
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))


def _make_unrunnable(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "Softmax").op_type = "NoSuchOperator"


@pytest.mark.parametrize(
    ("tamper", "int8"),
    [
        (_change_weight, False),
        (_swap_operator, False),
        (_break_mask, False),
        (_make_unrunnable, False),
        (_break_int8_weight, True),
    ],
)
def test_the_gate_refuses_a_tampered_graph(
    quick: None,
    tamper: Callable[[onnx.ModelProto], None],
    int8: bool,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "model.onnx"
    output.write_bytes(b"the good file of yesterday")
    name = "quantize" if int8 else "step_graph"
    make = getattr(export_write, name)

    def tampered(source: object) -> onnx.ModelProto:
        graph = make(source)
        if "log_probs" in [o.name for o in graph.graph.output]:
            tamper(graph)
        return graph

    monkeypatch.setattr(export_write, name, tampered)
    with pytest.raises(ExportError, match="exported"):
        export_model(checkpoint, output, int8=int8)
    assert output.read_bytes() == b"the good file of yesterday"
    assert list(tmp_path.iterdir()) == [output]


def _break_causality(graph: onnx.ModelProto) -> None:
    next(n for n in graph.graph.node if n.op_type == "LessOrEqual").op_type = "GreaterOrEqual"


def _break_cache(graph: onnx.ModelProto) -> None:
    node = next(n for n in graph.graph.node if n.output[0] == "new_value_cache")
    node.CopyFrom(onnx.helper.make_node("Identity", ["new_key_cache"], ["new_value_cache"]))


@pytest.mark.parametrize(("tamper", "error"), [(_break_causality, "decoder score"), (_break_cache, "decoder step")])
def test_the_gate_refuses_a_tampered_decoder(
    quick: None,
    tamper: Callable[[onnx.ModelProto], None],
    error: str,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = export_write.decoder_graph

    def tampered(model: AsrModel) -> onnx.ModelProto:
        graph = make(model)
        tamper(graph)
        return graph

    monkeypatch.setattr(export_write, "decoder_graph", tampered)
    with pytest.raises(ExportError, match=error):
        export_model(checkpoint, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_command_writes_a_file_and_tells_how_close_it_is(
    quick: None, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    checkpoint.save(tmp_path / "run" / "checkpoint-7.pt")
    output = tmp_path / "out.onnx"
    assert main(["export", str(tmp_path / "run"), "-o", str(output), "--int8", "--chunk-ms", "320"]) == 0
    printed = capsys.readouterr()
    assert "int8" in printed.out and "KL divergence" in printed.out
    told = printed.err.splitlines()
    assert told[0] == "asr export: tracing the encoder ..." and "the int8 file" in told[-1] and len(told) == 4
    meta = OnnxModel(output).metadata
    assert (meta.default_chunk_size, meta.default_left_context) == (8, 64)


def test_command_exports_the_mean_of_the_newest_checkpoints(
    quick: None, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of those of steps 2 and 3, as trained: the gate holds them to the graphs of `checkpoint`."""
    run, output = tmp_path / "run", tmp_path / "out.onnx"
    run.mkdir()
    for step, shift in ((1, 1.0), (2, 0.5), (3, -0.5)):
        weights = {name: value + shift for name, value in checkpoint.average.items()}
        training = {**checkpoint.training, "step": step}
        dataclasses.replace(checkpoint, weights=weights, average=weights, training=training).save_step(run, 3)
    checkpoint_path(run, 1).rename(run / "best.pt")
    checkpoint_path(run, 2).with_name("checkpoint-1.pt").write_bytes(b"damaged, and not asked for")
    assert main(["export", str(run), "-o", str(output), "--average", "2"]) == 0
    assert f"{run}, mean of 2 checkpoints to step 3 -> {output}" in capsys.readouterr().out
    assert main(["export", str(run), "-o", str(output), "--average", "4"]) == 1
    assert "cannot average 4 checkpoints of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "model.onnx", "--chunk-ms", "100"], "--chunk-ms 100 must be a multiple of 40"),
        (["-o", "model.onnx", "--left-context-ms", "-40"], "--left-context-ms -40"),
        (["-o", "model.bin"], "must end in .onnx"),
        (["-o", "no/such/folder/model.onnx"], "no folder"),
        (["-o", "model.onnx", "--rescore-ctc-weight", "1.5"], "rescore_ctc_weight"),
        (["-o", "model.onnx", "--average", "2"], "c.pt is not the folder of a training run"),
    ],
)
def test_command_names_the_wrong_option(
    options: list[str],
    message: str,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint.save(tmp_path / "c.pt")
    assert main(["export", "c.pt", *options]) == 1
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["c.pt"]


def test_damage_to_the_phone_head_alone_is_found(checkpoint: Checkpoint, exported: Path, tmp_path: Path) -> None:
    graph = onnx.load(exported)
    (bias,) = (i for i in graph.graph.initializer if i.name.endswith("phone_ctc.bias"))
    values = onnx.numpy_helper.to_array(bias).copy()
    values[5] += 0.5
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    onnx.save(graph, tmp_path / "damaged.onnx")
    with pytest.raises(ExportError, match="differs from PyTorch"):
        check_parity(checkpoint.model(), OnnxModel(tmp_path / "damaged.onnx"))


def test_files_of_older_formats_lack_what_came_later(exported: Path) -> None:
    properties = OnnxModel(exported).metadata.to_properties()
    assert properties["format_version"] == "3" and properties["phones"] == "AA\nB\nK"
    assert properties["num_decoder_layers"] == "2"
    steps = {key: value for key, value in properties.items() if key != "num_decoder_layers"}
    phones = {key: value for key, value in steps.items() if key != "phones"}
    with pytest.raises(MetadataError, match="num_decoder_layers is missing"):
        ModelMetadata.from_properties(steps)
    assert ModelMetadata.from_properties(steps | {"format_version": "2"}).num_decoder_layers == 0
    with pytest.raises(MetadataError, match="phones is missing"):
        ModelMetadata.from_properties(phones | {"format_version": "2"})
    assert ModelMetadata.from_properties(phones | {"format_version": "1"}).phones == ()
    with pytest.raises(MetadataError, match="reads 1 to 3"):
        ModelMetadata.from_properties(properties | {"format_version": "4"})
    with pytest.raises(MetadataError, match="different phones"):
        ModelMetadata.from_properties(properties | {"phones": "AA\nAA"})
