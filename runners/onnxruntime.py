"""ONNX Runtime, on the execution provider that `request.options["provider"]` names.

One path for all providers: arguments are bound by their address, outputs are allocated by ONNX Runtime on
the device and handed to torch through DLPack, so nothing is copied on either side.

https://onnxruntime.ai/docs/api/python/api_summary.html
https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html
https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries/ (TensorRT-RTX comes as such a plugin)
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request, Unavailable
from exporters.onnx_model import OnnxModel
from exporters.words import kept_words
from runners.runner import Engine

if TYPE_CHECKING:
    import torch

PROVIDE = "pip install -c constraints.txt '.[onnx]'"
PROVIDE_CUDA = f"{PROVIDE}, a CUDA build of torch of the same CUDA major version, and an NVIDIA driver"
PROVIDE_TENSORRT = f"{PROVIDE} 'tensorrt>=10.8', and an NVIDIA driver"
PROVIDE_TENSORRT_RTX = "pip install -c constraints.txt '.[onnx_rtx]', an RTX card and its NVIDIA driver"

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"

TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"

_FALLS_TO = {CPU: (), CUDA: (CPU,), TENSORRT: (CUDA, CPU)}
"""Where nodes go that a provider does not take, a plugin's to the CPU; what went there is counted and makes the cell
`partial`."""

ELEMENT_TYPES = {
    # torch's name of a dtype: its number in onnx.TensorProto.DataType
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20,
}  # fmt: skip

_NO_DEVICE = r"no CUDA-capable device|CUDA driver version is insufficient|CUDA failure|libcuda\.so"


def probe(request: Request) -> None:
    """Open a session on a one-node model and ask it which providers it really has: without CUDA,
    onnxruntime-gpu lists the CUDA provider, prints an error, and opens a CPU session."""
    provider = request.options["provider"]
    provide = {
        CPU: PROVIDE, CUDA: PROVIDE_CUDA, TENSORRT: PROVIDE_TENSORRT, TENSORRT_RTX: PROVIDE_TENSORRT_RTX
    }[provider]  # fmt: skip
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
        import torch

        if provider == TENSORRT_RTX:
            import onnxruntime_ep_nv_tensorrt_rtx  # noqa: F401
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except ImportError as error:
        raise Unavailable("ENV.broken_package", str(error), provide) from error

    one = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "probe", one[:1], one[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    try:
        with kept_words():
            _open(model.SerializeToString(), provider, torch.device(request.device), None)
    except Exception as error:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # ONNX Runtime prints in colours
        code = "ENV.no_device" if re.search(_NO_DEVICE, said) else "ENV.no_provider"
        raise Unavailable(code, said, provide) from error
    if provider != CPU and not torch.cuda.is_available():
        said = f"ONNX Runtime has {provider}, but torch {torch.__version__} sees no CUDA device"
        raise Unavailable("ENV.no_device", said, provide)


def load(source: OnnxModel, request: Request) -> Engine:
    """Open the session on `request.device`, with torch's current stream as its compute stream.

    ONNX Runtime takes stream 0, torch's default, for none and makes its own; then a stream of ours is
    fenced with torch's before and after each call. TensorRT may build its engines in the first call, so
    the provider's first call is made here.
    """
    import torch

    provider = request.options["provider"]
    device = torch.device(request.device)
    stream = None
    if device.type == "cuda":
        current = torch.cuda.current_stream(device)
        stream = current if current.cuda_stream else torch.cuda.Stream(device)
    session = _open(str(source.path), provider, device, stream)
    request.facts["providers"] = list(session.get_providers())
    call = _callable(session, source, device, stream)
    if provider == TENSORRT:
        call(*request.inputs)

    def inspect() -> None:
        profiled = _open(str(source.path), provider, device, stream, request.directory / "profile")
        _callable(profiled, source, device, stream)(*request.inputs)
        if stream is not None:
            stream.synchronize()
        _count(Path(profiled.end_profiling()), provider, request)

    return Engine(call, inspect)


def _open(
    model: str | bytes,
    provider: str,
    device: torch.device,
    stream: torch.cuda.Stream | None,
    profile: Path | None = None,
) -> Any:
    """A session that has `provider`, or RuntimeError; with default graph optimisation.

    Its threads do not spin between calls: other workers are measured while this one sleeps. On 2 cores
    that made calls no slower.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    if provider != CPU:
        _preload(provider)
    about = {} if stream is None else {"user_compute_stream": str(stream.cuda_stream)}
    providers: list[Any] | None = None
    if provider == TENSORRT_RTX:
        about |= {"has_user_compute_stream": "1"} if about else {}
        options.add_provider_for_devices([_plugin_device(device.index or 0)], about)
    else:
        own = {"device_id": str(device.index or 0), **about}
        providers = [(name, {} if name == CPU else own) for name in (provider, *_FALLS_TO[provider])]
    session = onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)
    session.disable_fallback()
    if provider not in session.get_providers():
        raise RuntimeError(f"asked for {provider}, the session has only {', '.join(session.get_providers())}")
    return session


