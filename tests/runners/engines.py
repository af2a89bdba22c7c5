"""Small modules, and the road of a backend gone by hand, for the tests of the engines."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from exporters.exporter import Request
from runners.backends import BACKENDS


class Scaled(nn.Module):
    """Every kind of leaf: nested outputs, an integer, a boolean, a 0-d tensor."""

    def forward(self, rows: Tensor, count: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        return rows * 2.0 + 1.0, {"count": count + 1, "high": rows > 0.5}, rows.sum()


class BrainFloat(nn.Module):
    """bfloat16 in and out."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows * 2 + 1


class Drawn(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows + torch.rand(rows.shape, device=rows.device)


class PlainNonzero(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows[torch.nonzero(rows > 0.5).squeeze(1)]


def scaled_inputs() -> tuple[Tensor, Tensor]:
    return torch.rand(3, 4), torch.tensor(7)


def go(backend: str, module: nn.Module, inputs: tuple[Any, ...], directory: Path) -> tuple[Any, Request]:
    """Probe, export, load: the engine, and the request with its facts and findings."""
    road = BACKENDS[backend]
    request = Request(inputs, "cpu", directory, options=road.options)
    runner = importlib.import_module(f"runners.{road.runner}")
    runner.probe(request)
    artifact: Any = module
    for name in road.exporters:
        exporter = importlib.import_module(f"exporters.{name}")
        request.stages.enter(exporter.STAGE)
        artifact = exporter.export(artifact, request)
    request.stages.enter("build")
    return runner.load(artifact, request), request


def assert_as_eager(outputs: Any, module: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Same structure, dtypes, shapes; same values up to a float's last digits."""
    torch.testing.assert_close(outputs, module(*inputs), check_device=True)
