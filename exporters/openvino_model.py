"""OpenVINO's converter: a module, traced module, exported program or ONNX file in, compilable models out.

A module has three roads to OpenVINO, and which one takes it differs from module to module. They are tried in
the order of `ROADS`; the trace comes last because it freezes Python's decisions without a word.
`facts["roads"]` holds for each road `converted`, or the first line of its refusal. In a process, roads beyond the
first that works are tried once per class of modules: they cost more than that one, at every size anew.

https://docs.openvino.ai/2026/openvino-workflow/model-preparation/convert-model-pytorch.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from exporters import exported_program, onnx_model, program_for_onnx, traced_module
from exporters.exporter import Finding, Request
from exporters.signature import signature_of

if TYPE_CHECKING:
    import openvino
    from torch import Tensor, nn

STAGE = "convert"
ROADS = {
    "exported_program": (exported_program,),
    "onnx": (program_for_onnx, onnx_model),
    "traced": (traced_module,),
}

_explored: set[tuple[type, int]] = set()
"""Classes of modules, with their number of inputs, whose every road was tried."""


@dataclass(frozen=True)
class OpenVINOModel:
    """A model in memory; `flatten` makes its input tensors of a module's arguments, `restore` the module's
    outputs of its output tensors. `facts` and `findings` are its road's own, and count if it is the one to run."""

    model: openvino.Model
    flatten: Callable[[Sequence[Any]], list[Tensor]]
    restore: Callable[[list[Tensor]], Any]
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


class NoRoad(Exception):
    """Every road refused. The message holds the whole text of each, in the order tried."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        super().__init__("\n\n".join(f"[{road}] {type(error).__name__}: {error}" for road, error in failures.items()))


def export(source: Any, request: Request) -> dict[str, OpenVINOModel]:
    """Models by road. A module tries every road; the artifact of another exporter has one and raises its error."""
    import torch
    from torch import nn

    if isinstance(source, nn.Module) and not isinstance(source, torch.jit.ScriptModule):
        return _try_roads(source, request)
    return _convert(source, request)


def first_line(error: Exception) -> str:
    """The first line that says something: OpenVINO's own errors begin with their places in its source."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("Exception from ")]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _try_roads(module: nn.Module, request: Request) -> dict[str, OpenVINOModel]:
    models: dict[str, OpenVINOModel] = {}
    failures: dict[str, Exception] = {}
    question = (type(module), len(request.inputs))
    for road, exporters in ROADS.items():
        if models and question in _explored:
            break
        own = replace(request, facts={}, findings=[])
        try:
            artifact: Any = module
            for exporter in exporters:
                request.stages.enter(exporter.STAGE)
                artifact = exporter.export(artifact, own)
            request.stages.enter(STAGE)
            models[road] = replace(_convert(artifact, own)[road], facts=own.facts, findings=own.findings)
        except Exception as error:  # a road may refuse with any error: it costs that road alone
            failures[road] = error
    _explored.add(question)
    request.facts["roads"] = dict.fromkeys(models, "converted") | {
        road: first_line(error) for road, error in failures.items()
    }
    if not models:
        raise NoRoad(failures) from failures["exported_program"]
    return models


def _convert(artifact: Any, request: Request) -> dict[str, OpenVINOModel]:
    import torch
    from torch.export import ExportedProgram

    if isinstance(artifact, ExportedProgram):
        return {"exported_program": _of_program(artifact, request)}
    if isinstance(artifact, torch.jit.ScriptModule):
        return {"traced": _of_trace(artifact, request)}
    return {"onnx": _of_onnx(artifact)}


def _of_program(program: Any, request: Request) -> OpenVINOModel:
    import openvino

    signature = signature_of(program)
    shapes = _shapes(signature.flatten(request.inputs), request)
    return OpenVINOModel(openvino.convert_model(program, input=shapes), signature.flatten, signature.restore)


def _of_trace(traced: Any, request: Request) -> OpenVINOModel:
    import openvino

    shapes = _shapes(_tensors(request.inputs), request)
    model = openvino.convert_model(traced, example_input=request.inputs, input=shapes)
    return OpenVINOModel(model, _tensors, lambda outputs: outputs[0] if len(outputs) == 1 else tuple(outputs))


def _of_onnx(source: onnx_model.OnnxModel) -> OpenVINOModel:
    import openvino

    return OpenVINOModel(
        openvino.Core().read_model(source.path),
        lambda arguments: list(source.flatten(arguments, "cpu").values()),
        lambda outputs: source.restore(dict(zip(source.outputs, outputs, strict=True))),
    )


def _tensors(arguments: Sequence[Any]) -> list[Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def _shapes(tensors: list[Tensor], request: Request) -> list[openvino.PartialShape]:
    """The shape of every input; -1 where a dimension was asked dynamic.

    Left alone, the converter makes every dimension of a program or a trace dynamic, though the graph inside
    is the example's: another shape would be computed wrongly where it must be refused.
    """
    import openvino

    asked = request.dynamic_shapes if isinstance(request.dynamic_shapes, (tuple, list)) else ()
    dynamic = [dimensions or {} for dimensions in asked] + [{}] * (len(tensors) - len(asked))
    return [
        openvino.PartialShape([-1 if axis in axes else size for axis, size in enumerate(tensor.shape)])
        for tensor, axes in zip(tensors, dynamic, strict=False)
    ]
