"""The third answer: what it gains. Steady times, speed-ups with their intervals, floors, and the stages' seconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.case import Workload
from runners.report.advice import tied
from runners.report.selection import REFERENCE, Selection
from runners.report.text import SPACE, count, milliseconds, multiple, prose, seconds, significant, size
from runners.report.workloads import label, varying
from runners.study.record import FAITHFUL, Cell, Stage, Timing

PREPARATION: tuple[Stage, ...] = ("capture", "convert", "build")
MEASURED_BESIDE = {
    "device_ms": "device",
    "hot_ms": "hot",
    "cold_ms": "cold",
    "peak_bytes": "peak memory",
    "sm_mhz": "SM MHz",
    "other_processes": "others on the GPU",
}
"""The columns that only some clocks fill, by their names in `timing.more`."""

REMARKS = {
    "unstable": "unstable",
    "disturbed": "disturbed",
    "waits": "waits",
    "unseen_by_events": "unseen by events",
    "throttled": "throttled",
}
"""What a clock noted as true of a time, in one column; of `throttled`, the number of samples."""

SHARES = {"disturbed": "lost_share", "waits": "waiting_share"}
"""The share of a block that stands beside a remark."""

LATER = ("load", "first_call")
"""Stages of their own that runners note as facts: `load_seconds` and `first_call_seconds`."""


@dataclass(frozen=True)
class Table:
    """Rows of ready Markdown under a heading each."""

    columns: list[str]
    rows: list[list[str]]


def speed_up(cell: Cell) -> str:
    """The ratio to eager's variable form with its interval; 'tie' when that straddles 1."""
    timing = cell.timing
    if timing is None or timing.ratio is None:
        return ""
    if cell.backend == REFERENCE and cell.kind == "variable":
        return "reference"
    if timing.ratio_low is None or timing.ratio_high is None:
        return f"tie ({significant(timing.ratio)}×, too few rounds for an interval)"
    interval = f"{significant(timing.ratio_low)} to {significant(timing.ratio_high)}"
    return f"tie ({interval})" if tied(cell) else f"**{significant(timing.ratio)}×** ({interval})"


def _short_speed_up(cell: Cell) -> str:
    timing = cell.timing
    if timing is None or timing.ratio is None or (cell.backend == REFERENCE and cell.kind == "variable"):
        return ""
    return "tie" if tied(cell) else f"**{multiple(timing.ratio)}**"


def overview(selection: Selection) -> Table | None:
    """Median and speed-up of every timed backend and variant (rows) at every timed workload (columns)."""
    workloads = selection.timed_workloads
    if not workloads:
        return None
    columns = ["backend and variant", *(label(workload, varying(workloads)) for workload in workloads)]
    rows = []
    for backend, variant, _ in _timed(selection):
        by_workload = {cell.workload: cell for cell in selection.of(variant, backend)}
        entries = [_glance(by_workload.get(workload)) for workload in workloads]
        rows.append([f"{selection.backend_name(backend)}<br>{selection.name(variant)}", *entries])
    return Table(columns, rows)


def _glance(cell: Cell | None) -> str:
    if cell is None or cell.timing is None:
        return "not timed" if cell and cell.verdict in FAITHFUL else ""
    ratio = _short_speed_up(cell)
    return milliseconds(cell.timing.median_ms) + (f"<br>{ratio}" if ratio else "")


@dataclass(frozen=True)
class Detail:
    """Everything measured at one workload, and how."""

    workload: str
    methods: list[str]
    table: Table


def details(selection: Selection) -> list[Detail]:
    """One table per timed workload; columns that no clock filled are left out."""
    return [_detail(selection, workload) for workload in selection.timed_workloads]


