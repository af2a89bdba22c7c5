"""IREE for real, on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exporters import exported_program, iree_module
from exporters.exporter import Request
from tests.runners.engines import BrainFloat, go

pytestmark = pytest.mark.iree


class NonzeroByDimension(nn.Module):
    """Plain `nonzero` is taken by IREE 3.13; its other form has no lowering."""

    def forward(self, rows):
        return torch.nonzero(rows > 0.5, as_tuple=True)


def test_diagnostics_are_part_of_the_error(tmp_path):
    with pytest.raises(RuntimeError) as error:
        go("iree", NonzeroByDimension(), (torch.rand(9),), tmp_path)
    # Printed on standard error, kept in the message.
    assert "failed to legalize operation 'torch.aten.nonzero_numpy'" in str(error.value)


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
