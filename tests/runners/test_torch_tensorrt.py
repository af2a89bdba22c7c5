"""Torch-TensorRT: its absence for real, its partition by a stand-in."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

from exporters.exporter import Request, Unavailable
from runners import torch_tensorrt


class Engine(nn.ReLU):
    """As its runtime's modules are: no graph, and the engine's bytes."""

    serialized_engine = b"engine"


class Partition(nn.Module):
    """Children named as Torch-TensorRT names them."""

    def __init__(self, *names):
        super().__init__()
        for name in names:
            self.add_module(name, Engine() if name.startswith("_run_on_acc") else nn.ReLU())

    def forward(self, rows):
        for child in self.children():
            rows = child(rows)
        return rows


def stand_in(monkeypatch, *names):
    """`torch_tensorrt.dynamo.compile` that answers with a partition whose GPU parts are traced graphs."""
    root = Partition(*names)
    graph = fx.GraphModule(root, _Leaves().trace(root))
    for name in names:
        if name.startswith("_run_on_gpu"):
            setattr(graph, name, fx.symbolic_trace(_Nonzero()))
    dynamo = SimpleNamespace(compile=lambda *_, **__: graph)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", SimpleNamespace(dynamo=dynamo))
    return graph


class _Leaves(fx.Tracer):
    """Children stay calls of modules."""

    def is_leaf_module(self, m, module_qualified_name):
        return True


class _Nonzero(nn.Module):
    def forward(self, rows):
        return torch.nonzero(rows)


def test_without_cuda_it_is_unavailable(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("a device is here")
    with pytest.raises(Unavailable) as error:
        torch_tensorrt.probe(Request((), "cuda", tmp_path))
    assert error.value.code == "ENV.no_device"


def test_engines_alone_are_no_finding(monkeypatch, tmp_path):
    stand_in(monkeypatch, "_run_on_acc_0", "_run_on_acc_1")
    request = Request((torch.rand(3),), "cuda", tmp_path)
    engine = torch_tensorrt.load(None, request)
    assert request.facts == {"engines": 2, "operators_left": [], "artifact_bytes": 12}
    assert request.findings == []
    assert torch.equal(engine(torch.ones(3)), torch.ones(3))


def test_what_stays_in_torch_is_counted(monkeypatch, tmp_path):
    stand_in(monkeypatch, "_run_on_acc_0", "_run_on_gpu_1")
    request = Request((torch.rand(3),), "cuda", tmp_path)
    torch_tensorrt.load(None, request)
    (finding,) = request.findings
    assert finding.code == "FALLBACK.undelegated"
    assert "1 engines, 1 operators stayed in torch" in finding.text


def test_an_engine_that_was_not_built_is_none(monkeypatch, tmp_path):
    graph = stand_in(monkeypatch, "_run_on_acc_0")
    graph.add_module("_run_on_acc_0", fx.symbolic_trace(_Nonzero()))
    request = Request((torch.rand(3),), "cuda", tmp_path)
    torch_tensorrt.load(None, request)
    (finding,) = request.findings
    assert request.facts["engines"] == 0
    assert "0 engines, 1 operators stayed in torch: " in finding.text
