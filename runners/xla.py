"""XLA on the CPU: torchax runs the module's Python on JAX arrays under `jax.jit`, which hands XLA the graph.

A new shape is a new compilation, so every shape is accepted that the module's Python accepts. `jax.jit` knows no
hidden state: the random key goes in with every call and its successor comes out, as JAX's users do it, else a
draw would be baked into the compiled function.

https://docs.pytorch.org/xla/master/torchax.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    """Trace, lower and compile for the example; facts: StableHLO's operators and bytes, compilations until the
    inspection."""
    import jax
    import torch
    from torch.utils import dlpack

    with _missing_overloads():
        import torchax

        # torchax's other mode makes int64 int32 and float64 float32.
        torchax.enable_accuracy_mode()
        environment = torchax.default_env()
    cpu = jax.devices("cpu")[0]
    weights, function = torchax.extract_jax(source)

    def drawing(form: _Form, key: Any, weights: Any, arrays: list[Any]) -> Any:
        # The default device is where a draw or a range that names no device is made. A module that asks whether
        # it is being compiled is: torchax does not say so.
        compiling = mock.patch.object(torch.compiler, "is_compiling", return_value=True)
        with environment.override_property(prng=key), torch.device("jax", 0), compiling:
            outputs, form = _Form.of(function(weights, form.filled(arrays)), jax.Array)
            # A Partial's arguments are traced, its function is kept with what was compiled.
            return jax.tree_util.Partial(form.filled, outputs), environment.prng_key

    jitted = jax.jit(drawing, static_argnums=0)
    state = jax.device_put((jax.random.key(torch.initial_seed() % 2**63), weights), cpu)

    def arguments(inputs: Any) -> Any:
        tensors, form = _Form.of(inputs, torch.Tensor)
        arrays = [jax.numpy.from_dlpack(tensor.detach().contiguous()) for tensor in tensors]
        return form, *state, arrays

    def call(*inputs: Any) -> Any:
        nonlocal state
        outputs, key = jax.block_until_ready(jitted(*arguments(inputs)))
        state = key, state[1]
        return outputs.func([dlpack.from_dlpack(array) for array in outputs.args[0]])

    request.stages.enter("capture")
    traced = jitted.trace(*arguments(request.inputs))
    request.stages.enter("convert")
    program = traced.lower().as_text()
    request.facts |= {
        "stablehlo_operators": len(re.findall(r"(?<![#!.\w])stablehlo\.(?!return\b)\w", program)),
        "stablehlo_bytes": len(program),
    }
    request.stages.enter("build")
    call(*request.inputs)

    def inspect() -> None:
        request.facts["compilations"] = jitted._cache_size()  # type: ignore[attr-defined]

    return Engine(call, inspect)


@dataclass(frozen=True)
class _Form:
    """A tree without its tensors: its structure, and its other leaves by place."""

    structure: Any
    others: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, tree: Any, kind: type) -> tuple[list[Any], _Form]:
        """The leaves of a kind, and the form that takes them back."""
        from torch.utils._pytree import tree_flatten

        leaves, structure = tree_flatten(tree)
        others = tuple((place, leaf) for place, leaf in enumerate(leaves) if not isinstance(leaf, kind))
        return [leaf for leaf in leaves if isinstance(leaf, kind)], cls(structure, others)

    def filled(self, tensors: list[Any]) -> Any:
        from torch.utils._pytree import tree_unflatten

        leaves = list(tensors)
        for place, leaf in self.others:
            leaves.insert(place, leaf)
        return tree_unflatten(leaves, self.structure)


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
