"""ONNX Runtime on the CPU for real; CUDA and TensorRT by their real bindings, by stand-ins, and for real
where a device is."""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import runners.onnxruntime
from exporters import exported_program, onnx_model, program_for_onnx
from exporters.exporter import Request, Unavailable
from models.balanced_sampler import TopK, TopKShuffled, faults, inputs
from models.case import Workload
from runners import onnxruntime
from runners.onnxruntime import CPU, CUDA, TENSORRT, TENSORRT_RTX
from tests.runners import bindings

WORKLOAD = Workload(n=1000, k=100, dim=16, dtype="float32", label_dtype="int64", positives=0.5)
RUNNER = Path(inspect.getfile(runners.onnxruntime))


def request(tmp_path, arguments, provider=CPU, device="cpu", **more):
    return Request(arguments, device, tmp_path, options={"provider": provider}, **more)


def loaded(module, asked):
    program = exported_program.export(module.eval(), asked)
    return onnxruntime.load(onnx_model.export(program, asked), asked)


def no_gpu():
    if torch.cuda.is_available():
        pytest.skip("a device is here")


class Measured(torch.nn.Module):
    """Numbers read out of a tensor: torch.export refuses them, its strict mode does not."""

    def forward(self, box):
        return box.new_zeros(1) + (int(box[1] - box[0]) + int(box[3] - box[2]))


@pytest.mark.onnxruntime_cpu
def test_what_only_strict_capture_takes_is_taken_as_by_torchs_own_exporter(tmp_path):
    asked = request(tmp_path, (torch.tensor([0, 3, 0, 4]),))
    with pytest.raises(Exception, match="data-dependent"):
        exported_program.export(Measured(), asked)
    program = program_for_onnx.export(Measured(), asked)
    assert asked.facts["captured_strictly"]
    engine = onnxruntime.load(onnx_model.export(program, asked), asked)
    assert engine(torch.tensor([5, 15, 5, 25])).tolist() == [30]


