"""ExecuTorch: `ExportedProgram` in, a `.pte` file out.

Option `partitioner`: `"xnnpack"` hands XNNPACK what it takes and leaves the rest to ExecuTorch's portable
kernels; without it all operators are portable. Both are the engine asked for, so what XNNPACK leaves is a fact
and not a fallback.

https://docs.pytorch.org/executorch/stable/using-executorch-export.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.exporter import Request

if TYPE_CHECKING:
    from torch.export import ExportedProgram

STAGE = "convert"


@dataclass(frozen=True)
class ExecutorchProgram:
    """A `.pte` file, and the tree of the module's outputs: its method takes and gives their leaves."""

    path: Path
    structure: Any


def export(source: ExportedProgram, request: Request) -> ExecutorchProgram:
    """Lower to the edge dialect, partition, plan memory, write `model.pte`."""
    from executorch.devtools.backend_debug import get_delegation_info
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(source, partitioner=_partitioners(request))
    delegation = get_delegation_info(edge.exported_program().graph_module)
    request.facts |= {
        "delegated_operators": delegation.num_delegated_nodes,
        "delegated_subgraphs": delegation.num_delegated_subgraphs,
        "undelegated_operators": delegation.num_non_delegated_nodes,
    }
    path = request.directory / "model.pte"
    with path.open("wb") as file:
        edge.to_executorch().write_to_file(file)
    request.facts["artifact_bytes"] = path.stat().st_size
    return ExecutorchProgram(path, source.call_spec.out_spec)


def _partitioners(request: Request) -> list[Any]:
    if request.options.get("partitioner") != "xnnpack":
        return []
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return [XnnpackPartitioner()]
