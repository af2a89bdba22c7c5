"""Two charts: time against N, and speed-up at each N. Small multiples, so that twenty backends stay readable.

The colours are Okabe and Ito's, which colour-blind readers can tell apart; variable forms are dashed, static
ones solid, and each has its own marker. The background is a neutral of its own: a dark page changes nothing.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from models.case import Workload
from runners.report.advice import tied
from runners.report.selection import MARK, REFERENCE, Selection
from runners.report.text import SPACE, count, milliseconds, multiple
from runners.study.record import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BACKGROUND, INK, GRID, REFERENCE_GREY = "#f6f6f2", "#222222", "#dcdcd5", "#9a9a94"
VARIABLE_COLOURS = ("#d55e00", "#cc79a7")
STATIC_COLOURS = ("#0072b2", "#009e73", "#e69f00", "#56b4e9", "#000000")
MARKERS = "osD^vPX*"
TIME_COLUMNS, BAR_COLUMNS = 3, 5
TIED = 0.35
"""How opaque a bar is whose interval straddles 1."""


@dataclass(frozen=True)
class Style:
    """How one variant looks in every chart of its case."""

    name: str
    colour: str
    dashes: str
    marker: str


def styles(selection: Selection) -> dict[str, Style]:
    """Variable forms dashed in warm colours, static ones solid in others."""
    variable = selection.of_kind("variable")
    others = [variant for variant in selection.variants if variant not in variable]
    found: dict[str, Style] = {}
    for members, colours, dashes in ((variable, VARIABLE_COLOURS, "--"), (others, STATIC_COLOURS, "-")):
        for index, variant in enumerate(members):
            name = variant + (f" {MARK}" if variant in selection.marks else "")
            marker = MARKERS[len(found) % len(MARKERS)]
            found[variant] = Style(name, colours[index % len(colours)], dashes, marker)
    return found


def times(selection: Selection, workloads: Sequence[Workload], title: str) -> Figure | None:
    """Median time of one call against N, log-log, one panel a backend; None with fewer than two sizes.

    A band is the interquartile range of the samples; eager's variable form and the floor are in every panel.
    """
    from matplotlib.ticker import NullLocator

    if len({workload.n for workload in workloads if workload.n}) < 2:
        return None
    backends = [
        backend
        for backend in selection.available
        if any(_line(selection, variant, backend, workloads) for variant in selection.variants)
    ]
    figure, panels = _panels(len(backends), TIME_COLUMNS, (3.6, 2.6), title)
    looks = styles(selection)
    references = [_line(selection, variant, REFERENCE, workloads) for variant in selection.of_kind("variable")]
    for backend, axes in zip(backends, panels, strict=True):
        axes.set_title(_named(selection, backend), loc="left", fontsize=10, fontweight="bold")
        if backend != REFERENCE:
            for cells in references:
                axes.plot(_sizes(cells), _medians(cells), color=REFERENCE_GREY, linewidth=3, alpha=0.6, zorder=1)
        floors = _floors(selection, workloads)
        axes.plot([n for n, _ in floors], [floor for _, floor in floors], ":", color=INK, linewidth=1.2)
        for variant, look in looks.items():
            cells = _line(selection, variant, backend, workloads)
            low, high = zip(*map(_quartiles, cells), strict=True) if cells else ((), ())
            axes.fill_between(_sizes(cells), low, high, color=look.colour, alpha=0.22, linewidth=0)
            axes.plot(
                _sizes(cells),
                _medians(cells),
                look.dashes,
                color=look.colour,
                marker=look.marker,
                markersize=4.5,
                linewidth=1.6,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(_ticks(workloads))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())  # they are most of the drawing's time
        axes.xaxis.set_major_formatter(lambda value, _: count(value))
        axes.yaxis.set_major_formatter(lambda value, _: _round_time(value))
    _label(panels[-TIME_COLUMNS:], "items N")
    handles = _handles(looks.values())
    handles.append(_handle(f"{REFERENCE}'s variable form", color=REFERENCE_GREY, linewidth=3, alpha=0.6))
    if _floors(selection, workloads):
        handles.append(_handle("floor: bytes that must move", color=INK, linestyle=":"))
    _legend(figure, handles)
    return figure


def speed_ups(selection: Selection, workloads: Sequence[Workload], title: str) -> Figure | None:
    """Bars of the speed-up over eager's variable form with its interval, one panel an N; pale bars are ties."""
    from matplotlib.ticker import LogLocator, NullLocator

    bars = {workload: _bars(selection, workload) for workload in workloads}
    bars = {workload: cells for workload, cells in bars.items() if cells}
    if not bars:
        return None
    looks = styles(selection)
    rows = [
        (backend, variant)
        for backend in selection.available
        for variant in looks
        if any((cell.backend, cell.variant) == (backend, variant) for cells in bars.values() for cell in cells)
    ]
    places, limits = _places(rows), _limits(list(bars.values()))
    tall = 0.6 + 0.2 * (max(places.values()) + 1)
    figure, panels = _panels(len(bars), BAR_COLUMNS, (3.6 if len(bars) <= 3 else 2.7, tall), title)
    for (workload, cells), axes in zip(bars.items(), panels, strict=True):
        axes.set_title(
            "" if workload.n is None else f"N = {count(workload.n)}", loc="left", fontsize=10, fontweight="bold"
        )
        for cell in cells:
            _bar(axes, cell, places[cell.backend, cell.variant], looks[cell.variant])
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(limits)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if limits[1] / limits[0] < 50 else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.set_ylim(max(places.values()) + 0.8, -0.8)
        backends = dict.fromkeys(backend for backend, _ in rows)
        middles = [statistics.mean(places[row] for row in rows if row[0] == backend) for backend in backends]
        axes.set_yticks(middles, [_named(selection, backend) for backend in backends])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
    _label(panels[-BAR_COLUMNS:], "slower  ←  1  →  faster")
    _legend(figure, _handles([looks[variant] for variant in looks if any(row[1] == variant for row in rows)]))
    return figure


