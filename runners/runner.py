"""The protocol of runners: a module or an artifact in, a callable on a device out. One engine a file.

A runner is a module of this package that defines

    def probe(request) -> None            raises Unavailable, found by trying, when it cannot work here
    def load(source, request) -> Loaded   the callable, compiled and on its device

    def prepare() -> None                 optional: what the engine does once per machine and never again,
                                          done before the study so that no cell is charged with it

and imports its engine inside these functions. `load` runs in stage `build`; an engine that compiles in
its first call makes that call inside `load` and enters the stages as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from exporters.exporter import Unavailable


def require_cuda() -> None:
    """Raise Unavailable where torch cannot use a GPU, found by trying; a full one is there all the same."""
    import torch

    try:
        torch.zeros(1, device="cuda")
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError) as error:
        raise Unavailable("ENV.no_device", f"torch.zeros(1, device='cuda'): {error}", "an NVIDIA GPU") from error


class Built(Exception):
    """Raised by `load`: the engine was built for a device that this machine lacks, so it cannot run."""


class Loaded(Protocol):
    """A callable on a device: the module's inputs in, its outputs (as torch tensors) out.

    Tensors lie on the request's device on both sides. Nothing may be copied that the engine can be handed
    in place. A call returns when the work is queued on torch's current stream (CUDA) or done (CPU).
    `inspect` is asked after the calls of verification and reports into the request what really ran: nodes
    per provider, graph breaks, recompilations.
    """

    def __call__(self, *inputs: Any) -> Any: ...

    def inspect(self) -> None: ...


class Engine:
    """A `Loaded` made of two functions."""

    def __init__(self, call: Callable[..., Any], inspect: Callable[[], None] = lambda: None) -> None:
        self._call = call
        self._inspect = inspect

    def __call__(self, *inputs: Any) -> Any:
        return self._call(*inputs)

    def inspect(self) -> None:
        self._inspect()
