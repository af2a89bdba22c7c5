"""The article's tables redone on a card: the sampler's forms side by side, and the article's claims beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.case import Workload
from runners.report.advice import gain_of, gains
from runners.report.selection import REFERENCE, Selection
from runners.report.text import SPACE, code, count, milliseconds, multiple
from runners.report.times import Table
from runners.report.verdicts import SYMBOLS
from runners.report.workloads import label, varying
from runners.study.record import Cell

CASE = "balanced_sampler"
VARIABLE, STATIC, PARTITION = "nonzero", "topk", "partition"
COMPILED = "compile"
BATCH = 32

LEAST_LESS, MOST_LESS = 0.70, 0.75
SMALL = (1_000, 10_000)
LEAST_BATCHED, MOST_BATCHED = 2.0, 52.0
NEAR_TEN_MILLION = 5_000_000


@dataclass(frozen=True)
class Claim:
    """What the article says, what was measured here, and whether that bears it out."""

    claim: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Article:
    """The section: a table per batch, and the claims."""

    tables: list[tuple[str, Table]]
    claims: list[Claim]


def article(selection: Selection) -> Article | None:
    """The section of one case on one card; None elsewhere, and where nothing that the article timed was timed."""
    if selection.case != CASE or selection.environment.device == "cpu":
        return None
    tables = [
        (heading, table)
        for heading, batch in (("Unbatched", None), (f"Batch {BATCH}", BATCH))
        if (table := _table(selection, batch)) is not None
    ]
    if not tables:
        return None
    return Article(
        tables,
        [
            compiled_claim(_points(selection, STATIC, COMPILED, None)),
            batched_claim(_points(selection, STATIC, REFERENCE, BATCH), _points(selection, STATIC, COMPILED, BATCH)),
            unbatched_claim(_points(selection, STATIC, REFERENCE, None)),
        ],
    )


Points = Sequence[tuple[int, float]]
"""N and the speed-up over eager's variable form there; 1 for a tie."""


def compiled_claim(compiled: Points) -> Claim:
    """Holds where at least 70 % less time is taken at every size from 1 000 to 10 000."""
    claim = (
        f"compiled takes {LEAST_LESS * 100:.0f} to {MOST_LESS * 100:.0f}{SPACE}% less time "
        f"at N {count(SMALL[0])} to {count(SMALL[1])}"
    )
    here = [(n, gain) for n, gain in compiled if SMALL[0] <= n <= SMALL[1]]
    measured = ", ".join(f"{less(gain)} at N{SPACE}={SPACE}{count(n)}" for n, gain in here)
    # a speed-up g is 1 - 1/g less time; half a per cent is lost in rounding
    return _claim(claim, measured, [1 - 1 / gain >= LEAST_LESS - 0.005 for _, gain in here])


def batched_claim(eager: Points, compiled: Points) -> Claim:
    """Holds where eager's static form is at least twice as fast at every size."""
    claim = f"static is {LEAST_BATCHED:g}× to {MOST_BATCHED:g}× faster batched at B = {BATCH}"
    measured = "; ".join(
        f"{name}: {gains([gain for _, gain in points])} at {_sizes(points)}"
        for name, points in (("eager", eager), ("compiled", compiled))
        if points
    )
    return _claim(claim, measured, [gain >= LEAST_BATCHED for _, gain in eager])


def unbatched_claim(eager: Points) -> Claim:
    """Holds where eager's static form wins at 5 M or above, and nowhere below."""
    claim = f"static wins unbatched only near N = {count(10_000_000)}"
    if not eager:
        return _claim(claim, "", [])
    wins = [n for n, gain in eager if gain > 1]
    measured = f"eager wins at {_list(wins)}" if wins else "eager wins nowhere"
    measured += f", measured at {_list([n for n, _ in eager])}"
    below = any(n < NEAR_TEN_MILLION for n in wins)
    if not below and max(n for n, _ in eager) < NEAR_TEN_MILLION:
        return Claim(claim, measured, "as far as measured: holds")
    return _claim(claim, measured, [not below and bool(wins)])


