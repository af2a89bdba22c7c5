"""What every engine that runs on the CPU must do, for real; what is one engine's own stands in its file."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

from exporters.exporter import Request, Unavailable
from runners.backends import BACKENDS
from tests.runners.engines import BrainFloat, Drawn, Scaled, assert_as_eager, go, scaled_inputs

ENGINES = {
    # its artifact in the cell's folder, its stages in order, the module without which it is unavailable
    "executorch": ("model.pte", ["capture", "convert", "build"], "executorch.exir"),
    "iree": ("model.vmfb", ["capture", "convert", "build"], "iree.turbine.aot"),
    "openvino": (None, ["convert", "capture", "build"], "openvino"),
    "tvm": ("model.so", ["capture", "convert", "build"], "tvm"),
    "xla": (None, ["build", "capture", "convert"], "jax"),
}


def of(*names):
    return pytest.mark.parametrize("name", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in names])


each_engine = of(*ENGINES)
each_engine_that_draws = of(*(name for name in ENGINES if name != "tvm"))  # which has no `rand`


@each_engine
@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Scaled(), scaled_inputs()), (BrainFloat(), (torch.rand(5).bfloat16(),))],
    ids=["leaves", "bfloat16"],
)
def test_as_eager(name, module, inputs, tmp_path):
    artifact, stages, _ = ENGINES[name]
    engine, request = go(name, module, inputs, tmp_path)
    assert_as_eager(engine(*inputs), module, inputs)
    assert list(request.stages.seconds) == stages
    if artifact:
        assert request.facts["artifact_bytes"] == (tmp_path / artifact).stat().st_size


@each_engine
def test_outputs_are_the_users_own(name, tmp_path):
    rows = torch.rand(4)
    engine, _ = go(name, BrainFloat(), (rows,), tmp_path)
    first = engine(rows)
    kept = first.clone()
    engine(rows + 1)
    assert torch.equal(first, kept)


@each_engine_that_draws
def test_draws_are_live(name, tmp_path):
    rows = torch.zeros(16)
    engine, _ = go(name, Drawn(), (rows,), tmp_path)
    assert not torch.equal(engine(rows), engine(rows))


@each_engine
def test_a_missing_package_is_unavailable(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, ENGINES[name][2], None)
    with pytest.raises(Unavailable) as error:
        importlib.import_module(f"runners.{BACKENDS[name].runner}").probe(Request((), "cpu", tmp_path))
    assert error.value.code == "ENV.no_package"
