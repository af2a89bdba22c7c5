"""Convert an `ExportedProgram` to an ONNX file by `torch.onnx.export(dynamo=True)`.

https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request

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

    `inputs` maps each input's name to its place among the leaves of the arguments: constants such as
    None or a Python number are leaves without an input. `structure` is the tree of the outputs and
    `leaves` are its leaves, each the name of an output or a `Constant`; `numbers` are the outputs that
    the module returns as Python numbers, `complex_numbers` those that ONNX holds as pairs of reals.
    `bounds` are the least and the largest size that the exported program allows, for each dimension of
    each input; equal when it is fixed, None for no limit.
    """

    path: Path
    inputs: dict[str, int]
    outputs: tuple[str, ...]
    structure: Any
    leaves: tuple[str | Constant, ...]
    numbers: frozenset[str]
    complex_numbers: frozenset[str]
    bounds: dict[str, tuple[tuple[int, int | None], ...]]

    def flatten(self, arguments: Sequence[Any], device: str) -> dict[str, Tensor]:
        """The contiguous tensor of every input, by name; a Python number becomes a 0-d tensor on `device`.

        Nothing is copied but what is not contiguous: engines take an address and no strides.
        """
        import torch
        from torch.utils._pytree import tree_leaves

        plain = all(isinstance(argument, torch.Tensor) for argument in arguments)
        leaves = arguments if plain else tree_leaves(arguments)
        tensors = {}
        for name, place in self.inputs.items():
            leaf = leaves[place]
            tensor = leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf, device=device)
            tensors[name] = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous()
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> Any:
        """The outputs as the module returns them, from the tensors by name."""
        from torch.utils._pytree import tree_unflatten

        values = [
            leaf.value if isinstance(leaf, Constant) else self._value(leaf, tensors[leaf])
            for leaf in self.leaves
        ]
        return tree_unflatten(values, self.structure)

    def _value(self, name: str, tensor: Tensor) -> Any:
        import torch

        if name in self.numbers:
            return tensor.item()
        return torch.view_as_complex(tensor) if name in self.complex_numbers else tensor


@dataclass(frozen=True)
class Constant:
    """An output that is no tensor but a fixed Python value, such as None."""

    value: Any


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
        "onnx_nodes": sum(1 for _ in graph.all_nodes()),
        "artifact_bytes": sum(part.stat().st_size for part in request.directory.glob("model.onnx*")),
        "input_dtypes": {value.name: str(value.dtype) for value in graph.inputs},
        "output_dtypes": {value.name: str(value.dtype) for value in graph.outputs},
    }
    _compare_dimensions(source, graph, request)
    return _mapped(source, graph, path)


def _random_nodes(model: Any) -> int:
    """Random nodes that an output depends on, those inside functions and branches included."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    RemoveUnusedNodesPass()(model)
    graphs = [model.graph, *model.functions.values()]
    return sum(node.op_type in RANDOM_OPERATORS for graph in graphs for node in graph.all_nodes())


def _mapped(source: ExportedProgram, graph: Any, path: Path) -> OnnxModel:
    """The exporter keeps the order of the program's signature, leaves out constants, and may rename."""
    import torch
    from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument

    examples = _examples(source)
    specs = source.graph_signature.output_specs
    returned = [spec.arg for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    tensors = [argument for argument in returned if not isinstance(argument, ConstantArgument)]
    named = [(value.name, argument) for value, argument in zip(graph.outputs, tensors, strict=True)]
    names = iter(name for name, _ in named)
    return OnnxModel(
        path=path,
        inputs={value.name: place for value, (place, _) in zip(graph.inputs, _inputs(source), strict=True)},
        outputs=tuple(name for name, _ in named),
        structure=source.call_spec.out_spec,
        leaves=tuple(
            Constant(argument.value) if isinstance(argument, ConstantArgument) else next(names)
            for argument in returned
        ),
        numbers=frozenset(name for name, argument in named if not isinstance(argument, TensorArgument)),
        complex_numbers=frozenset(
            name
            for name, argument in named
            if isinstance(example := examples[argument.name], torch.Tensor) and example.is_complex()
        ),
        bounds={
            value.name: tuple(_bounds(source, size) for size in getattr(examples[name], "shape", ()))
            for value, (_, name) in zip(graph.inputs, _inputs(source), strict=True)
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


def _inputs(source: ExportedProgram) -> list[tuple[int, str]]:
    """Place among the leaves of the arguments, and name, of every user input that is no constant."""
    from torch.export.graph_signature import ConstantArgument, InputKind

    arguments = [spec.arg for spec in source.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return [
        (place, argument.name)
        for place, argument in enumerate(arguments)
        if not isinstance(argument, ConstantArgument)
    ]


def _examples(source: ExportedProgram) -> dict[str, Any]:
    """The example value (a fake tensor, or a symbolic number) of every node of the program."""
    return {node.name: node.meta.get("val") for node in source.graph.nodes}


def _compare_dimensions(source: ExportedProgram, graph: Any, request: Request) -> None:
    """A dimension that the program holds as a symbol and the file as a number is `SHAPE.specialised`."""
    examples = _examples(source)
    constant = [
        f"{value.name}.shape[{dimension}] = {value.shape[dimension]}"
        for value, (_, name) in zip(graph.inputs, _inputs(source), strict=True)
        for dimension, size in enumerate(getattr(examples[name], "shape", ()))
        if not isinstance(size, int) and isinstance(value.shape[dimension], int)
    ]
    if constant:
        text = f"dynamic in the exported program, constant in the ONNX file: {', '.join(constant)}"
        request.findings.append(Finding("partial", "SHAPE.specialised", text))
