"""ExecuTorch's runtime, from its Python bindings: a `.pte` file in. Outputs are copied out on every call.

https://docs.pytorch.org/executorch/stable/runtime-python-api-reference.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.exporter import Request, Unavailable
from exporters.words import kept_words
from runners.runner import Engine

if TYPE_CHECKING:
    from exporters.executorch_program import ExecutorchProgram


def probe(request: Request) -> None:
    """The compiler and the runtime must import, and the runtime must know the partitioner's backend."""
    provide = "pip install -c constraints.txt '.[executorch]'"
    try:
        import executorch.exir  # noqa: F401
        from executorch.runtime import Runtime

        backends = Runtime.get().backend_registry.registered_backend_names
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"executorch does not import: {error}", provide) from error
    if request.options.get("partitioner") == "xnnpack" and "XnnpackBackend" not in backends:
        raise Unavailable("ENV.no_provider", f"ExecuTorch's runtime has {backends}, no XnnpackBackend", provide)


def load(source: ExecutorchProgram, request: Request) -> Engine:
    from executorch.runtime import Runtime
    from torch.utils._pytree import tree_leaves, tree_unflatten

    with kept_words():
        method = Runtime.get().load_program(source.path).load_method("forward")
    assert method is not None
    structure = source.structure

    def call(*inputs: Any) -> Any:
        leaves = [_contiguous(leaf) for leaf in tree_leaves(inputs)]
        try:
            outputs = method.execute(leaves)
        except RuntimeError:
            # The exception has a number only. The words are printed, and hearing them costs: on failure alone.
            with kept_words():
                outputs = method.execute(leaves)
        # An exported program returns the inputs it changes before its outputs.
        return tree_unflatten(outputs[len(outputs) - structure.num_leaves :], structure)

    return Engine(call)


def _contiguous(leaf: Any) -> Any:
    """A tensor as the runtime takes it; numbers and None are taken as they are."""
    import torch

    return leaf.detach().contiguous() if isinstance(leaf, torch.Tensor) else leaf