def test_where_both_modes_refuse_the_first_one_speaks(tmp_path):
    class Refused(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    asked = request(tmp_path, (torch.ones(2),))
    messages = []
    for exporter in (exported_program, program_for_onnx):
        with pytest.raises(Exception, match="data-dependent") as refusal:
            exporter.export(Refused(), asked)
        messages.append((type(refusal.value), str(refusal.value).splitlines()[0].split("(")[0]))
    assert messages[0] == messages[1]
    assert "captured_strictly" not in asked.facts


@pytest.mark.onnxruntime_cpu
def test_the_cpu_provider_is_here(tmp_path):
    onnxruntime.probe(request(tmp_path, ()))


@pytest.mark.onnxruntime_cuda
def test_without_cuda_the_session_says_which_providers_it_has(tmp_path, capfd):
    no_gpu()
    with pytest.raises(Unavailable) as error:
        onnxruntime.probe(request(tmp_path, (), CUDA, "cuda"))
    assert error.value.code in ("ENV.no_provider", "ENV.no_device")  # where CUDA's libraries are, the driver is missing
    assert "the session has only CPUExecutionProvider" in error.value.text
    assert "libonnxruntime_providers_cuda.so" in error.value.text, "what it printed is part of the reason"
    assert "\x1b" not in error.value.text
    assert capfd.readouterr() == ("", "")


@pytest.mark.onnxruntime_cuda
@pytest.mark.parametrize(
    ("missing", "code"),
    [
        # ONNX Runtime's own words: all that torch brings was found, the driver's library was not
        (
            "Failed to load library libonnxruntime_providers_cuda.so with error: libcuda.so.1: cannot open",
            "ENV.no_device",
        ),
        ("CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", "ENV.no_device"),
        ("libcublasLt.so.13: cannot open shared object file", "ENV.no_provider"),
        ("asked for CUDAExecutionProvider, the session has only CPUExecutionProvider", "ENV.no_provider"),
    ],
)
def test_a_missing_driver_is_told_from_missing_libraries(missing, code, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise RuntimeError(missing)

    monkeypatch.setattr(onnxruntime, "_open", refuse)
    with pytest.raises(Unavailable) as error:
        onnxruntime.probe(request(tmp_path, (), CUDA, "cuda"))
    assert error.value.code == code


@pytest.mark.onnxruntime_tensorrt
def test_without_tensorrt_its_own_words_are_the_reason(tmp_path):
    no_gpu()
    with pytest.raises(Unavailable, match="TensorRT libraries") as error:
        onnxruntime.probe(request(tmp_path, (), TENSORRT, "cuda"))
    assert error.value.code == "ENV.no_provider"


def test_without_its_plugin_tensorrt_rtx_is_unavailable_with_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_nv_tensorrt_rtx", None)
    with pytest.raises(Unavailable, match=r"\.\[onnx_rtx\]") as error:
        onnxruntime.probe(request(tmp_path, (), TENSORRT_RTX, "cuda"))
    assert error.value.code == "ENV.no_package"


@pytest.mark.onnxruntime_cpu
def test_a_plugin_that_does_not_load_says_why(tmp_path, monkeypatch):
    plugin = SimpleNamespace(get_library_path=lambda: str(tmp_path / "libplugin.so"))
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_nv_tensorrt_rtx", plugin)
    with pytest.raises(Unavailable, match="Failed to load library") as error:
        onnxruntime.probe(request(tmp_path, (), TENSORRT_RTX, "cuda"))
    assert error.value.code == "ENV.no_provider"


@pytest.mark.onnxruntime_cpu
def test_a_plugins_session_runs_on_the_plugins_device(tmp_path, monkeypatch):
    """The CPU stands in for the plugin: ONNX Runtime knows it as a device of the same interface."""
    monkeypatch.setitem(sys.modules, "onnxruntime_ep_nv_tensorrt_rtx", SimpleNamespace())
    monkeypatch.setattr(onnxruntime, "TENSORRT_RTX", CPU)
    rows = torch.randn(3)
    assert torch.equal(loaded(torch.nn.ReLU(), request(tmp_path, (rows,)))(rows), rows.relu())
    with pytest.raises(RuntimeError, match="asked for device 7, CPUExecutionProvider knows 1"):
        onnxruntime._plugin_device(7)


@pytest.mark.onnxruntime_cuda
def test_a_session_without_the_provider_asked_for_is_never_used(tmp_path):
    no_gpu()
    asked = request(tmp_path, (torch.ones(3),))
    model = onnx_model.export(exported_program.export(torch.nn.ReLU(), asked), asked)
    with pytest.raises(RuntimeError, match="asked for CUDAExecutionProvider, the session has only"):
        onnxruntime.load(model, request(tmp_path, (torch.ones(3),), CUDA))


@pytest.mark.onnxruntime_cpu
@pytest.mark.parametrize("variant", [TopK, TopKShuffled])
def test_noise_as_input_gives_eagers_answer_and_noise_inside_meets_the_contract(tmp_path, variant):
    module = variant(WORKLOAD.k).eval()
    features, labels = inputs(WORKLOAD, 0)
    arguments = (features, labels, module.noise(features, labels))
    pairs = zip(loaded(module, request(tmp_path, arguments))(*arguments), module(*arguments), strict=True)
    assert [torch.equal(ours, eager) for ours, eager in pairs] == [True, True]

    engine = loaded(module, request(tmp_path, (features, labels)))
    first, second = engine(features, labels), engine(features, labels)
    assert faults((features, labels), first, WORKLOAD) == []
    assert not torch.equal(first[0], second[0])


class Everything(torch.nn.Module):
    """Nested arguments and outputs, a number in and out, None, a view, bool, bfloat16."""

    def forward(self, named, scale, nothing=None):
        x = named["x"]
        return {
            "double": x * scale,
            "list": [x > 0, None, (x[1:], x.to(torch.bfloat16))],
            "count": (x > 0).sum(),
            "rows": x.shape[0],
        }


@pytest.mark.onnxruntime_cpu
def test_arguments_and_outputs_keep_their_structure(tmp_path):
    x = torch.randn(4, 6).t()
    arguments = ({"x": x, "unused": torch.ones(2)}, 2.5)
    shapes = ({"x": {0: torch.export.Dim.AUTO}, "unused": None}, None)
    program = torch.export.export(Everything(), arguments, dynamic_shapes=shapes)
    asked = request(tmp_path, arguments)
    engine = onnxruntime.load(onnx_model.export(program, asked), asked)
    for rows in (6, 3):
        some = {"x": x[:rows], "unused": torch.ones(2)}
        got, wanted = engine(some, 2.5), Everything()(some, 2.5)
        assert got["rows"] == rows
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=False)


@pytest.mark.onnxruntime_cpu
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]
)
@pytest.mark.parametrize("shape", [(3,), (), (0,)])
def test_every_dtype_goes_in_and_out_unchanged(dtype, shape):
    import onnx

    number = onnxruntime.ELEMENT_TYPES[dtype]
    value = [onnx.helper.make_tensor_value_info(name, number, shape) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime._open(model.SerializeToString(), CPU, torch.device("cpu"), None)
    flat = SimpleNamespace(
        outputs=("y",), flatten=lambda arguments, device: {"x": arguments[0]}, restore=lambda values: values["y"]
    )
    x = torch.ones(shape).to(getattr(torch, dtype))
    y = onnxruntime._callable(session, flat, torch.device("cpu"), None)(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert torch.equal(y, x)


@pytest.mark.onnxruntime_cpu
def test_element_types_are_onnxs():
    import onnx

    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    for name, number in onnxruntime.ELEMENT_TYPES.items():
        wanted = names.get(name, name.upper().replace("_", ""))
        assert onnx.TensorProto.DataType.Name(number) == wanted


@pytest.mark.onnxruntime_cpu
def test_an_output_outlives_later_calls_and_the_session(tmp_path):
    engine = loaded(torch.nn.ReLU(), request(tmp_path, (torch.ones(1000),)))
    first = engine(torch.full((1000,), 1.0))
    engine(torch.full((1000,), 2.0))
    del engine
    assert first.eq(1).all()


@pytest.mark.onnxruntime_cpu
def test_what_ran_is_counted_by_provider(tmp_path):
    asked = request(tmp_path, (torch.ones(3),))
    engine = loaded(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Softplus()), asked)
    engine.inspect()
    assert asked.facts["providers"] == [CPU]
    assert asked.facts["nodes_per_provider"].keys() == {CPU}
    assert asked.facts["memcpy_nodes"] == 0
    assert asked.findings == []
    assert not list(tmp_path.glob("profile*"))


def test_nodes_outside_the_provider_are_found(tmp_path):
    nodes = [("TopK", CUDA), ("MemcpyToHost", CUDA), ("NonZero", CPU), ("NonZero", CPU)]
    profile = tmp_path / "profile.json"
    profile.write_text(
        json.dumps(
            [{"cat": "Session", "name": "session_initialization"}]
            + [
                {"cat": "Node", "name": f"{index}_kernel_time", "args": {"provider": provider, "op_name": operator}}
                for index, (operator, provider) in enumerate(nodes)
            ]
        )
    )
    asked = request(tmp_path, (), CUDA)
    onnxruntime._count(profile, CUDA, asked)
    assert asked.facts == {"nodes_per_provider": Counter({CUDA: 2, CPU: 2}), "memcpy_nodes": 1}
    (finding,) = asked.findings
    assert (finding.verdict, finding.code) == ("partial", "FALLBACK.provider")
    assert finding.text == "2 of 4 nodes ran on CPUExecutionProvider: 2 NonZero"


@pytest.mark.parametrize("same", [True, False])
def test_the_sessions_stream_is_fenced_with_torchs_when_they_differ(monkeypatch, same):
    events = []

    class Stream:
        device = "cuda:0"

        def __init__(self, name):
            self.name = name

        def wait_stream(self, other):
            events.append(f"{self.name} waits for {other.name}")

    ours = Stream("ours")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: ours if same else Stream("torch's"))
    session = SimpleNamespace(run_with_iobinding=lambda binding, run_options: events.append("runs"))
    onnxruntime._run_fenced(session, None, None, ours)
    assert events == (["runs"] if same else ["ours waits for torch's", "runs", "torch's waits for ours"])


