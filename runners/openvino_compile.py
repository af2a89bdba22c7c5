"""OpenVINO as torch.compile's backend: it cuts Dynamo's graphs into parts it takes and operators left to torch.

It is quiet about what it cannot do: a graph whose conversion fails goes to Inductor, a part whose compilation
fails runs in eager, and both are said in debug messages only. These are listened for.

https://docs.openvino.ai/2026/openvino-workflow/torch-compile.html
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request
from runners import compiled, openvino
from runners.runner import Engine

if TYPE_CHECKING:
    from torch import nn

probe = openvino.probe

_LOGGER = "openvino.frontend.pytorch.torchdynamo"


def load(source: nn.Module, request: Request) -> Engine:
    """Capture and compile by a first call. A finding tells what ran outside OpenVINO, with the reasons."""
    import openvino.torch  # noqa: F401
    from openvino.frontend.pytorch.torchdynamo import execute

    earlier = set(execute.partitioned_modules)
    refusals = _Refusals()
    logger = logging.getLogger(_LOGGER)
    logger.addHandler(refusals)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    engine = compiled.load(source, request, backend="openvino")

    def inspect() -> None:
        engine.inspect()
        graphs = {id(graph): graph for key, graph in execute.partitioned_modules.items() if key not in earlier}
        _report(request, list(graphs.values()), refusals)

    return Engine(engine, inspect)


class _Refusals(logging.Handler):
    """Keeps the messages in which the backend says that something ran elsewhere."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith(("Failed in OpenVINO execution", "OpenVINO execution failed")):
            self.texts[message] = self.texts.get(message, 0) + 1


def _layers(part: Any) -> list[Any]:
    """A part, outermost first: a graph that comes with inputs of another kind is partitioned, and wrapped, anew."""
    layers = [part]
    while isinstance(layers[-1].gm, type(part)):
        layers.append(layers[-1].gm)
    return layers


def _report(request: Request, graphs: list[Any], refusals: _Refusals) -> None:
    taken, left = 0, Counter[str]()
    for graph in graphs:
        for node in graph.graph.nodes:
            if node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem":
                left[str(node.target)] += 1
            elif node.op == "call_module":
                layers = _layers(graph.get_submodule(node.target))
                inner = [each for each in layers[-1].gm.graph.nodes if each.op == "call_function"]
                if all(layer.perm_fallback for layer in layers):
                    left.update(str(each.target) for each in inner)
                else:
                    taken += len(inner)
    total = taken + sum(left.values())
    request.facts |= {
        "operators_delegated": taken,
        "operators_left": dict(left),
        "refusals": sum(refusals.texts.values()),
    }
    if left or refusals.texts or not graphs:
        names = ", ".join(f"{count} × {name}" for name, count in left.items())
        text = f"{sum(left.values())} of {total} operators ran outside OpenVINO: {names or 'a whole graph'}"
        request.findings.append(Finding("partial", "FALLBACK.undelegated", "\n".join([text, *refusals.texts])))