def less(gain: float) -> str:
    """A speed-up as time saved: 4 -> '75 % less', 0.5 -> '100 % more', 1 -> 'tie'."""
    if gain == 1:
        return "tie"
    return f"{abs(1 - 1 / gain) * 100:.0f}{SPACE}% {'less' if gain > 1 else 'more'}"


def _claim(claim: str, measured: str, holds: Sequence[bool]) -> Claim:
    if not holds:
        return Claim(claim, measured or "nothing", "not measured")
    verdict = "holds" if all(holds) else "holds in part" if any(holds) else "does not hold"
    return Claim(claim, measured, verdict)


def _sizes(points: Points) -> str:
    low, high = min(n for n, _ in points), max(n for n, _ in points)
    return f"N = {count(low)}" if low == high else f"N = {count(low)} to {count(high)}"


def _list(sizes: Sequence[int]) -> str:
    return "N = " + ", ".join(count(n) for n in sorted(set(sizes)))


def _workloads(selection: Selection, batch: int | None) -> list[Workload]:
    """Noise drawn inside, as in the article."""
    return sorted(
        {
            cell.workload
            for cell in selection.cells
            if cell.workload.n and cell.workload.batch == batch and cell.workload.noise != "input"
        },
        key=lambda workload: (workload.n or 0, repr(workload)),
    )


def _points(selection: Selection, variant: str, backend: str, batch: int | None) -> list[tuple[int, float]]:
    cells = {cell.workload: cell for cell in selection.of(variant, backend)}
    return [
        (workload.n or 0, gain)
        for workload in _workloads(selection, batch)
        if workload in cells and (gain := gain_of(cells[workload])) is not None
    ]


def _table(selection: Selection, batch: int | None) -> Table | None:
    workloads = _workloads(selection, batch)
    dimensions = [name for name in varying(workloads) if name not in ("batch", "noise")]
    rows = []
    for workload in workloads:
        chosen = [
            _cell(selection, VARIABLE, REFERENCE, workload),
            _cell(selection, STATIC, REFERENCE, workload),
            _cell(selection, STATIC, COMPILED, workload),
            _best_partition(selection, workload),
        ]
        if any(cell and cell.timing for cell in chosen):
            saved = gain_of(chosen[2]) if chosen[2] else None
            entries = [_entry(cell, index == 3) for index, cell in enumerate(chosen)]
            entries.insert(3, "" if saved is None else less(saved))
            rows.append([label(workload, dimensions), *entries])
    columns = [
        "workload",
        f"eager, variable ({code(VARIABLE)})",
        f"eager, static ({selection.name(STATIC)})",
        f"compiled, static ({selection.name(STATIC)})",
        "compiled, time",
        f"best {selection.name(PARTITION)}",
    ]
    return Table(columns, rows) if rows else None


def _cell(selection: Selection, variant: str, backend: str, workload: Workload) -> Cell | None:
    return next((cell for cell in selection.of(variant, backend) if cell.workload == workload), None)


def _best_partition(selection: Selection, workload: Workload) -> Cell | None:
    """The fastest on the card; what runs on the CPU is no part of the article's tables."""
    cells = [
        cell
        for backend in selection.available
        if backend not in selection.on_cpu and (cell := _cell(selection, PARTITION, backend, workload)) and cell.timing
    ]
    return min(cells, key=lambda cell: cell.timing.median_ms if cell.timing else 0, default=None)


def _entry(cell: Cell | None, name_backend: bool) -> str:
    if cell is None:
        return ""
    if cell.timing is None:
        return f"{SYMBOLS[cell.verdict]} {cell.verdict}" + (f" {code(cell.reason.code)}" if cell.reason else "")
    words = milliseconds(cell.timing.median_ms)
    words += f" ({code(cell.backend)})" if name_backend else ""
    gain = gain_of(cell)
    if gain is None or (cell.backend == REFERENCE and cell.kind == "variable"):
        return words
    return f"{words}<br>{'tie' if gain == 1 else f'**{multiple(gain)}**'}"
