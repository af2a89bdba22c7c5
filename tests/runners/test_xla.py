"""XLA for real, on the CPU."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from torch._ops import OpOverloadPacket

from exporters.exporter import Request, Unavailable
from runners import xla
from tests.runners.engines import BrainFloat, Drawn, PlainNonzero, Scaled, assert_as_eager, go, scaled_inputs

pytestmark = pytest.mark.xla


class Leaves(nn.Module):
    """A number and a None go in and come out; the draw names no device."""

    def forward(self, rows, count, nothing):
        return rows * count, nothing, count, torch.rand(4)


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Scaled(), scaled_inputs()), (BrainFloat(), (torch.rand(5).bfloat16(),))],
    ids=["leaves", "bfloat16"],
)
def test_as_eager(module, inputs, tmp_path):
    engine, request = go("xla", module, inputs, tmp_path)
    assert_as_eager(engine(*inputs), module, inputs)
    engine.inspect()
    assert request.facts["compilations"] == 1
    assert list(request.stages.seconds) == ["build", "capture", "convert"]
    assert request.facts["stablehlo_operators"] >= 4


def test_another_shape_is_another_compilation(tmp_path):
    engine, request = go("xla", BrainFloat(), (torch.rand(4),), tmp_path)
    inputs = (torch.rand(2, 3),)
    assert_as_eager(engine(*inputs), BrainFloat(), inputs)
    engine.inspect()
    assert request.facts["compilations"] == 2


def test_draws_are_live_because_the_key_goes_round(tmp_path):
    rows = torch.zeros(16)
    engine, _ = go("xla", Drawn(), (rows,), tmp_path)
    assert not torch.equal(engine(rows), engine(rows))


def test_leaves_that_are_no_tensors(tmp_path):
    rows = torch.rand(3)
    engine, _ = go("xla", Leaves(), (rows, 3, None), tmp_path)
    product, nothing, count, drawn = engine(rows, 3, None)
    assert torch.equal(product, rows * 3)
    assert nothing is None
    assert count == 3
    assert not torch.equal(drawn, engine(rows, 3, None)[3])
    assert torch.equal(engine(rows, 2, None)[0], rows * 2)


def test_plain_nonzero_needs_a_size(tmp_path):
    with pytest.raises(Exception, match=r"The size argument of jnp\.nonzero must be statically specified"):
        go("xla", PlainNonzero(), (torch.rand(9),), tmp_path)


def test_the_shim_answers_for_lost_overloads_only_and_leaves_no_trace():
    look_up = OpOverloadPacket.__getattr__
    with xla._missing_overloads():
        assert "no longer has" in str(torch.ops.aten.prod.a_dimname)
        assert torch.ops.aten.add.Tensor is not None
        with pytest.raises(AttributeError):
            _ = torch.ops.aten.prod.no_such_overload
    assert OpOverloadPacket.__getattr__ is look_up


def test_a_missing_package_is_unavailable(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(Unavailable) as error:
        xla.probe(Request((), "cpu", tmp_path))
    assert error.value.code == "ENV.no_package"
