"""From which size on the static form pays: the fourth answer, interpolated between what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from models.case import Workload
from runners.report.selection import Selection
from runners.report.text import count
from runners.report.workloads import DIMENSIONS, order, value_words, varying
from runners.study.record import Cell, Timing

Point = tuple[float, float]
"""A size and a speed-up there."""


def crossing(points: Sequence[Point]) -> float | None:
    """The size from which the speed-up stays at 1 or above, for points sorted by size.

    The smallest measured size when every point is above; None when the largest is below. Between two
    measured sizes the speed-up is taken as a straight line on log-log axes.
    """
    if not points or points[-1][1] < 1:
        return None
    start = len(points) - 1
    while start > 0 and points[start - 1][1] >= 1:
        start -= 1
    if start == 0:
        return points[0][0]
    (left, below), (right, above) = points[start - 1], points[start]
    share = -math.log(below) / (math.log(above) - math.log(below))
    return math.exp(math.log(left) + share * (math.log(right) - math.log(left)))


@dataclass(frozen=True)
class BreakEven:
    """One static variant on one backend along one axis (N, or the batch)."""

    backend: str
    variant: str
    axis: str
    held: str
    """What is held fixed, in words: 'batch 32', 'N = 1 000'."""
    sizes: tuple[float, ...]
    against_eager: float | None
    earliest: float | None
    latest: float | None
    against_itself: float | None
    """Against the variable form on the same backend, from the medians."""
    has_itself: bool

    def words(self, size: float | None) -> str:
        """'23 000' (two digits, rounded up), 'all measured (from 1 000)', or 'never'."""
        if size is None:
            return "never"
        if size <= self.sizes[0]:
            return f"all measured (from {count(size)})"
        step = 10.0 ** max(0, math.floor(math.log10(size)) - 1)
        return count(math.ceil(size / step - 1e-9) * step)

    @property
    def interval(self) -> str:
        """The interval of the crossing against eager: from the upper and the lower bound of the ratios."""
        if self.earliest is None:
            return ""
        first, last = self.words(self.earliest), self.words(self.latest)
        return first if first == last else f"{first} to {last}"

    @property
    def ahead(self) -> bool:
        """Whether there is any size to name."""
        return any(size is not None for size in (self.against_eager, self.earliest, self.against_itself))


def never_ahead(selection: Selection, entries: Sequence[BreakEven]) -> str:
    """The backends and variants that win at no measured size: '`xla`: `topk` † along N and batch; …'."""
    axes: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        if not entry.ahead:
            along = axes.setdefault(entry.backend, {}).setdefault(selection.name(entry.variant), [])
            along += [entry.axis] if entry.axis not in along else []
    return "; ".join(
        f"{selection.backend_name(backend)}: "
        + ", ".join(f"{variant} along {' and '.join(along)}" for variant, along in variants.items())
        for backend, variants in axes.items()
    )


def break_evens(selection: Selection) -> list[BreakEven]:
    """Every static variant on every backend, along N and along the batch, where two sizes were measured."""
    return [
        entry
        for backend in selection.available
        for variant in selection.of_kind("static")
        for axis in ("n", "batch")
        for entry in _along(selection, variant, backend, axis)
    ]


def _along(selection: Selection, variant: str, backend: str, axis: str) -> list[BreakEven]:
    series: dict[Workload, list[Cell]] = {}
    for cell in selection.of(variant, backend):
        if cell.timing and cell.timing.ratio is not None and cell.workload.n is not None:
            # K follows N, so it belongs to the axis; seeds do not tell series apart
            fixed = msgspec.structs.replace(cell.workload, **{axis: None}, seed=None)
            series.setdefault(msgspec.structs.replace(fixed, k=None) if axis == "n" else fixed, []).append(cell)
    own = {
        cell.workload: cell.timing.median_ms
        for variable in selection.of_kind("variable")
        for cell in selection.of(variable, backend)
        if cell.timing
    }
    entries = []
    for fixed in sorted(series, key=order):
        cells = sorted(series[fixed], key=lambda cell: _size(cell, axis))
        if len(cells) < 2:
            continue
        itself = [
            (_size(cell, axis), own[cell.workload] / cell.timing.median_ms)
            for cell in cells
            if cell.timing and cell.workload in own and cell.timing.median_ms > 0
        ]
        entries.append(
            BreakEven(
                backend=backend,
                variant=variant,
                axis={"n": "N", "batch": "batch"}[axis],
                held=_held(selection, fixed, axis),
                sizes=tuple(_size(cell, axis) for cell in cells),
                against_eager=crossing(_points(cells, axis, lambda timing: timing.ratio)),
                earliest=crossing(_points(cells, axis, lambda timing: timing.ratio_high)),
                latest=crossing(_points(cells, axis, lambda timing: timing.ratio_low)),
                against_itself=crossing(itself),
                has_itself=bool(itself),
            )
        )
    return entries


def _held(selection: Selection, fixed: Workload, axis: str) -> str:
    words = [
        value_words(dimension, getattr(fixed, dimension))
        for dimension in DIMENSIONS
        if dimension in varying(selection.timed_workloads) and dimension not in (axis, "k", "seed")
    ]
    return ", ".join(words)


def _size(cell: Cell, axis: str) -> float:
    if axis == "batch":
        return cell.workload.batch or 1
    return cell.workload.n or 1


def _points(cells: Sequence[Cell], axis: str, of: Callable[[Timing], float | None]) -> list[Point]:
    points = []
    for cell in cells:
        value = of(cell.timing) if cell.timing else None
        if value is None and cell.timing:
            value = cell.timing.ratio
        if value is not None and value > 0:
            points.append((_size(cell, axis), value))
    return points
