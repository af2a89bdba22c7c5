"""Capture as `torch.onnx.export` captures a module: by `torch.export.export`, and in its strict mode where that
refuses. Module in, `ExportedProgram` out.

Strict mode has Dynamo read the module's code, which takes some decisions on unknown numbers that running it on fake
tensors does not. https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from exporters import exported_program
from exporters.exporter import Request

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

STAGE = "capture"


def export(source: nn.Module, request: Request) -> ExportedProgram:
    """The fact `captured_strictly` tells of a program that only strict mode made; where both refuse, the words are
    those of the first."""
    try:
        return exported_program.export(source, request)
    except Exception:
        with contextlib.suppress(Exception):
            program = exported_program.export(source, request, strict=True)
            request.facts["captured_strictly"] = True
            return program
        raise
