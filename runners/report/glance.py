"""Two summaries: how many backends take a variant and its best gain, and a case in its environments side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runners.report.advice import gain_of, gains
from runners.report.selection import REFERENCE, Selection, backend_order, by_case
from runners.report.text import code, counted, multiple, prose
from runners.report.times import Table
from runners.report.verdicts import Rate, findings, rate
from runners.report.workloads import label, varying
from runners.study.record import Cell


@dataclass(frozen=True)
class Glance:
    """One variant in one environment."""

    case: str
    variant: str
    environment: str
    rate: Rate
    gain: str


def headline(sections: Sequence[Selection]) -> str:
    """How many backends an environment tried, and how many it could not."""
    tried = {backend for section in sections for backend in section.available}
    absent = {backend for section in sections for backend in section.backends} - tried
    if not tried and not absent:
        return "nothing tried"
    words = f"{counted(len(tried), 'backend')} tried"
    words += " (eager, the reference, among them)" if REFERENCE in tried else ""
    return words + (f", {len(absent)} unavailable" if absent else "")


def glances(sections: Sequence[Selection]) -> list[Glance]:
    """Every variant, its environments below one another."""
    return [
        Glance(case, section.name(variant), section.environment.id, rate(section, variant), _gain(section, variant))
        for case, mine in by_case(sections).items()
        for variant in dict.fromkeys(variant for section in mine for variant in section.variants)
        for section in mine
        if variant in section.variants
    ]


def _gain(section: Selection, variant: str) -> str:
    """The largest speed-up over eager's variable form that any compiler gave the variant, and where."""
    timed = {
        gain: cell
        for backend in reversed(section.compilers)
        for cell in section.of(variant, backend)
        if (gain := gain_of(cell)) is not None
    }
    if not timed:
        return ""
    gain = max(timed)
    cell = timed[gain]
    words = multiple(gain) if gain > 1 else "none: a tie at best" if gain == 1 else f"none: {multiple(gain)} at best"
    return f"{words} ({section.backend_name(cell.backend)}, {label(cell.workload, varying(section.timed_workloads))})"


def side_by_side(sections: Sequence[Selection]) -> Table | None:
    """One case's variants on every backend with a column an environment; None where there is only one."""
    if len(sections) < 2:
        return None
    columns = ["variant", "backend", *(prose(section.environment.id) for section in sections)]
    return Table(columns, _rows(sections))


def _rows(sections: Sequence[Selection]) -> list[list[str]]:
    names = {variant: section.name(variant) for section in sections for variant in section.variants}
    backends = backend_order({backend for section in sections for backend in section.backends})
    return [
        [
            name,
            code(backend),
            *(_entry(section.of(variant, backend), backend in section.on_cpu) for section in sections),
        ]
        for variant, name in names.items()
        for backend in backends
        if any(section.of(variant, backend) for section in sections)
    ]


def _entry(cells: Sequence[Cell], on_cpu: bool) -> str:
    lines = [str(found) for found in findings(cells)]
    ratios = [gain for cell in cells if (gain := gain_of(cell)) is not None]
    reference = bool(cells) and cells[0].backend == REFERENCE and cells[0].kind == "variable"
    if ratios and not reference:
        lines.append(gains(ratios) + (" (on the CPU)" if on_cpu else ""))
    return "<br>".join(lines) or "not tried"
