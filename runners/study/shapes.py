"""Shapes unlike the example's: which dimensions may vary, and inputs that vary them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from models.case import CaseModule, Input, Variant, Workload
from runners.study import compare

SIZES = (0, 1, 2, 7)
"""Tried for the dimensions that a fixed case declares dynamic, besides one larger than the example's."""

SMALL = 2_000
"""Items (N times B) up to which a sized case is tried at another N: a compiler may compile anew for it."""

Kind = Literal["same", "dynamic", "other"]

Dimensions = list[frozenset[int]]
"""Per input, the dimensions that may vary."""


def dynamic(case: CaseModule, variant: Variant) -> Dimensions | None:
    """The dimensions that the case declares dynamic; None where it declares none."""
    declared = case.dynamic_dims(variant)
    if declared is None:
        return None
    per_input = declared.values() if isinstance(declared, dict) else declared
    return [frozenset(_named(dimensions)) for dimensions in per_input]


def compared(example: Any, given: Any, varying: Dimensions | None) -> Kind:
    """Whether `given` has the example's shapes, differs in dimensions that may vary only, or otherwise. A Python
    number counts as a shape: exports make a constant of either."""
    if _words(example) != _words(given):
        return "other"
    first, second = _shapes(example), _shapes(given)
    if first == second:
        return "same"
    if varying is None or len(first) != len(second) or len(first) != len(varying):
        return "other"
    for a, b, free in zip(first, second, varying, strict=True):
        if len(a) != len(b) or any(a[at] != b[at] and at not in free for at in range(len(a))):
            return "other"
    return "dynamic"


def _words(arguments: Any) -> list[Any]:
    """The inputs that are no tensors."""
    return [leaf for leaf in compare.leaves(arguments) if not hasattr(leaf, "shape")]


def resized(case: CaseModule, variant: Variant, workload: Workload, example: tuple[Any, ...]) -> Iterator[Input]:
    """Inputs of other sizes: an odd and larger N for a small sized case whose answers are exact, 0, 1, 2, odd and
    larger for declared dimensions."""
    if case.case.sizes and workload.n and workload.noise != "inside" and workload.n * (workload.batch or 1) <= SMALL:
        other = msgspec.structs.replace(workload, n=2 * workload.n + 1)
        yield Input(f"N = {other.n}", case.inputs(variant, other, 3))
    varying = dynamic(case, variant)
    if varying is None or len(varying) != len(example):
        return
    largest = max(
        (shape[at] for shape, free in zip(_shapes(example), varying, strict=False) for at in free if at < len(shape)),
        default=0,
    )
    for size in (*SIZES, 2 * largest + 1):
        arguments = [_resize(given, free, size) for given, free in zip(example, varying, strict=True)]
        yield Input(f"dynamic dimensions = {size}", tuple(arguments))


def _resize(given: Any, free: frozenset[int], size: int) -> Any:
    """A tensor whose `free` dimensions repeat or cut what is there to `size`."""
    import torch

    if not isinstance(given, torch.Tensor):
        return given
    for dimension in free:
        if dimension < given.dim() and given.shape[dimension]:
            index = torch.arange(size, device=given.device) % given.shape[dimension]
            given = given.index_select(dimension, index)
    return given


def _named(dimensions: Any) -> Iterator[int]:
    if isinstance(dimensions, dict):
        yield from (at for at, name in dimensions.items() if isinstance(at, int) and name is not None)
    elif isinstance(dimensions, (tuple, list)):
        yield from (at for at, name in enumerate(dimensions) if name is not None)


def _shapes(arguments: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(leaf, "shape", ())) for leaf in compare.leaves(arguments)]