def _named(selection: Selection, backend: str) -> str:
    return backend + (" (CPU)" if backend in selection.on_cpu else "")


def _bar(axes: Axes, cell: Cell, place: float, look: Style) -> None:
    timing = cell.timing
    if timing is None or timing.ratio is None:
        return
    axes.barh(
        place,
        timing.ratio - 1,
        left=1,
        height=0.8,
        color=look.colour,
        alpha=TIED if tied(cell) else 1.0,
        hatch="////" if look.dashes == "--" else None,
        edgecolor=BACKGROUND,
        linewidth=0,
    )
    low, high = timing.ratio_low or timing.ratio, timing.ratio_high or timing.ratio
    axes.plot([low, high], [place, place], color=INK, linewidth=1)
    outside = high if timing.ratio >= 1 else low
    axes.annotate(
        "tie" if tied(cell) else multiple(timing.ratio),
        (outside, place),
        fontsize=7,
        va="center",
        ha="left" if timing.ratio >= 1 else "right",
        xytext=(3 if timing.ratio >= 1 else -3, 0),
        textcoords="offset points",
        color=INK,
    )


def _bars(selection: Selection, workload: Workload) -> list[Cell]:
    variable = selection.of_kind("variable")
    return [
        cell
        for cell in selection.cells
        if cell.workload == workload
        and cell.timing
        and cell.timing.ratio is not None
        and not (cell.backend == REFERENCE and cell.variant in variable)
    ]


def _places(rows: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Where each bar stands: one step a bar, a gap between backends."""
    places: dict[tuple[str, str], float] = {}
    place, previous = 0.0, rows[0][0]
    for row in rows:
        place += 0.7 * (row[0] != previous)
        places[row] = place
        place, previous = place + 1, row[0]
    return places


def _limits(bars: Sequence[Sequence[Cell]]) -> tuple[float, float]:
    ratios = [
        bound
        for cells in bars
        for cell in cells
        if cell.timing
        for bound in (cell.timing.ratio, cell.timing.ratio_low, cell.timing.ratio_high)
        if bound
    ]
    low, high = min([*ratios, 1.0]), max([*ratios, 1.0])
    room = (high / low) ** 0.22  # for the numbers at the ends of the bars
    return low / room, high * room


def _line(selection: Selection, variant: str, backend: str, workloads: Sequence[Workload]) -> list[Cell]:
    cells = [cell for cell in selection.of(variant, backend) if cell.timing and cell.workload in workloads]
    return sorted(cells, key=lambda cell: cell.workload.n or 0)


def _sizes(cells: Sequence[Cell]) -> list[int]:
    return [cell.workload.n or 0 for cell in cells]


def _ticks(workloads: Sequence[Workload]) -> list[int]:
    """The sizes to name below a panel: those measured, as far as they leave each other room."""
    sizes = sorted({workload.n for workload in workloads if workload.n})
    room = (sizes[-1] / sizes[0]) ** 0.2
    ticks = sizes[:1]
    for size in sizes[1:]:
        ticks += [size] if size >= room * ticks[-1] else []
    return ticks


def _medians(cells: Sequence[Cell]) -> list[float]:
    return [cell.timing.median_ms for cell in cells if cell.timing]


def _quartiles(cell: Cell) -> tuple[float, float]:
    samples = cell.timing.samples_ms if cell.timing else []
    if len(samples) < 2:
        return (samples[0], samples[0]) if samples else (math.nan, math.nan)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high


def _floors(selection: Selection, workloads: Sequence[Workload]) -> list[tuple[int, float]]:
    floors = {
        cell.workload.n: cell.timing.floor_ms
        for cell in selection.cells
        if cell.workload in workloads and cell.workload.n and cell.timing and cell.timing.floor_ms
    }
    return sorted(floors.items())


def _panels(number: int, most: int, size: tuple[float, float], title: str) -> tuple[Figure, list[Axes]]:
    """So many panels of this size, at most `most` side by side, on shared axes under one title."""
    from matplotlib.figure import Figure

    rows, columns = math.ceil(number / most), min(number, most)
    tall = rows * size[1] + 1.3
    wide = max(0.112 * len(title) + 0.2, columns * size[0] + 0.6)
    figure = Figure(figsize=(wide, tall), facecolor=BACKGROUND, layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.75 / tall))  # type: ignore[union-attr, call-arg]
    figure.text(0.012, 1 - 0.12 / tall, title, fontsize=12, fontweight="bold", color=INK, va="top")
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axes in panels[number:]:
        axes.remove()
    for axes in panels[:number]:
        axes.set_facecolor(BACKGROUND)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8, colors=INK, which="both", labelbottom=True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels[:number]


def _label(panels: Sequence[Axes], words: str) -> None:
    """Name the axis below these panels."""
    for axes in panels:
        axes.set_xlabel(words, fontsize=8.5, color=INK)


def _round_time(value: float) -> str:
    """A decade's label: '10 ms', not '10.0 ms'."""
    return re.sub(rf"\.0+(?={SPACE})", "", milliseconds(value))


def _handles(looks: Any) -> list[Any]:
    return [
        _handle(look.name, color=look.colour, linestyle=look.dashes, marker=look.marker, markersize=5) for look in looks
    ]


def _handle(name: str, **how: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=name, **how)


def _legend(figure: Figure, handles: list[Any]) -> None:
    tall = figure.get_figheight()
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.005, 1 - 0.34 / tall),
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        handlelength=2.6,
        labelcolor=INK,
    )
