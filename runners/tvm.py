"""TVM's virtual machine for Relax, on the CPU. Tensors go in and out by DLPack, without a copy.

https://tvm.apache.org/docs/reference/api/python/relax/relax.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.exporter import Request, Unavailable
from runners.runner import Engine

if TYPE_CHECKING:
    from exporters.tvm_module import TVMModule


def probe(request: Request) -> None:
    """TVM must import and be built with LLVM."""
    provide = "pip install -c constraints.txt '.[tvm]'"
    try:
        import tvm
        import tvm.relax.frontend.torch

        has_llvm = tvm.runtime.enabled("llvm")
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"tvm does not import: {error}", provide) from error
    if not has_llvm:
        raise Unavailable("ENV.broken_package", "this build of TVM has no LLVM", provide)


def load(source: TVMModule, request: Request) -> Engine:
    import tvm
    from torch.utils import dlpack

    machine = tvm.relax.VirtualMachine(source.executable, tvm.cpu())
    main = machine["main"]
    signature = source.signature

    def call(*inputs: Any) -> Any:
        # Called with torch's tensors, TVM answers with torch's tensors; without any, with its own.
        outputs = main(*signature.flatten(inputs))
        return signature.restore([dlpack.from_dlpack(output) for output in outputs if output is not None])

    return Engine(call)
