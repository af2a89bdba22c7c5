"""IREE: `ExportedProgram` in, a `.vmfb` file out, compiled for the CPU by LLVM.

Option `cuda`, e.g. `"sm_89"`: compile for that GPU too, which needs none; the fact `built_for_cuda_sm_89` holds
the bytes of the result, or the words of the refusal.

https://iree.dev/guides/ml-frameworks/pytorch/
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    path = request.directory / "model.vmfb"
    _compile(source, request, path, "llvm-cpu", "--iree-llvmcpu-target-cpu=host")
    request.facts["artifact_bytes"] = path.stat().st_size
    if architecture := request.options.get("cuda"):
        for_cuda = request.directory / f"model.{architecture}.vmfb"
        try:
            _compile(source, request, for_cuda, "cuda", f"--iree-cuda-target={architecture}")
            built: int | str = for_cuda.stat().st_size
        except RuntimeError as error:
            built = str(error)
        request.facts[f"built_for_cuda_{architecture}"] = built
    return IREEModule(path, signature_of(source))


def _compile(source: ExportedProgram, request: Request, path: Path, target: str, *flags: str) -> None:
    from iree.turbine import aot

    with kept_words():
        request.stages.enter("convert")
        imported = aot.export(source)
        request.stages.enter("build")
        imported.session.set_flags(*flags)
        imported.compile(save_to=path, target_backends=target)
