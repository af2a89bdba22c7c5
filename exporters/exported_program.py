"""Capture by `torch.export.export`: module in, `ExportedProgram` out.

https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

STAGE = "capture"


def export(source: nn.Module, request: Request, strict: bool = False) -> ExportedProgram:
    """Capture with the dimensions of `request.dynamic_shapes` dynamic, all others as in the example; `strict` is
    torch.export's mode of that name."""
    import torch

    dynamic_shapes = _named(request.dynamic_shapes)
    program = torch.export.export(source, request.inputs, dynamic_shapes=dynamic_shapes, strict=strict)
    request.facts["graph_nodes"] = sum(node.op == "call_function" for node in program.graph.nodes)
    if request.dynamic_shapes:
        _compare_dimensions(program, request)
    return program


def _named(dynamic_shapes: Any) -> Any:
    """Names of dimensions, which a case file gives as text, as what torch.export takes.

    `Dim.AUTO` rather than a named `Dim`: with a named one export refuses what it would have to
    specialise, which is the same finding told less clearly.
    """
    from torch.export import Dim

    if isinstance(dynamic_shapes, str):
        return Dim.AUTO
    if isinstance(dynamic_shapes, Mapping):
        return {key: _named(value) for key, value in dynamic_shapes.items()}
    if isinstance(dynamic_shapes, (tuple, list)):
        return type(dynamic_shapes)(_named(value) for value in dynamic_shapes)
    return dynamic_shapes


def _compare_dimensions(program: ExportedProgram, request: Request) -> None:
    """A dimension asked dynamic that the program holds as a number is `SHAPE.specialised`."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    arguments = [nodes[name] for name in program.graph_signature.user_inputs if name in nodes]
    asked = _per_leaf(request.inputs, request.dynamic_shapes)
    if len(arguments) != len(asked):
        return
    constant = [
        f"{node.name}.shape[{dimension}] = {node.meta['val'].shape[dimension]}"
        for node, dimensions in zip(arguments, asked, strict=True)
        for dimension in dimensions
        if isinstance(node.meta["val"].shape[dimension], int)
    ]
    request.facts["dimensions_asked_dynamic"] = sum(len(dimensions) for dimensions in asked)
    if constant:
        request.findings.append(
            Finding("partial", "SHAPE.specialised", f"asked dynamic, became constant: {', '.join(constant)}")
        )


def _per_leaf(inputs: Any, dynamic_shapes: Any) -> list[Collection[int]]:
    """The dimensions asked dynamic of every leaf of the inputs, in order; none for a leaf that is no tensor."""
    import torch

    if isinstance(inputs, torch.Tensor):
        if isinstance(dynamic_shapes, Mapping):
            return [[dimension for dimension, name in dynamic_shapes.items() if name is not None]]
        return [[dimension for dimension, name in enumerate(dynamic_shapes or ()) if name is not None]]
    if isinstance(inputs, Mapping):
        inside = dynamic_shapes or {}
        return [dims for key, value in inputs.items() for dims in _per_leaf(value, inside.get(key))]
    if isinstance(inputs, (tuple, list)):
        inside = dynamic_shapes or [None] * len(inputs)
        return [dims for value, shapes in zip(inputs, inside, strict=True) for dims in _per_leaf(value, shapes)]
    return [[]]
