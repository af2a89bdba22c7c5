"""Torch-TensorRT: an exported program, cut into TensorRT engines and operators that stay in torch.

https://docs.pytorch.org/TensorRT/user_guide/dynamo_export.html
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

    module = torch_tensorrt.dynamo.compile(
        source, arg_inputs=list(request.inputs), min_block_size=1, require_full_compilation=False
    )
    engines = [child for name, child in module.named_children() if name.startswith("_run_on_acc")]
    left = _operators(module)
    for name, child in module.named_children():
        if name.startswith("_run_on_gpu"):
            left += _operators(child)
    request.facts |= {"engines": len(engines), "operators_left": left}
    if left or not engines:
        text = f"{len(engines)} engines, {len(left)} operators stayed in torch: {', '.join(left) or 'all'}"
        request.findings.append(Finding("partial", "FALLBACK.undelegated", text))
    return Engine(module)


def _operators(module: Any) -> list[str]:
    """Names of the operators that a graph module calls itself."""
    nodes = module.graph.nodes if hasattr(module, "graph") else ()
    return [
        str(node.target)
        for node in nodes
        if node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"
    ]