def _detail(selection: Selection, workload: Workload) -> Detail:
    cells = [cell for _, _, cells in _timed(selection) for cell in cells if cell.workload == workload]
    timings = [cell.timing for cell in cells if cell.timing]
    methods = list(dict.fromkeys(_rule(timing) for timing in timings))
    further = [name for name in MEASURED_BESIDE if any(_beside(name, timing.more.get(name)) for timing in timings)]
    floors = any(timing.floor_ms for timing in timings)
    columns = ["backend", "variant", "median", "IQR", "× eager's variable form"]
    columns += ["× floor"] if floors else []
    columns += [MEASURED_BESIDE[name] for name in further]
    columns += ["rounds × calls"] if any(_rounds(timing) for timing in timings) else []
    remarks = any(_remarks(timing) for timing in timings)
    columns += ["remarks"] if remarks else []
    columns += ["method"] if len(methods) > 1 else []
    rows = []
    for cell in cells:
        if not cell.timing:
            continue
        timing = cell.timing
        row = [
            selection.backend_name(cell.backend),
            selection.name(cell.variant),
            milliseconds(timing.median_ms),
            milliseconds(timing.iqr_ms),
            speed_up(cell),
        ]
        row += [_floor(timing)] if floors else []
        row += [_beside(name, timing.more.get(name)) for name in further]
        row += [_rounds(timing)] if "rounds × calls" in columns else []
        row += [_remarks(timing)] if remarks else []
        row += [chr(ord("a") + methods.index(_rule(timing)) % 26)] if len(methods) > 1 else []
        rows.append(row)
    return Detail(label(workload, varying(selection.timed_workloads)), methods, Table(columns, rows))


def _floor(timing: Timing) -> str:
    return multiple(timing.median_ms / timing.floor_ms) if timing.floor_ms else ""


def _rule(timing: Timing) -> str:
    """The method string without the number of calls in a block, which has a column of its own."""
    return re.sub(r"\b\d+ (calls a block)", r"\1 as listed", timing.method)


def _rounds(timing: Timing) -> str:
    """How many blocks, and how many calls in each: '40 × 12'."""
    numbers = [timing.more.get(name) for name in ("rounds", "calls_per_block")]
    return " × ".join(count(number) for number in numbers if isinstance(number, int))


def _remarks(timing: Timing) -> str:
    noted = []
    for name, words in REMARKS.items():
        value = timing.more.get(name)
        if value:
            share = timing.more.get(SHARES.get(name, ""))
            beside = f" ({share * 100:.0f}{SPACE}%)" if isinstance(share, int | float) else ""
            noted.append(f"{len(value)}{SPACE}{words}" if isinstance(value, list) else words + beside)
    return ", ".join(noted)


def _beside(name: str, value: Any) -> str:
    """What a clock noted beside a time; '' when it noted nothing or there was nothing to note."""
    if isinstance(value, int) and not name.endswith("_bytes"):
        return count(value) if value else ""
    if not isinstance(value, int | float):
        return "" if value is None else prose(str(value), 24)
    if name.endswith("_ms"):
        return milliseconds(value)
    return size(value) if name.endswith("_bytes") else significant(value)


def stage_seconds(selection: Selection) -> Table | None:
    """What each backend and variant spent before it was steady: the range over the workloads."""
    rows = []
    for backend in selection.available:
        for variant in selection.variants:
            cells = [cell for cell in selection.of(variant, backend) if cell.stages]
            if cells:
                spans = [_span([_stage_time(cell, stage) for cell in cells]) for stage in PREPARATION]
                spans += [_span([_later(cell, name) for cell in cells]) for name in LATER]
                spans.append(_span([cell.timing.median_ms / 1e3 if cell.timing else None for cell in cells]))
                rows += [[selection.backend_name(backend), selection.name(variant), *spans]] if any(spans) else []
    headings = ["backend", "variant", *PREPARATION, *(name.replace("_", " ") for name in LATER), "steady call"]
    kept = [index for index in range(len(headings)) if index < 2 or any(row[index] for row in rows)]
    if len(kept) == 2:
        return None
    return Table([headings[index] for index in kept], [[row[index] for index in kept] for row in rows])


def _stage_time(cell: Cell, stage: Stage) -> float | None:
    outcome = cell.stages.get(stage)
    return outcome.seconds if outcome and outcome.status != "not_reached" else None


def _later(cell: Cell, name: str) -> float | None:
    value = cell.facts.get(f"{name}_seconds", cell.timing.more.get(f"{name}_seconds") if cell.timing else None)
    return float(value) if isinstance(value, int | float) else None


def _span(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = seconds(min(known)), seconds(max(known))
    return low if low == high else f"{low} to {high}"


def _timed(selection: Selection) -> list[tuple[str, str, list[Cell]]]:
    return [
        (backend, variant, cells)
        for backend in selection.available
        for variant in selection.variants
        if (cells := [cell for cell in selection.of(variant, backend) if cell.timing])
    ]
