"""Torch-TensorRT: an exported program, cut into TensorRT engines and operators that stay in torch.

Its converters of `rand`, `randn` and `randperm` draw once, while the engine is built, and keep the draw as a constant
(pytorch/TensorRT#4711): verification finds such a draw frozen, and `operators_left` tells which draws stayed in torch.

https://docs.pytorch.org/TensorRT/user_guide/dynamo_export.html
https://docs.pytorch.org/TensorRT/contributors/partitioning.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request, Unavailable
from runners.runner import Engine, require_cuda

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def probe(request: Request) -> None:
    """CUDA first: the package does not import without its driver."""
    require_cuda()
    provide = "pip install -c constraints.txt '.[torch_tensorrt]'"
    try:
        import torch_tensorrt  # noqa: F401
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"torch_tensorrt does not import: {error}", provide) from error


def load(source: ExportedProgram, request: Request) -> Engine:
    """Compile with engines of at least one operator, and count what stays in torch."""
    import torch_tensorrt
    from torch.fx import GraphModule

    module = torch_tensorrt.dynamo.compile(
        source, arg_inputs=list(request.inputs), min_block_size=1, require_full_compilation=False
    )
    engines, left = [], _operators(module)
    for name, child in module.named_children():
        if isinstance(child, GraphModule):  # `_run_on_gpu_…`: a part that stays in torch
            left += _operators(child)
        elif name.startswith("_run_on_acc"):
            engines.append(child)
    request.facts |= {
        "engines": len(engines),
        "operators_left": left,
        "artifact_bytes": sum(len(engine.serialized_engine) for engine in engines),
    }
    if left or not engines:
        text = f"{len(engines)} engines, {len(left)} operators stayed in torch: {', '.join(left) or 'all'}"
        request.findings.append(Finding("partial", "FALLBACK.undelegated", text))
    return Engine(module)


def _operators(module: Any) -> list[str]:
    """Names of the operators that a graph module calls itself."""
    return [
        str(node.target)
        for node in module.graph.nodes
        if node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"
    ]
