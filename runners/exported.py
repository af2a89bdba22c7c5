"""torch.export's own program, run as a module: what every export road starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporters.exporter import Request
from runners.runner import Engine

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def probe(request: Request) -> None:
    import torch._dynamo
    import torch.export  # noqa: F401


def load(source: ExportedProgram, request: Request) -> Engine:
    return Engine(source.module())
