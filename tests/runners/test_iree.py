"""IREE for real, on the CPU."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from exporters import exported_program, iree_module
from exporters.exporter import Request, Unavailable
from runners import iree
from tests.runners.engines import BrainFloat, Drawn, Scaled, assert_as_eager, go, scaled_inputs

pytestmark = pytest.mark.iree


class NonzeroByDimension(nn.Module):
    """Plain `nonzero` is taken by IREE 3.13; its other form has no lowering."""

    def forward(self, rows):
        return torch.nonzero(rows > 0.5, as_tuple=True)


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(Scaled(), scaled_inputs()), (BrainFloat(), (torch.rand(5).bfloat16(),))],
    ids=["leaves", "bfloat16"],
)
def test_as_eager(module, inputs, tmp_path):
    engine, request = go("iree", module, inputs, tmp_path)
    assert_as_eager(engine(*inputs), module, inputs)
    assert request.facts["artifact_bytes"] == (tmp_path / "model.vmfb").stat().st_size
    assert list(request.stages.seconds) == ["capture", "convert", "build"]


def test_diagnostics_are_part_of_the_error(tmp_path):
    with pytest.raises(RuntimeError) as error:
        go("iree", NonzeroByDimension(), (torch.rand(9),), tmp_path)
    # Printed on standard error, kept in the message.
    assert "failed to legalize operation 'torch.aten.nonzero_numpy'" in str(error.value)


def test_draws_are_live(tmp_path):
    rows = torch.zeros(16)
    engine, _ = go("iree", Drawn(), (rows,), tmp_path)
    assert not torch.equal(engine(rows), engine(rows))


def test_outputs_are_the_users_own(tmp_path):
    rows = torch.rand(4)
    engine, _ = go("iree", BrainFloat(), (rows,), tmp_path)
    first = engine(rows)
    kept = first.clone()
    engine(rows + 1)
    assert torch.equal(first, kept)


def test_whether_it_builds_for_a_gpu_that_is_not_here_is_a_fact(tmp_path):
    request = Request((torch.rand(4),), "cpu", tmp_path, options={"sm": "8.9"})
    iree_module.export(exported_program.export(BrainFloat(), request), request)
    assert request.facts["built_for_cuda"] is True
    assert request.facts["cuda_artifact_bytes"] == (tmp_path / "model.cuda.vmfb").stat().st_size


def test_what_does_not_build_for_a_gpu_runs_here_all_the_same(tmp_path, monkeypatch):
    compile_for = iree_module._compile

    def no_gpu(imported, path, target, *flags):
        if target == "cuda":
            raise RuntimeError("Compilation failed: See diagnostics\nloc(3): error: failed to bufferize op\nmore")
        compile_for(imported, path, target, *flags)

    monkeypatch.setattr(iree_module, "_compile", no_gpu)
    request = Request((torch.rand(4),), "cpu", tmp_path, options={"sm": "8.9"})
    artifact = iree_module.export(exported_program.export(BrainFloat(), request), request)
    assert request.facts["built_for_cuda"] == "loc(3): error: failed to bufferize op"
    assert artifact.path.is_file()


def test_a_missing_package_is_unavailable(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "iree.turbine.aot", None)
    with pytest.raises(Unavailable) as error:
        iree.probe(Request((), "cpu", tmp_path))
    assert error.value.code == "ENV.no_package"
