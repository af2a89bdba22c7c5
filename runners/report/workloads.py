"""Words for workloads: one by one, and what tells some of them from the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from models.case import Workload
from runners.report.text import SPACE, count, prose

DIMENSIONS = ("n", "batch", "noise", "dtype", "label_dtype", "positives", "dim", "k", "seed")
NO_SIZE = "its own inputs"


def order(workload: Workload) -> tuple[Any, ...]:
    """Sort key: noise inside before noise as input, then batch, then N."""
    return (workload.noise == "input", workload.batch or 0, workload.n or 0, repr(workload))


def varying(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """The dimensions worth naming: N, and those that differ. K and the seed do not count where N fixes them."""
    workloads = set(workloads)
    found = []
    for dimension in DIMENSIONS:
        values = {getattr(workload, dimension) for workload in workloads}
        by_n = {(workload.n, getattr(workload, dimension)) for workload in workloads}
        follows_n = dimension in ("k", "seed") and len(by_n) == len({workload.n for workload in workloads})
        if (dimension == "n" or len(values) > 1) and values != {None} and not follows_n:
            found.append(dimension)
    return tuple(found)


def label(workload: Workload, dimensions: Sequence[str], absent: bool = False) -> str:
    """One workload by the named dimensions: 'N = 10 000, batch 32'. What is absent is said only if asked."""
    words = [
        value_words(dimension, getattr(workload, dimension))
        for dimension in dimensions
        if absent or getattr(workload, dimension) is not None
    ]
    return ", ".join(words) or NO_SIZE


def value_words(dimension: str, value: Any) -> str:
    """'N = 10 000', 'batch 32', 'unbatched', 'noise as input', 'int32 labels', …"""
    if dimension in ("n", "k"):
        return _equals(dimension, "none" if value is None else count(value))
    if dimension == "batch":
        return "unbatched" if value is None else f"batch{SPACE}{count(value)}"
    if dimension == "noise":
        return {"inside": "noise inside", "input": "noise as input"}.get(value, "no noise")
    if dimension == "dtype":
        return prose(str(value))
    if dimension == "label_dtype":
        return f"{prose(str(value))} labels"
    names = {"positives": "share of positives", "dim": "D", "seed": "seed"}
    return f"{names[dimension]} {value}"


def place(these: Iterable[Workload], others: Iterable[Workload]) -> str:
    """What tells `these` from `others`: 'from N = 100 000', 'batch 32', or a list; '' when there are no others."""
    chosen, rest = set(these), set(others)
    if not rest:
        return ""
    for dimension in DIMENSIONS:
        values = {getattr(workload, dimension) for workload in chosen}
        if values.isdisjoint(getattr(workload, dimension) for workload in rest):
            return _apart(dimension, values, {getattr(workload, dimension) for workload in rest})
    dimensions = varying(chosen | rest)
    named = [label(workload, dimensions) for workload in sorted(chosen, key=order)]
    shown = named if len(named) <= 3 else [*named[:2], f"{len(named) - 2} more"]
    return "at " + "; ".join(shown)


def at(words: str, where: str) -> str:
    """`words` and the place they hold for: 'rejected from N = 1 000', but 'rejected, noise inside'."""
    if not where:
        return words
    return f"{words} {where}" if where.startswith(("from ", "to ", "at ")) else f"{words}, {where}"


def _apart(dimension: str, values: set[Any], rest: set[Any]) -> str:
    if dimension in ("n", "k") and None not in values | rest:
        if min(values) > max(rest):
            return f"from {_equals(dimension, count(min(values)))}"
        if max(values) < min(rest):
            return f"to {_equals(dimension, count(max(values)))}"
        return f"at {_equals(dimension, ', '.join(count(value) for value in sorted(values)))}"
    ordered = sorted(values, key=lambda value: (value is not None, str(type(value)), value or 0))
    return ", ".join(value_words(dimension, value) for value in ordered)


def _equals(dimension: str, value: str) -> str:
    return f"{dimension.upper()}{SPACE}={SPACE}{value}"
