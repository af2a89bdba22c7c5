"""XLA on the CPU: torchax runs the module's Python on JAX arrays under `jax.jit`, which hands XLA the graph.

A new shape is a new compilation, so every shape is accepted that the module's Python accepts. `jax.jit` knows no
hidden state: the random key goes in with every call and its successor comes out, as JAX's users do it, else a
draw would be baked into the compiled function.

https://docs.pytorch.org/xla/master/torchax.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from exporters.exporter import Request, Unavailable
from runners.runner import Engine

if TYPE_CHECKING:
    from torch import nn


def probe(request: Request) -> None:
    """JAX and torchax must import, and JAX must have a CPU."""
    provide = "pip install -c constraints.txt '.[xla]'"
    try:
        import jax

        with _missing_overloads():
            import torchax

            torchax.default_env()
        jax.devices("cpu")
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"torchax does not import: {error}", provide) from error


def load(source: nn.Module, request: Request) -> Engine:
    """Trace and compile for the example; facts: the shapes compiled for."""
    import jax
    import torch

    with _missing_overloads():
        import torchax

        # torchax's other mode makes int64 int32 and float64 float32.
        torchax.enable_accuracy_mode()
        environment = torchax.default_env()
    weights, function = torchax.extract_jax(source)

    def drawing(key: Any, weights: Any, arguments: Any) -> Any:
        with environment.override_property(prng=key):
            outputs = function(weights, arguments)
            return outputs, environment.prng_key

    jitted = jax.jit(drawing)
    key = jax.random.key(torch.initial_seed() % 2**63)

    def call(*inputs: Any) -> Any:
        nonlocal key
        outputs, key = jitted(key, weights, _map(torch.Tensor, _to_jax, inputs))
        return _map(jax.Array, torch.from_dlpack, jax.block_until_ready(outputs))

    request.stages.enter("capture")
    traced = jitted.trace(key, weights, _map(torch.Tensor, _to_jax, request.inputs))
    request.stages.enter("convert")
    lowered = traced.lower()
    request.stages.enter("build")
    request.facts["artifact_bytes"] = len(lowered.as_text())
    call(*request.inputs)

    def inspect() -> None:
        request.facts["compilations"] = jitted._cache_size()

    return Engine(call, inspect)


def _to_jax(tensor: Any) -> Any:
    import jax

    return jax.numpy.from_dlpack(tensor.detach().contiguous())


def _map(kind: Any, function: Any, tree: Any) -> Any:
    from torch.utils._pytree import tree_map_only

    return tree_map_only(kind, function, tree)


@contextmanager
def _missing_overloads() -> Iterator[None]:
    """Answer, while torchax is imported and set up, for the operator overloads that torch no longer has.

    torchax 0.0.13 registers lowerings for overloads with named dimensions (`prod.dim_Dimname`, …), which
    torch 2.13 dropped. A placeholder takes their registration and is never called. Where torchax names none
    of them, or torch has them all, the look-up below answers nothing and changes nothing.
    """
    from torch._ops import OpOverloadPacket

    look_up = OpOverloadPacket.__getattr__

    def answer(packet: Any, name: str) -> Any:
        try:
            return look_up(packet, name)
        except AttributeError:
            if "names" not in name and "dimname" not in name.lower():
                raise
            return f"{packet}.{name}, which torch no longer has"

    with mock.patch.object(OpOverloadPacket, "__getattr__", answer):
        yield