@pytest.mark.onnxruntime_cpu
def test_every_name_and_signature_used_is_that_of_the_bindings():
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import OrtValue

    variables = {
        "session": ort.InferenceSession,
        "binding": ort.IOBinding,
        "options": ort.SessionOptions,
        "run_options": ort.RunOptions,
        "value": OrtValue,
    }
    assert bindings.missing(RUNNER, "onnxruntime", ort) == []
    assert bindings.missing(RUNNER, "torch", torch) == []
    used, wrong = bindings.misuses(RUNNER, variables)
    assert wrong == []
    assert {name.split(".")[0] for name in used} == set(variables)


@pytest.mark.gpu
@pytest.mark.parametrize("provider", [CUDA, TENSORRT])
@pytest.mark.parametrize("own_stream", [True, False])
def test_on_a_device_the_sampler_equals_eager(tmp_path, provider, own_stream):
    module = TopK(WORKLOAD.k).eval()
    features, labels = inputs(WORKLOAD, 0)
    arguments = tuple(tensor.cuda() for tensor in (features, labels, module.noise(features, labels)))
    asked = request(tmp_path, arguments, provider, "cuda")
    try:
        onnxruntime.probe(asked)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with torch.cuda.stream(torch.cuda.Stream() if own_stream else torch.cuda.default_stream()):
        engine = loaded(module, asked)
        for _ in range(3):
            pairs = zip(engine(*arguments), module(*arguments), strict=True)
            assert [torch.equal(ours, eager) for ours, eager in pairs] == [True, True]
        engine.inspect()
    assert asked.facts["nodes_per_provider"][provider] > 0
