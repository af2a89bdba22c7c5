"""The runner of TensorRT and TensorRT-RTX. What needs a device is checked against the real bindings, run
with a stand-in for the engine, and run for real where a device is."""

from __future__ import annotations

import ast
import ctypes
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import exporters.tensorrt_engine
import runners.tensorrt
from exporters import exported_program, onnx_model, tensorrt_engine
from exporters.exporter import Request, Unavailable
from models.balanced_sampler import TopK, inputs
from models.case import Workload
from runners import tensorrt
from runners.runner import Built
from tests.runners import bindings

EXPORTER, RUNNER = (Path(inspect.getfile(module)) for module in (exporters.tensorrt_engine, runners.tensorrt))


class Halve(torch.nn.Module):
    def forward(self, x):
        return x / 2


def request(tmp_path, arguments, device="cpu", module="tensorrt_rtx", **options):
    return Request(arguments, device, tmp_path, options={"module": module, **options})


def built(module, asked):
    program = exported_program.export(module, asked)
    return tensorrt_engine.export(onnx_model.export(program, asked), asked)


@pytest.mark.tensorrt_rtx
def test_without_a_device_an_engine_is_built_and_not_run(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("a device is here")
    asked = request(tmp_path, (torch.ones(3),))
    tensorrt.probe(asked)
    with pytest.raises(Built, match=r"built for SM 8\.9; this machine has no CUDA device"):
        tensorrt.load(built(Halve(), asked), asked)


@pytest.mark.tensorrt_rtx
def test_an_engine_for_another_device_is_built_and_not_run(tmp_path, monkeypatch):
    asked = request(tmp_path, (torch.ones(3),), sm="12.0")
    monkeypatch.setattr(tensorrt_engine, "capability_here", lambda: None)
    engine = built(Halve(), asked)
    monkeypatch.setattr(tensorrt, "capability_here", lambda: "8.9")
    with pytest.raises(Built, match=r"built for SM 12\.0; this machine has SM 8\.9"):
        tensorrt.load(engine, asked)


@pytest.mark.tensorrt_rtx
def test_an_unknown_sm_is_refused_with_the_valid_ones(tmp_path):
    with pytest.raises(ValueError, match=r"builds for SM 7\.5, .*8\.9.*, not for '1\.0'"):
        tensorrt.probe(request(tmp_path, (), sm="1.0"))


def test_a_missing_package_is_unavailable_with_its_command(tmp_path):
    if _installed("tensorrt"):
        pytest.skip("tensorrt is here")
    with pytest.raises(Unavailable, match=r"\[tensorrt\]") as error:
        tensorrt.probe(request(tmp_path, (), module="tensorrt"))
    assert error.value.code == "ENV.no_package"


def test_a_package_that_builds_for_its_device_only_needs_one(tmp_path, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("a device is here")
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(
        tensorrt.importlib, "import_module", lambda name: SimpleNamespace(__name__=name, __version__="10.0")
    )
    with pytest.raises(Unavailable) as error:
        tensorrt.probe(request(tmp_path, (), module="tensorrt"))
    assert error.value.code == "ENV.no_device"


@pytest.mark.tensorrt_rtx
def test_every_name_and_signature_used_is_that_of_the_bindings():
    import tensorrt_rtx as trt

    classes = {
        EXPORTER: {
            "builder": trt.Builder,
            "network": trt.INetworkDefinition,
            "parser": trt.OnnxParser,
            "config": trt.IBuilderConfig,
            "profile": trt.IOptimizationProfile,
            "engine": trt.IHostMemory,
            "layer": trt.ILayer,
            "fill": trt.IFillLayer,
            "error": trt.ParserError,
        },
        RUNNER: {"runtime": trt.Runtime, "engine": trt.ICudaEngine, "context": trt.IExecutionContext},
    }
    for path, variables in classes.items():
        assert bindings.missing(path, "trt", trt) == []
        assert bindings.missing(path, "torch", torch) == []
        used, wrong = bindings.misuses(path, variables)
        assert wrong == []
        assert {name.split(".")[0] for name in used} == set(variables), "a variable of this test is not in the source"


@pytest.mark.tensorrt_rtx
def test_the_output_allocator_overrides_what_tensorrt_calls():
    import tensorrt_rtx as trt

    documented = dict(re.findall(r"def (\w+)\(self, (.*?)\):", trt.IOutputAllocator.__doc__))
    (allocator,) = (
        node
        for node in ast.walk(ast.parse(RUNNER.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name == "Allocator"
    )
    ours = {
        method.name: ", ".join(argument.arg for argument in method.args.args[1:])
        for method in allocator.body
        if isinstance(method, ast.FunctionDef)
    }
    assert documented.keys() == {"reallocate_output", "reallocate_output_async", "notify_shape"}
    assert {name: ours[name] for name in documented} == documented


class StandIn:
    """An engine and its context that keep, of a float32 vector, the positive values and their number."""

    num_io_tensors = 3
    dtypes = {"x": "FLOAT", "kept": "FLOAT", "count": "INT64"}  # noqa: RUF012

    def __init__(self):
        self.addresses, self.allocators, self.shape = {}, {}, None

    def get_tensor_name(self, index):
        return list(self.dtypes)[index]

    def get_tensor_mode(self, name):
        return "in" if name == "x" else "out"

    def get_tensor_dtype(self, name):
        return SimpleNamespace(name=self.dtypes[name])

    def get_tensor_location(self, name):
        return "device"

    def set_input_shape(self, name, shape):
        self.shape = shape
        return len(shape) == 1

    def get_tensor_shape(self, name):
        return (-1,) if name == "kept" else ()

    def set_tensor_address(self, name, address):
        assert address
        self.addresses[name] = address
        return True

    def set_output_allocator(self, name, allocator):
        self.allocators[name] = allocator
        return True

    def execute_async_v3(self, stream):
        values = (ctypes.c_float * self.shape[0]).from_address(self.addresses["x"]) if self.shape[0] else []
        kept = [value for value in values if value > 0]
        address = self.allocators["kept"].reallocate_output_async("kept", None, 4 * len(kept), 256, stream)
        (ctypes.c_float * len(kept)).from_address(address)[:] = kept
        self.allocators["kept"].notify_shape("kept", (len(kept),))
        ctypes.c_int64.from_address(self.addresses["count"]).value = len(kept)
        return True


@pytest.fixture
def positive(tmp_path, monkeypatch):
    trt = SimpleNamespace(
        TensorIOMode=SimpleNamespace(INPUT="in", OUTPUT="out"),
        TensorLocation=SimpleNamespace(HOST="host"),
        IOutputAllocator=object,
    )
    engine = StandIn()
    model = SimpleNamespace(
        flatten=lambda arguments, device: {"x": arguments[0]}, restore=lambda values: (values["kept"], values["count"])
    )
    source = SimpleNamespace(module="stand_in", model=model)
    log = SimpleNamespace(lines=[], text=lambda: "its own words")
    monkeypatch.setattr(tensorrt, "logger", lambda trt: log)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=7))
    return tensorrt._callable(trt, None, engine, engine, source, Request((), "cpu", tmp_path))


def test_a_data_dependent_output_is_allocated_inside_the_call(positive):
    kept, count = positive(torch.tensor([1.0, -1.0, 3.0]))
    assert kept.tolist() == [1.0, 3.0]
    assert count.item() == 2
    later, _ = positive(torch.tensor([5.0, 6.0]))
    assert kept.tolist() == [1.0, 3.0]
    assert later.tolist() == [5.0, 6.0]


def test_an_empty_input_and_an_empty_output_have_an_address(positive):
    kept, count = positive(torch.empty(0))
    assert kept.shape == (0,)
    assert count.item() == 0


def test_a_refused_shape_raises_with_tensorrts_own_words(positive):
    with pytest.raises(tensorrt_engine.TensorrtError, match=r"refuses x of shape \(1, 1\)\nits own words"):
        positive(torch.ones(1, 1))


@pytest.mark.gpu
@pytest.mark.parametrize("module", ["tensorrt", "tensorrt_rtx"])
def test_on_a_device_the_sampler_equals_eager(tmp_path, module):
    workload = Workload(n=1000, k=100, dim=16, dtype="float32", label_dtype="int64", positives=0.5)
    variant = TopK(100).eval()
    features, labels = inputs(workload, 0)
    arguments = tuple(tensor.cuda() for tensor in (features, labels, variant.noise(features, labels)))
    asked = request(tmp_path, arguments, "cuda", module)
    try:
        tensorrt.probe(asked)
        loaded = tensorrt.load(built(variant, asked), asked)
    except (Unavailable, Built) as reason:
        pytest.skip(str(reason))
    with torch.cuda.stream(torch.cuda.Stream()):
        for got, wanted in zip(loaded(*arguments), variant(*arguments), strict=True):
            assert torch.equal(got, wanted)


def _installed(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


@pytest.mark.tensorrt_rtx
def test_the_targets_offered_are_those_of_the_binding() -> None:
    from exporters.tensorrt_engine import compute_capabilities
    from runners.backends import RTX_TARGETS

    assert sorted(RTX_TARGETS) == sorted(compute_capabilities(pytest.importorskip("tensorrt_rtx")))
