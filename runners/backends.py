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
    there is one, on the CPU only, or on a GPU only. `distributions` are the packages that it cannot do without,
    `extra` the dependency group that brings them. A backend with `requirements` has an environment of its own,
    made when it is asked for by name and tried only then."""

    name: str
    runner: str
    exporters: tuple[str, ...] = ()
    device: Literal["any", "cpu", "cuda"] = "any"
    distributions: tuple[str, ...] = ("torch",)
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
_ONNX = ("exported_program", "onnx_model")
_ENGINE = ("exported_program", "onnx_model", "tensorrt_engine")
_ORT = ("torch", "onnx", "onnxscript", "onnxruntime-gpu")

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        # name, runner, exporters; then device, packages, options
        Backend("eager", "eager"),
        Backend("compile", "compiled"),
        Backend("compile_fullgraph", "compiled", options={"fullgraph": True}),
        Backend("compile_dynamic", "compiled", options={"dynamic": True}),
        Backend("compile_reduce_overhead", "compiled", device="cuda", options={"mode": "reduce-overhead"}),
        Backend("export", "exported", _EXPORTED),
        Backend("aot_inductor", "aot_inductor", (*_EXPORTED, "inductor_package")),
        Backend("onnxruntime_cpu", "onnxruntime", _ONNX, "cpu", _ORT, "onnx", {"provider": "CPUExecutionProvider"}),
        Backend("onnxruntime_cuda", "onnxruntime", _ONNX, "cuda", _ORT, "onnx", {"provider": "CUDAExecutionProvider"}),
        Backend("onnxruntime_tensorrt", "onnxruntime", _ONNX, "cuda", _ORT, "onnx",
                {"provider": "TensorrtExecutionProvider"}),
        Backend("tensorrt", "tensorrt", _ENGINE, "cuda", ("torch", "onnx", "onnxscript", "tensorrt"), "tensorrt",
                {"module": "tensorrt"}),
        Backend("tensorrt_rtx", "tensorrt", _ENGINE, "any", ("torch", "onnx", "onnxscript", "tensorrt-rtx"), "rtx",
                {"module": "tensorrt_rtx"}),
        Backend("torch_tensorrt", "torch_tensorrt", _EXPORTED, "cuda", ("torch", "torch-tensorrt"), "torch_tensorrt"),
        Backend("openvino", "openvino", ("openvino_model",), "cpu", ("torch", "openvino", "onnx", "onnxscript"),
                "openvino"),
        Backend("openvino_compile", "openvino_compile", (), "cpu", ("torch", "openvino"), "openvino"),
        Backend("executorch", "executorch", (*_EXPORTED, "executorch_program"), "cpu", ("torch", "executorch"),
                "executorch", {"partitioner": "xnnpack"}),
        Backend("iree", "iree", (*_EXPORTED, "iree_module"), "cpu",
                ("torch", "iree-base-compiler", "iree-base-runtime", "iree-turbine"), "iree"),
        Backend("tvm", "tvm", (*_EXPORTED, "tvm_module"), "cpu", ("torch", "apache-tvm"), "tvm"),
        Backend("xla", "xla", (), "cpu", ("torch", "jax", "torchax"), "xla"),
        # in an environment of their own, when asked for by name
        Backend("onnxruntime_cpu@1.32", "onnxruntime", _ONNX, "cpu", ("torch", "onnx", "onnxscript", "onnxruntime"),
                options={"provider": "CPUExecutionProvider"},
                requirements=("torch==2.13.0", "onnxruntime==1.32.0", "onnx==1.23.2", "onnxscript==0.7.2")),
    )
}
