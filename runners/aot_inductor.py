"""A package of AOTInductor, loaded and run."""

from __future__ import annotations

from pathlib import Path

from exporters.exporter import Request
from runners.runner import Engine


def probe(request: Request) -> None:
    import torch._inductor  # noqa: F401


def load(source: Path, request: Request) -> Engine:
    from torch._inductor import aoti_load_package

    return Engine(aoti_load_package(str(source)))
