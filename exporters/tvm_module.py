"""TVM: `ExportedProgram` in, Relax in between, an executable for the CPU by LLVM out.

https://tvm.apache.org/docs/how_to/tutorials/e2e_opt_model.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporters.exporter import Request
from exporters.signature import Signature, signature_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram

STAGE = "convert"


@dataclass(frozen=True)
class TVMModule:
    """`executable` is a `tvm.relax.VMExecutable`; it also lies in the request's directory, as `model.so`."""

    executable: Any
    signature: Signature


def export(source: ExportedProgram, request: Request) -> TVMModule:
    """Import to Relax in stage `convert`, compile by TVM's default pipeline, untuned, in stage `build`."""
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(source)
    request.stages.enter("build")
    executable = tvm.compile(module, target="llvm")
    path = request.directory / "model.so"
    executable.export_library(str(path))
    request.facts["artifact_bytes"] = path.stat().st_size
    return TVMModule(executable, signature_of(source))