def _plugin_device(number: int) -> Any:
    """The card of this number as ONNX Runtime's TensorRT-RTX plugin knows it; the plugin is registered once a
    process."""
    import onnxruntime
    import onnxruntime_ep_nv_tensorrt_rtx as plugin

    def devices() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == TENSORRT_RTX]

    if not devices():
        onnxruntime.register_execution_provider_library(TENSORRT_RTX, plugin.get_library_path())
    if number >= len(found := devices()):
        raise RuntimeError(f"asked for device {number}, {TENSORRT_RTX} knows {len(found)}")
    return found[number]


def _preload(provider: str) -> None:
    """Load the CUDA, cuDNN and TensorRT libraries that torch's and TensorRT's wheels brought; what is
    missing, ONNX Runtime itself tells when the session opens."""
    import onnxruntime

    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()
    if provider == TENSORRT:
        with contextlib.suppress(ImportError):
            import tensorrt  # noqa: F401


def _callable(
    session: Any, model: OnnxModel, device: torch.device, stream: torch.cuda.Stream | None
) -> Callable[..., Any]:
    import onnxruntime
    import torch
    from torch.utils.dlpack import from_dlpack

    place = (device.type, device.index or 0)
    element_types = {getattr(torch, name): number for name, number in ELEMENT_TYPES.items()}
    run_options = None
    if stream is not None:
        run_options = onnxruntime.RunOptions()
        # a call returns when its work is queued
        run_options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        # no CUDA graph; unset, the Python layer looks it up in vain, which takes tens of microseconds a call
        run_options.add_run_config_entry("gpu_graph_id", "-1")

    def call(*arguments: Any) -> Any:
        inputs = model.flatten(arguments, str(device))
        binding = session.io_binding()  # a new one each call: a used one would write into its old outputs
        for name, tensor in inputs.items():
            binding.bind_input(name, *place, element_types[tensor.dtype], tuple(tensor.shape), tensor.data_ptr())
        for name in model.outputs:
            binding.bind_output(name, *place)
        if stream is None:
            session.run_with_iobinding(binding)
        else:
            _run_fenced(session, binding, run_options, stream)
        values = binding.get_outputs_as_ortvaluevector()
        outputs = {}
        for index, name in enumerate(model.outputs):  # iterating over the vector ends in a slow C++ exception
            value = values[index]
            tensor = from_dlpack(value.to_dlpack())
            is_bool = value.element_type() == ELEMENT_TYPES["bool"]  # which DLPack tells as uint8
            outputs[name] = tensor.view(torch.bool) if is_bool else tensor
        return model.restore(outputs)

    return call


def _run_fenced(session: Any, binding: Any, run_options: Any, stream: torch.cuda.Stream) -> None:
    """The session's stream waits for torch's current one, and that one for the session's; there is nothing
    to wait for when they are the same."""
    import torch

    current = torch.cuda.current_stream(stream.device)
    if current == stream:
        session.run_with_iobinding(binding, run_options)
    else:
        stream.wait_stream(current)
        session.run_with_iobinding(binding, run_options)
        current.wait_stream(stream)


def _count(profile: Path, provider: str, request: Request) -> None:
    """Nodes per provider that one call really ran, from ONNX Runtime's own profile."""
    ran = {
        (event["name"], event["args"]["provider"], event["args"]["op_name"])
        for event in json.loads(profile.read_text(encoding="utf-8"))
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    }
    profile.unlink()
    counts = Counter(name for _, name, _ in ran)
    request.facts["nodes_per_provider"] = dict(counts)
    request.facts["memcpy_nodes"] = sum(operator.startswith("Memcpy") for _, _, operator in ran)
    for other in sorted(set(counts) - {provider}):
        operators = Counter(operator for _, name, operator in ran if name == other)
        kinds = ", ".join(f"{count} {operator}" for operator, count in operators.most_common())
        text = f"{counts[other]} of {counts.total()} nodes ran on {other}: {kinds}"
        request.findings.append(Finding("partial", "FALLBACK.provider", text))
