"""Convert an `ExportedProgram` to an ONNX file by `torch.onnx.export(dynamo=True)`.

https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request
from exporters.signature import Signature, signature_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

STAGE = "convert"

RANDOM_OPERATORS = frozenset(
    {"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Multinomial", "Bernoulli"}
)


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX file, and how a module's arguments and outputs map onto its flat, named tensors.

    `complex_outputs` are those that ONNX holds as pairs of reals. `bounds` are the least and the largest
    size that the exported program allows, for each dimension of each input: equal when it is fixed, None
    for no limit.
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: Signature
    complex_outputs: frozenset[str]
    bounds: dict[str, tuple[tuple[int, int | None], ...]]

    def flatten(self, arguments: Sequence[Any], device: str) -> dict[str, Tensor]:
        """The contiguous tensor of every input, by name; a Python number becomes a 0-d tensor on `device`."""
        import torch

        tensors = self.signature.flatten(arguments)
        return {
            name: torch.view_as_real(tensor) if tensor.is_complex() else tensor.to(device)
            for name, tensor in zip(self.inputs, tensors, strict=True)
        }

    def restore(self, tensors: dict[str, Tensor]) -> Any:
        """The outputs as the module returns them, from the tensors by name."""
        import torch

        return self.signature.restore(
            [
                torch.view_as_complex(tensors[name]) if name in self.complex_outputs else tensors[name]
                for name in self.outputs
            ]
        )


def export(source: ExportedProgram, request: Request) -> OnnxModel:
    """Write `model.onnx`; weights beyond the 2 GB of a protobuf lie in a file beside it.

    Option `optimize` (default True) runs torch.onnx's own optimiser, which folds constants. Random nodes
    are counted before and after it: one that is gone was folded into a constant and never draws again.
    Raises the exporter's own error (`torch.onnx.OnnxExporterError` and its kind) when it refuses.
    """
    import torch

    program = torch.onnx.export(source, dynamo=True, verbose=False, optimize=False)
    assert program is not None
    drawn = _random_nodes(program.model)
    if request.options.get("optimize", True):
        program.optimize()
    kept = _random_nodes(program.model)
    path = request.directory / "model.onnx"
    program.save(path)

    if drawn:
        request.facts["random_nodes"] = kept
    if kept < drawn:
        text = f"{drawn - kept} of {drawn} random nodes were folded into constants"
        request.findings.append(Finding("wrong", "RNG.frozen", text))
    graph = program.model.graph
    request.facts |= {
        "opset": program.model.opset_imports.get(""),
        "onnx_nodes": len(graph),
        "artifact_bytes": sum(part.stat().st_size for part in request.directory.glob("model.onnx*")),
        "input_dtypes": {value.name: str(value.dtype) for value in graph.inputs},
        "output_dtypes": {value.name: str(value.dtype) for value in graph.outputs},
    }
    _compare_dimensions(source, graph, request)
    return _mapped(source, graph, path)


def _random_nodes(model: Any) -> int:
    """Random nodes that an output depends on, those inside functions and branches included."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass
    from onnx_ir.traversal import RecursiveGraphIterator

    RemoveUnusedNodesPass()(model)
    graphs = [model.graph, *model.functions.values()]
    return sum(node.op_type in RANDOM_OPERATORS for graph in graphs for node in RecursiveGraphIterator(graph))


def _mapped(source: ExportedProgram, graph: Any, path: Path) -> OnnxModel:
    """The exporter keeps the order of the program's signature, leaves out constants, and may rename."""
    import torch

    taken, returned = _examples(source)
    outputs = tuple(value.name for value in graph.outputs)
    return OnnxModel(
        path=path,
        inputs=tuple(value.name for value in graph.inputs),
        outputs=outputs,
        signature=signature_of(source),
        complex_outputs=frozenset(
            name
            for name, example in zip(outputs, returned, strict=True)
            if isinstance(example, torch.Tensor) and example.is_complex()
        ),
        bounds={
            value.name: tuple(_bounds(source, size) for size in getattr(example, "shape", ()))
            for value, example in zip(graph.inputs, taken, strict=True)
        },
    )


def _bounds(source: ExportedProgram, size: Any) -> tuple[int, int | None]:
    from torch.utils._sympy.numbers import int_oo

    if isinstance(size, int):
        return size, size
    limits = source.range_constraints.get(size.node.expr)
    if limits is None:
        return 0, None
    low, high = (None if limit in (int_oo, -int_oo) else int(limit) for limit in (limits.lower, limits.upper))
    return low or 0, high


def _examples(source: ExportedProgram) -> tuple[list[Any], list[Any]]:
    """The example values (fake tensors, symbolic numbers) of what the program takes and returns, without
    constants: one for each input and output of the file."""
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    values = {node.name: node.meta.get("val") for node in source.graph.nodes}
    taken = [spec.arg for spec in source.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    returned = [spec.arg for spec in source.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    of_taken, of_returned = (
        [values[argument.name] for argument in arguments if not isinstance(argument, ConstantArgument)]
        for arguments in (taken, returned)
    )
    return of_taken, of_returned


def _compare_dimensions(source: ExportedProgram, graph: Any, request: Request) -> None:
    """A dimension that the program holds as a symbol and the file as a number is `SHAPE.specialised`."""
    constant = [
        f"{value.name}.shape[{dimension}] = {value.shape[dimension]}"
        for value, example in zip(graph.inputs, _examples(source)[0], strict=True)
        for dimension, size in enumerate(getattr(example, "shape", ()))
        if not isinstance(size, int) and isinstance(value.shape[dimension], int)
    ]
    if constant:
        text = f"dynamic in the exported program, constant in the ONNX file: {', '.join(constant)}"
        request.findings.append(Finding("partial", "SHAPE.specialised", text))
