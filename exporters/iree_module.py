"""IREE: `ExportedProgram` in, a `.vmfb` file out, compiled for the CPU by LLVM.

Option `sm`, such as `"8.9"`: compile for a GPU of that compute capability too, which needs none and takes about as
long. The fact `built_for_cuda` is True or holds the words of the refusal. Its time belongs to no stage.

https://iree.dev/guides/ml-frameworks/pytorch/
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.exporter import Request
from exporters.signature import Signature, signature_of
from exporters.words import kept_words

if TYPE_CHECKING:
    from torch.export import ExportedProgram

STAGE = "convert"


@dataclass(frozen=True)
class IREEModule:
    path: Path
    signature: Signature


def export(source: ExportedProgram, request: Request) -> IREEModule:
    """Import to MLIR in stage `convert`, compile in stage `build`; diagnostics are part of the error's message."""
    from iree.turbine import aot

    path = request.directory / "model.vmfb"
    with kept_words():
        imported = aot.export(source)
        request.stages.enter("build")
        _compile(imported, path, "llvm-cpu", "--iree-llvmcpu-target-cpu=host")
    request.facts["artifact_bytes"] = path.stat().st_size
    if sm := request.options.get("sm"):
        with request.stages.aside():
            request.facts |= _built_for_cuda(source, request.directory / "model.cuda.vmfb", sm)
    return IREEModule(path, signature_of(source))


def _built_for_cuda(source: ExportedProgram, path: Path, sm: str) -> dict[str, Any]:
    from iree.turbine import aot

    try:
        with kept_words():
            _compile(aot.export(source), path, "cuda", f"--iree-cuda-target=sm_{sm.replace('.', '')}")
    except RuntimeError as error:
        lines = str(error).splitlines()
        return {"built_for_cuda": next((line for line in lines if "error: " in line), lines[0])}
    return {"built_for_cuda": True, "cuda_artifact_bytes": path.stat().st_size}


def _compile(imported: Any, path: Path, target: str, *flags: str) -> None:
    imported.session.set_flags(*flags)
    imported.compile(save_to=path, target_backends=target)
