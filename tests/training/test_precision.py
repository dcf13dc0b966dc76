"""bfloat16 is used where the device has instructions for it; elsewhere it would be ten times as slow as float32."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support.benchmark_module import load_benchmark
from torch.utils._python_dispatch import TorchDispatchMode

from asr.recipe import load_config
from asr.training.optim import orthogonalize
from asr.training.precision import autocast, multiplies_bfloat16, precision_on

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SMALL = ["model.encoder_layers=1", "model.condition_layers=[]", "model.decoder_layers=1"]


@pytest.fixture(params=["amx_bf16", "avx512_bf16", "avx2"])
def capability(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The best instructions of the CPU that PyTorch reports."""
    found = dict.fromkeys(torch.cpu.get_capabilities(), False) | {request.param: True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    multiplies_bfloat16.cache_clear()
    yield request.param
    multiplies_bfloat16.cache_clear()


def types_of_products() -> set[torch.dtype]:
    """The types of the layers' products and of the optimizer's in a training step with the default precision."""
    types: set[torch.dtype] = set()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types_, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
                types.add(args[0].dtype)
            return function(*args, **(kwargs or {}))

    config = load_config("tiny", [*SMALL, "optim.kind=muon"])
    golden = load_benchmark("golden_losses")
    learns = golden.learner(config, CPU)
    with Recorder():
        learns([golden.batch_of(config, CPU)], 1)
    return types


def test_only_a_cpu_with_instructions_gets_bfloat16(capability: str) -> None:
    has = capability.endswith("bf16")
    assert precision_on(CPU, "bf16") == ("bf16" if has else "fp32")
    assert precision_on(CPU, "fp32") == precision_on(GPU, "fp32") == "fp32"
    assert precision_on(GPU, "bf16") == "bf16"
    assert (torch.bfloat16 in types_of_products()) == has


def test_autocast_computes_in_the_precision() -> None:
    x = torch.ones(2, 2)
    for precision, kind in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        with autocast(precision, CPU):
            assert (x @ x).dtype == kind


def test_orthogonal_steps_agree_in_both_types(capability: str) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(2, 24, 40)
    result = orthogonalize(matrices)
    assert result.dtype == torch.float32
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.6 and values.max() < 1.3
    assert torch.equal(result, result.bfloat16().float()) == capability.endswith("bf16")
