"""A package of AOTInductor, loaded and run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from exporters.exporter import Request
from runners.compiled import compiles_for, know_processor
from runners.runner import Engine


def probe(request: Request) -> None:
    import torch._inductor.compile_fx  # noqa: F401

    know_processor()


def prepare() -> None:
    """Let Inductor precompile the headers of its packages, which it keeps for all later compilations."""
    import torch
    from torch._inductor import aoti_compile_and_package

    program = torch.export.export(torch.nn.ReLU(), (torch.ones(8, device=compiles_for()),))
    with tempfile.TemporaryDirectory() as directory:
        aoti_compile_and_package(program, package_path=str(Path(directory) / "model.pt2"))


def load(source: Path, request: Request) -> Engine:
    from torch._inductor import aoti_load_package

    return Engine(aoti_load_package(str(source)))
