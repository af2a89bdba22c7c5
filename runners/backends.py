"""Every backend on one screen: a named road from a module to a device. Its name is its pytest marker.

A backend is one line here, and one file in `runners/` (and one in `exporters/` if its format is new).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Backend:
    """`exporters` and `runner` name modules of the two packages. `device` is where its work runs: on a GPU if
    there is one, on the CPU only, or on a GPU only. `distributions` are the packages that it needs beside torch,
    `extra` the dependency group that brings them. A backend with `requirements` has an environment of its own,
    made when it is asked for by name and tried only then."""

    name: str
    runner: str
    exporters: tuple[str, ...] = ()
    device: Literal["any", "cpu", "cuda"] = "any"
    distributions: tuple[str, ...] = ()
    extra: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()

    @property
    def provide(self) -> str:
        """The command that brings the packages."""
        if self.requirements:
            return f"python -m runners.all --backend {self.name}"
        if self.extra == "tensorrt":
            return "pip install '.[tensorrt]', from NVIDIA's own package index"
        return f"pip install -c constraints.txt '.[{self.extra}]'" if self.extra else "pip install -c constraints.txt ."


RTX_TARGETS = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""The compute capabilities that TensorRT-RTX builds for without a GPU; a test holds them against its own list."""

_EXPORTED = ("exported_program",)
_PACKAGE = ("exported_program", "inductor_package")
_ONNX = ("program_for_onnx", "onnx_model")
_ENGINE = (*_ONNX, "tensorrt_engine")

_TO_ONNX = ("onnx", "onnxscript")
_ORT = (*_TO_ONNX, "onnxruntime-gpu")
_IREE = ("iree-base-compiler", "iree-base-runtime", "iree-turbine")

_OWN_ORT = ("torch==2.13.0", "onnxruntime==1.32.0", "onnx==1.23.2", "onnxscript==0.7.2")

# fmt: off
_TABLE = (
    # name, runner, exporters, device, distributions, extra, options
    Backend("eager", "eager"),
    Backend("compile", "compiled"),
    Backend("compile_fullgraph", "compiled", options={"fullgraph": True}),
    Backend("compile_dynamic", "compiled", options={"dynamic": True}),
    Backend("compile_reduce_overhead", "compiled", device="cuda", options={"mode": "reduce-overhead"}),
    Backend("export", "exported", _EXPORTED),
    Backend("aot_inductor", "aot_inductor", _PACKAGE),
    Backend("onnxruntime_cpu", "onnxruntime", _ONNX, "cpu", _ORT, "onnx", {"provider": "CPUExecutionProvider"}),
    Backend("onnxruntime_cuda", "onnxruntime", _ONNX, "cuda", _ORT, "onnx", {"provider": "CUDAExecutionProvider"}),
    Backend("onnxruntime_tensorrt", "onnxruntime", _ONNX, "cuda", _ORT, "onnx",
            {"provider": "TensorrtExecutionProvider"}),
    Backend("onnxruntime_tensorrt_rtx", "onnxruntime", _ONNX, "cuda",
            (*_ORT, "onnxruntime-ep-nv-tensorrt-rtx"), "onnx_rtx",
            {"provider": "NvTensorRTRTXExecutionProvider"}),
    Backend("tensorrt", "tensorrt", _ENGINE, "cuda", (*_TO_ONNX, "tensorrt"), "tensorrt", {"module": "tensorrt"}),
    Backend("tensorrt_rtx", "tensorrt", _ENGINE, "any", (*_TO_ONNX, "tensorrt-rtx"), "rtx", {"module": "tensorrt_rtx"}),
    Backend("torch_tensorrt", "torch_tensorrt", _EXPORTED, "cuda", ("torch-tensorrt",), "torch_tensorrt"),
    Backend("openvino", "openvino", ("openvino_model",), "cpu", (*_TO_ONNX, "openvino"), "openvino"),
    Backend("openvino_compile", "openvino_compile", (), "cpu", ("openvino",), "openvino"),
    Backend("executorch", "executorch", (*_EXPORTED, "executorch_program"), "cpu", ("executorch",), "executorch",
            {"partitioner": "xnnpack"}),
    Backend("iree", "iree", (*_EXPORTED, "iree_module"), "cpu", _IREE, "iree"),
    Backend("tvm", "tvm", (*_EXPORTED, "tvm_module"), "cpu", ("apache-tvm",), "tvm"),
    Backend("xla", "xla", (), "cpu", ("jax", "torchax"), "xla"),
    # each in an environment of its own, when asked for by name
    Backend("onnxruntime_cpu@1.32", "onnxruntime", _ONNX, "cpu", (*_TO_ONNX, "onnxruntime"),
            options={"provider": "CPUExecutionProvider"}, requirements=_OWN_ORT),
)
# fmt: on

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _TABLE}
