"""TensorRT and TensorRT-RTX: run a serialized engine on torch's current stream.

One code for both packages; `request.options["module"]` names which. Arguments are bound by their address.
Outputs of known shape are torch's own; an output whose shape depends on data is allocated by torch when
TensorRT, inside the call, knows its size.

https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/infer/Core/ExecutionContext.html
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from exporters.exporter import Request, Unavailable
from exporters.tensorrt_engine import TensorrtEngine, TensorrtError, capability_here, logger, target
from runners.runner import Built, Engine

if TYPE_CHECKING:
    from torch import Tensor

PROVIDE = {
    "tensorrt": "pip install '.[tensorrt]', from NVIDIA's own package index",
    "tensorrt_rtx": "pip install -c constraints.txt '.[rtx]'",
}

_TORCH_NAMES = {
    "FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "FP8": "float8_e4m3fn", "INT8": "int8",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "BOOL": "bool",
}  # fmt: skip


def probe(request: Request) -> None:
    """TensorRT needs its package and a device, which it builds for; TensorRT-RTX the package alone.

    Raises ValueError for an SM that TensorRT-RTX cannot build for.
    """
    module = request.options["module"]
    try:
        import onnxscript  # noqa: F401

        trt = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), PROVIDE[module]) from error
    except (ImportError, OSError) as error:
        raise Unavailable("ENV.broken_package", str(error), PROVIDE[module]) from error
    builds_anywhere = target(trt, request.options.get("sm")) is not None
    if not builds_anywhere and capability_here() is None:
        text = f"{module} {trt.__version__} builds for the device of this machine, and torch sees none"
        raise Unavailable("ENV.no_device", text, "an NVIDIA GPU with its driver, and a CUDA build of torch")


def load(source: TensorrtEngine, request: Request) -> Engine:
    """Deserialize the engine; raises Built where no device is here that it was built for, TensorrtError
    with TensorRT's own words when it refuses."""
    here = capability_here()
    if here is None or source.sm not in (None, here):
        device = "has no CUDA device" if here is None else f"has SM {here}"
        size = source.path.stat().st_size
        raise Built(f"an engine of {size} bytes was built for SM {source.sm}; this machine {device}")
    trt = importlib.import_module(source.module)
    log = logger(trt)
    log.lines.clear()
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(source.path.read_bytes())
    if engine is None:
        raise TensorrtError(f"{source.module} does not load the engine\n{log.text()}")
    context = engine.create_execution_context()
    if context is None:
        raise TensorrtError(f"{source.module} makes no execution context\n{log.text()}")
    request.facts["engine_layers"] = engine.num_layers
    return Engine(_callable(trt, runtime, engine, context, source, request))


def _callable(trt: Any, runtime: Any, engine: Any, context: Any, source: TensorrtEngine, request: Request) -> Any:
    """The call; it keeps the runtime and the engine alive, which the context does not."""
    import torch

    log = logger(trt)
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    outputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT]
    dtypes = {name: getattr(torch, _TORCH_NAMES[engine.get_tensor_dtype(name).name]) for name in names}
    on_host = {name for name in names if engine.get_tensor_location(name) == trt.TensorLocation.HOST}
    spare = torch.empty(1, device=request.device)

    def address(tensor: Tensor) -> int:
        """TensorRT wants an address of an empty tensor too, which has none."""
        return tensor.data_ptr() or spare.data_ptr()

    def check(accepted: bool, what: str) -> None:
        if not accepted:
            raise TensorrtError(f"{source.module} refuses {what}\n{log.text()}")

    class Allocator(trt.IOutputAllocator):
        """Gives one output of one call its memory."""

        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.buffer = spare
            self.shape: tuple[int, ...] = ()

        def reallocate_output(self, tensor_name: str, memory: Any, size: int, alignment: int) -> int:
            self.buffer = torch.empty(max(size, 1), dtype=torch.uint8, device=request.device)
            return int(self.buffer.data_ptr())

        def reallocate_output_async(self, tensor_name: str, memory: Any, size: int, alignment: int, stream: int) -> int:
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shape = tuple(shape)

        def tensor(self, dtype: torch.dtype) -> Tensor:
            count = torch.Size(self.shape).numel()
            return self.buffer[: count * dtype.itemsize].view(dtype).view(self.shape)

    def call(*arguments: Any) -> Any:
        log.lines.clear()
        tensors = source.model.flatten(arguments, request.device)
        kept = []  # what is cast or moved must live until it is queued
        for name in inputs:
            tensor = tensors[name].to(dtypes[name])  # a cast only where the engine narrowed the input
            tensor = tensor.cpu() if name in on_host else tensor
            kept.append(tensor)
            check(context.set_input_shape(name, tuple(tensor.shape)), f"{name} of shape {tuple(tensor.shape)}")
            check(context.set_tensor_address(name, address(tensor)), f"the address of {name}")
        results: dict[str, Tensor | Allocator] = {}
        for name in outputs:
            shape = tuple(context.get_tensor_shape(name))
            if -1 in shape:
                allocator = results[name] = Allocator()
                check(context.set_output_allocator(name, allocator), f"an allocator for {name}")
            else:
                place = "cpu" if name in on_host else request.device
                result = results[name] = torch.empty(shape, dtype=dtypes[name], device=place)
                check(context.set_tensor_address(name, address(result)), f"the address of {name}")
        stream = torch.cuda.current_stream(torch.device(request.device))
        check(context.execute_async_v3(stream.cuda_stream), "to run")
        if not on_host.isdisjoint(outputs):  # sizes that the engine computes on the host
            stream.synchronize()
        return source.model.restore(
            {
                name: value.tensor(dtypes[name]) if isinstance(value, Allocator) else value.to(request.device)
                for name, value in results.items()
            }
        )

    call.keeps = (runtime, engine)  # type: ignore[attr-defined]
    return call
