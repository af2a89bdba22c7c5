"""PyTorch without a compiler: the reference that every other backend is judged against."""

from __future__ import annotations

from typing import Any

from exporters.exporter import Request
from runners.runner import Engine


def probe(request: Request) -> None:
    """Eager runs wherever torch imports."""
    import torch  # noqa: F401


def load(source: Any, request: Request) -> Engine:
    return Engine(source)
