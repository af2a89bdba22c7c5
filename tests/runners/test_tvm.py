"""TVM for real, on the CPU."""

from __future__ import annotations

import sys

import pytest
import torch

from exporters.exporter import Request, Unavailable
from runners import tvm
from tests.runners.engines import BrainFloat, Drawn, PlainNonzero, Scaled, assert_as_eager, go, scaled_inputs

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Scaled(), scaled_inputs()), (BrainFloat(), (torch.rand(5).bfloat16(),))],
    ids=["leaves", "bfloat16"],
)
def test_as_eager(module, inputs, tmp_path):
    engine, request = go("tvm", module, inputs, tmp_path)
    assert_as_eager(engine(*inputs), module, inputs)
    assert request.facts["artifact_bytes"] == (tmp_path / "model.so").stat().st_size
    assert list(request.stages.seconds) == ["capture", "convert", "build"]


@pytest.mark.parametrize(
    ("module", "name"), [(PlainNonzero(), "nonzero.default"), (Drawn(), "rand.default")], ids=["nonzero", "rand"]
)
def test_operators_without_an_importer_are_named(module, name, tmp_path):
    with pytest.raises(AssertionError, match=f"Unsupported function types.*{name}"):
        go("tvm", module, (torch.rand(9),), tmp_path)


def test_outputs_are_the_users_own(tmp_path):
    rows = torch.rand(4)
    engine, _ = go("tvm", BrainFloat(), (rows,), tmp_path)
    first = engine(rows)
    kept = first.clone()
    engine(rows + 1)
    assert torch.equal(first, kept)


def test_a_missing_package_is_unavailable(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tvm", None)
    with pytest.raises(Unavailable) as error:
        tvm.probe(Request((), "cpu", tmp_path))
    assert error.value.code == "ENV.no_package"
