"""Ahead-of-time compilation by Inductor: `ExportedProgram` in, a `.pt2` package of machine code out.

https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exporters.exporter import Request
from exporters.kernels import counted_kernels

if TYPE_CHECKING:
    from torch.export import ExportedProgram

STAGE = "build"


def export(source: ExportedProgram, request: Request) -> Path:
    from torch._inductor import aoti_compile_and_package

    package = request.directory / "model.pt2"
    with counted_kernels(request.facts):
        aoti_compile_and_package(source, package_path=str(package))
    request.facts["artifact_bytes"] = package.stat().st_size
    return package
