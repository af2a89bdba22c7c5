"""Engines built by TensorRT-RTX without a device."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from exporters import onnx_model, tensorrt_engine
from exporters.exporter import Request
from exporters.tensorrt_engine import TensorrtError
from models.balanced_sampler import TopK, inputs
from models.case import Workload
from runners.study import reasons

pytestmark = pytest.mark.tensorrt_rtx


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch):
    monkeypatch.setattr(tensorrt_engine, "capability_here", lambda: None)


def built(tmp_path, module, *arguments, dynamic_shapes=None, **options):
    request = Request(arguments, "cpu", tmp_path, options={"module": "tensorrt_rtx", "sm": "8.9", **options})
    program = torch.export.export(module.eval(), arguments, dynamic_shapes=dynamic_shapes)
    return tensorrt_engine.export(onnx_model.export(program, request), request), request


def sampler(n):
    workload = Workload(n=n, k=n // 10, dim=16, dtype="float32", label_dtype="int64", positives=0.5)
    return TopK(workload.k), *inputs(workload, 0)


class Kept(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x.double() * 2


def test_the_static_sampler_builds_while_k_is_small(tmp_path):
    engine, request = built(tmp_path, *sampler(10_000))
    assert engine.path.stat().st_size == request.facts["artifact_bytes"] > 0
    assert (engine.sm, request.facts["sm"]) == ("8.9", "8.9")
    assert request.facts["layers"] > 0
    assert "Int64" in request.facts["build_warnings"]
    assert request.findings == []


def test_the_static_sampler_is_rejected_beyond_the_limit_of_topk(tmp_path):
    with pytest.raises(TensorrtError, match=r"K exceeds the maximum value allowed \(3840\)") as error:
        built(tmp_path, *sampler(100_000))
    reason = reasons.reason_of(error.value, "models/balanced_sampler.py")
    assert reason.code == "LIMIT.topk_k"
    assert reason.where is not None
    assert reason.where.startswith("balanced_sampler.py:")


def test_nonzero_is_refused_with_the_parsers_own_words_and_the_users_line(tmp_path):
    with pytest.raises(TensorrtError, match="does not parse the ONNX file") as error:
        built(tmp_path, Kept(), torch.ones(4))
    text = str(error.value)
    assert "UNSUPPORTED_NODE" in text
    assert "NonZero plugin creator" in text
    reason = reasons.reason_of(error.value, __file__)
    assert reason.code == "DDS.operator"
    assert reason.where is not None
    assert reason.where.startswith("test_tensorrt_engine.py:")


def test_a_refusal_does_not_leak_into_the_next_build(tmp_path):
    with pytest.raises(TensorrtError):
        built(tmp_path, Kept(), torch.ones(4))
    _, request = built(tmp_path, torch.nn.ReLU(), torch.ones(4))
    assert "build_warnings" not in request.facts


def test_float64_that_became_float32_is_found(tmp_path):
    _, request = built(tmp_path, Doubled(), torch.ones(4))
    (finding,) = request.findings
    assert (finding.verdict, finding.code) == ("partial", "DTYPE.narrowed")
    count = request.facts["narrowed_tensors"]["DOUBLE to FLOAT"]
    assert count >= 2
    assert f"{count} tensors from DOUBLE to FLOAT" in finding.text


def test_int64_stays_int64(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, x):
            return x + 2**40

    assert built(tmp_path, Add(), torch.arange(4))[1].findings == []


def test_dynamic_dimensions_get_a_profile_within_the_programs_bounds(tmp_path):
    class Best(torch.nn.Module):
        def forward(self, x):
            return x.topk(5, dim=0).values

    shapes = ({0: Dim("n", min=10, max=50)},)
    _, request = built(tmp_path, Best(), torch.rand(40, 3), dynamic_shapes=shapes)
    assert request.facts["profile"] == {"x": {"min": (10, 3), "opt": (40, 3), "max": (50, 3)}}
    _, request = built(tmp_path, torch.nn.ReLU(), torch.rand(4, 3), dynamic_shapes=({0: Dim.AUTO},))
    (profile,) = request.facts["profile"].values()
    assert profile["max"] == (8, 3)


def test_values_that_become_sizes_get_a_profile(tmp_path):
    class First(torch.nn.Module):
        def forward(self, x, count):
            return x[: count.item()]

    _, request = built(tmp_path, First(), torch.rand(8), torch.tensor(3))
    (profile,) = request.facts["profile"].values()
    assert profile == {"min": (0,), "opt": (3,), "max": (6,)}


def test_another_sm_is_built_for_and_an_unknown_one_refused(tmp_path):
    engine, _ = built(tmp_path, torch.nn.ReLU(), torch.ones(4), sm="12.0")
    assert engine.sm == "12.0"
    with pytest.raises(ValueError, match=r"builds for SM 7\.5, 8\.0, 8\.6, 8\.9, .*, not for '1\.0'"):
        built(tmp_path, torch.nn.ReLU(), torch.ones(4), sm="1.0")


@pytest.mark.parametrize(("here", "wanted"), [(None, "8.9"), ("8.6", None), ("1.0", "8.9")])
def test_a_device_that_the_package_knows_is_built_for(monkeypatch, here, wanted):
    import tensorrt_rtx

    monkeypatch.setattr(tensorrt_engine, "capability_here", lambda: here)
    assert tensorrt_engine.target(tensorrt_rtx, "8.9") == tensorrt_engine.target(tensorrt_rtx, None) == wanted


def test_nothing_is_printed(tmp_path, capfd):
    capfd.readouterr()
    request = Request((torch.ones(4),), "cpu", tmp_path, options={"module": "tensorrt_rtx"})
    model = onnx_model.export(torch.export.export(torch.nn.ReLU(), request.inputs), request)
    capfd.readouterr()
    tensorrt_engine.export(model, request)
    assert capfd.readouterr() == ("", "")
