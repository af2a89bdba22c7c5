"""ExecuTorch for real, with XNNPACK and with portable kernels alone."""

from __future__ import annotations

import pytest
import torch

from exporters import executorch_program, exported_program
from exporters.exporter import Request
from runners import executorch
from tests.runners.engines import BrainFloat, PlainNonzero, Scaled, assert_as_eager, go, scaled_inputs

pytestmark = pytest.mark.executorch


def test_operators_are_counted_with_and_without_xnnpack(tmp_path):
    inputs = scaled_inputs()
    _, request = go("executorch", Scaled(), inputs, tmp_path)
    assert request.facts["delegated_operators"] > 0
    assert request.findings == [], "what XNNPACK leaves runs on ExecuTorch's own kernels"
    portable = Request(inputs, "cpu", tmp_path)
    artifact = executorch_program.export(exported_program.export(Scaled(), portable), portable)
    assert portable.facts["delegated_operators"] == 0
    assert portable.facts["undelegated_operators"] > request.facts["undelegated_operators"]
    assert_as_eager(executorch.load(artifact, portable)(*inputs), Scaled(), inputs)


def test_plain_nonzero_builds_and_fails_when_run_with_the_runtimes_words(tmp_path):
    inputs = (torch.rand(9),)
    engine, _ = go("executorch", PlainNonzero(), inputs, tmp_path)
    with pytest.raises(RuntimeError) as error:
        engine(*inputs)
    assert "failed with error 0x12" in str(error.value)
    assert "KernelCall failed at instruction" in str(error.value), "printed on standard error, kept in the message"


def test_another_shape_is_refused_in_words(tmp_path):
    engine, _ = go("executorch", BrainFloat(), (torch.rand(4),), tmp_path)
    with pytest.raises(RuntimeError, match="Attempted to resize a static tensor"):
        engine(torch.rand(5))
