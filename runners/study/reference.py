"""Eager as the reference: what it answers, what it leaves of its inputs, and which outputs it draws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runners.study import compare

if TYPE_CHECKING:
    from torch import nn

RUNS_OF_A_DRAW = 3
"""Of eager on an input on which it draws, besides the first, to see which outputs change."""


@dataclass(frozen=True)
class Reference:
    """Eager on one input: its outputs, what it leaves of the inputs, the numbers of the outputs that it changes
    from run to run, and whether it drew at all."""

    outputs: Any
    left: Any
    drawn: frozenset[int]
    drew: bool


def run(eager: Callable[..., Any], arguments: tuple[Any, ...]) -> Reference:
    """Eager on `arguments`, at least twice: it must agree with itself where it does not draw. It draws if its second
    run moves the generator: a module that seeds it anew in every call has moved it once and for all."""
    handed = compare.clone(arguments)
    outputs = compare.clone(eager(*handed))
    count = len(compare.leaves(outputs))
    with _generator_watched() as drew:
        again = compare.clone(eager(*compare.clone(arguments)))
    drawn = set(compare.differing(outputs, again, exactly=drew[0]))
    for _ in range(RUNS_OF_A_DRAW - 1 if drew[0] else 0):
        if len(drawn) == count:
            break
        again = compare.clone(eager(*compare.clone(arguments)))
        drawn |= compare.differing(outputs, again, exactly=True)
    left = arguments if compare.identical(handed, arguments) else handed  # large ones are not held twice
    return Reference(outputs, left, frozenset(drawn), drew[0])


def keeps_state(module: nn.Module, arguments: tuple[Any, ...]) -> bool:
    """Whether a call, which is made, changes what the module holds; False where it raises."""
    before = _held(module)
    try:
        module(*compare.clone(arguments))
    except Exception:  # eager's own failure is told where its answers are asked for
        return False
    after = _held(module)
    return len(before) != len(after) or not compare.identical(before, after)


def afresh(module: nn.Module) -> Callable[..., Any]:
    """The module's answers without the traces of its calls: each is a copy's."""

    def call(*inputs: Any) -> Any:
        return copied(module)(*inputs)

    return call


def precise(module: nn.Module, arguments: tuple[Any, ...]) -> Any:
    """The outputs of a float64 run of eager, None where there is none."""
    import torch
    from torch.utils._pytree import tree_map

    def widen(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    try:
        return copy.deepcopy(module).double()(*tree_map(widen, compare.clone(arguments)))
    except Exception:  # a module that names its dtypes has no float64 form
        return None


def copied(module: nn.Module) -> nn.Module:
    """The module's own copy for eager runs; the module itself where it cannot be copied."""
    try:
        return copy.deepcopy(module)
    except Exception:  # whatever a case file's module holds
        return module


def _held(module: nn.Module) -> list[Any]:
    """Copies of the tensors, and the numbers and words, that a module and its parts hold: parameters, buffers, those
    outside `state_dict` too, and plain attributes."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves([vars(part) for part in module.modules()])
    return compare.leaves(compare.clone([leaf for leaf in leaves if isinstance(leaf, (torch.Tensor, int, float, str))]))


@contextmanager
def _generator_watched() -> Iterator[list[bool]]:
    """A list of one: whether torch's default generators moved inside the block."""
    import torch

    def states() -> list[Any]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]

    moved = [False]
    before = states()
    yield moved
    moved[0] = not all(torch.equal(a, b) for a, b in zip(before, states(), strict=True))
