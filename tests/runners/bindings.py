"""Checks calls that cannot run here against the real bindings: what our source uses is read from the source
itself, so the check cannot go stale."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def chains(path: Path, root: str) -> set[str]:
    """Every dotted name that starts with `root`, such as `trt.ILogger.ERROR`."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and re.fullmatch(rf"{root}(\.\w+)+", ast.unparse(node))
    }


def missing(path: Path, root: str, module: Any) -> list[str]:
    """The dotted names of `root` that `module` does not have."""
    return [chain for chain in sorted(chains(path, root)) if not _resolves(module, chain.split(".")[1:])]


def misuses(path: Path, variables: dict[str, Any]) -> tuple[set[str], list[str]]:
    """What the source does to `variables` (name -> class): the attributes used, and each use that the class
    has no attribute for, or whose arguments no signature of it takes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used, wrong = set(), []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in variables:
            used.add(f"{node.value.id}.{node.attr}")
            if not hasattr(variables[node.value.id], node.attr):
                wrong.append(f"line {node.lineno}: no {node.value.id}.{node.attr}")
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Name) and hasattr(variables.get(owner.id), node.func.attr):
            function = getattr(variables[owner.id], node.func.attr)
            if not any(_takes(parameters, node) for parameters in _signatures(function)):
                wrong.append(f"line {node.lineno}: {ast.unparse(node)} fits no signature of {function}")
    return used, wrong


def _resolves(value: Any, names: list[str]) -> bool:
    for name in names:
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def _signatures(function: Any) -> Iterator[list[tuple[str, bool]]]:
    """Parameters as (name, required) without self; pybind keeps them in the docstring, one an overload."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        pattern = rf"(?m)^(?:\d+\. )?{function.__name__}\((.*)\)(?: ->.*)?$"
        for found in re.findall(pattern, function.__doc__):
            if found.startswith("*args"):
                continue
            names = [part.strip() for part in re.split(r",(?![^\[<(]*[\]>)])", found)]
            yield [(name.split(":")[0], "=" not in name) for name in names if not name.startswith("self")]
        return
    yield [
        (parameter.name, parameter.default is parameter.empty) for parameter in parameters if parameter.name != "self"
    ]


def _takes(parameters: list[tuple[str, bool]], call: ast.Call) -> bool:
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return len(call.args) <= len(parameters)
    names = [name for name, _ in parameters]
    given = set(names[: len(call.args)]) | {keyword.arg for keyword in call.keywords}
    required = {name for name, is_required in parameters if is_required}
    return len(call.args) <= len(names) and given <= set(names) and required <= given
