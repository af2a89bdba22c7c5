"""IREE's runtime on the CPU: a `.vmfb` file in, launched by iree-turbine, which imports the memory of torch's tensors.

https://iree.dev/guides/ml-frameworks/pytorch/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.exporter import Request, Unavailable
from exporters.words import kept_words
from runners.runner import Engine

if TYPE_CHECKING:
    from exporters.iree_module import IREEModule


def probe(request: Request) -> None:
    """The compiler, the runtime and turbine must import, and the CPU driver must open a device."""
    provide = "pip install -c constraints.txt '.[iree]'"
    try:
        import iree.compiler.api
        import iree.runtime
        import iree.turbine.aot

        iree.runtime.get_device("local-task")
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"iree does not work: {error}", provide) from error


def load(source: IREEModule, request: Request) -> Engine:
    import torch
    from iree.runtime import VmModule
    from iree.turbine.runtime import Launchable

    program = source.path.read_bytes()
    signature = source.signature
    cpu = torch.device("cpu")
    launchable = Launchable.from_vm_module(lambda device: VmModule.copy_buffer(device.vm_instance, program))
    with kept_words():
        launchable.preload(cpu)

    def call(*inputs: Any) -> Any:
        outputs = launchable(*signature.flatten(inputs), device=cpu)
        return signature.restore(outputs if isinstance(outputs, list) else [outputs])

    return Engine(call)
