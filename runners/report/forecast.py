"""A forecast for cards that are not at hand: its own section, labelled as one, beside what was measured.

The model is the simplest that can be wrong in public: a call takes as long as its bytes need at the card's
stated bandwidth, plus a launch for every kernel, plus a round trip for every time the host waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from models.case import Workload
from runners.report.selection import REFERENCE, Selection
from runners.report.text import SPACE, code, count, counted, milliseconds, prose, size
from runners.report.times import Table
from runners.report.workloads import label
from runners.study.record import Cell


@dataclass(frozen=True)
class Card:
    """A card, its stated memory bandwidth, and where that is stated."""

    name: str
    gigabytes_per_second: float
    source: str
    pattern: str
    """Finds the card's own measurements by the device name that the driver gives."""


CARDS = (
    Card("L40S", 864, "NVIDIA L40S datasheet", r"L40S"),
    Card("A10G", 600, "Baseten, NVIDIA A10 vs A10G for ML model inference, 2023", r"A10G"),
    Card("A100 80 GB SXM", 2_039, "NVIDIA A100 datasheet", r"A100.SXM.*80"),
    Card("H100 SXM", 3_350, "NVIDIA H100 datasheet", r"H100(?!.*(PCIe|NVL))"),
    Card("H200", 4_800, "NVIDIA H200 datasheet", r"H200"),
)

LAUNCH_MS = 0.0027
WAIT_MS = 0.00965 - LAUNCH_MS
COSTS_SOURCE = "reference values of the Swiss National Supercomputing Centre in ReFrame's gpu/kernel_latency"
"""An empty kernel on an A100, launched from C++, one after another (2.7 µs) and waited for each time (9.65 µs); taken
alike for every card. PyTorch adds its own to each, so a call of many small kernels takes longer than forecast."""


@dataclass(frozen=True)
class Work:
    """What a call does on any card."""

    launches: int
    waits: int
    floor_bytes: float

    def words(self) -> str:
        launches, waits = counted(self.launches, "launch", "launches"), counted(self.waits, "wait")
        return f"{launches}, {waits}, {size(self.floor_bytes)}".replace(" ", SPACE).replace(f",{SPACE}", ", ")


@dataclass(frozen=True)
class Forecast:
    """The section: the forecast, and how it was made."""

    words: str
    cards: tuple[Card, ...]
    tables: list[tuple[str, Table]]
    """One a case."""


@dataclass
class _Row:
    """What one row is about: the backends that do the same work on one variant at one workload."""

    head: tuple[str, str]
    work: Work
    cells: list[Cell] = field(default_factory=list)


def forecast_ms(card: Card, work: Work) -> float:
    """Milliseconds of one call on a card, by the model above."""
    moving = work.floor_bytes / (card.gigabytes_per_second * 1e6)
    return moving + work.launches * LAUNCH_MS + work.waits * WAIT_MS


def forecast(selections: Sequence[Selection]) -> Forecast | None:
    """The forecast for every cell whose launches, waits and bytes are known; None when no record knows them.

    A cell that several environments know is forecast once, from a card's record before a CPU's, since graphs are
    fused for the device. Where a record is of such a card and has a time for the cell, measurement and error stand
    beside the forecast.
    """
    rows: dict[tuple[str, str, Workload, Work], _Row] = {}
    seen, compiled_on = set(), set()
    for selection in sorted(selections, key=lambda selection: selection.environment.device == "cpu"):
        for cell, work in _known(selection):
            identity = (cell.case, cell.variant, cell.backend, cell.workload)
            if identity in seen:
                continue
            seen.add(identity)
            if cell.backend != REFERENCE:
                compiled_on.add("the CPU" if selection.environment.device == "cpu" else selection.environment.device)
            head = (selection.name(cell.variant), label(cell.workload, selection.dimensions))
            row = rows.setdefault((cell.case, cell.variant, cell.workload, work), _Row(head, work))
            row.cells.append(cell)
    if not rows:
        return None
    columns = ["variant", "workload", "backends", "one call", *(card.name for card in CARDS)]
    entries: dict[str, list[list[str]]] = {}
    for (case, *_), row in rows.items():
        entries.setdefault(case, []).append(
            [
                *row.head,
                ", ".join(code(cell.backend) for cell in row.cells),
                row.work.words(),
                *(_entry(card, row, selections) for card in CARDS),
            ]
        )
    return Forecast(_words(compiled_on), CARDS, [(case, Table(columns, table)) for case, table in entries.items()])


def _words(compiled_on: set[str]) -> str:
    words = (
        f"**Not measured.** Bytes that must move over the card's stated bandwidth, plus {milliseconds(LAUNCH_MS)} a "
        f"launch and {milliseconds(WAIT_MS)} a wait of the host, as on an A100 from C++ ({COSTS_SOURCE}); what PyTorch "
        f"adds to each is not in it. An operator counts as one launch; waits are those of the audit."
    )
    if compiled_on:
        words += f" Compiled forms launch what Inductor made for {prose(', '.join(sorted(compiled_on)))}"
        words += ", which it fuses otherwise than for CUDA." if "the CPU" in compiled_on else "."
    return f"{words} Where a record of such a card has the time, it stands below the forecast with the error."


def _known(selection: Selection) -> Iterator[tuple[Cell, Work]]:
    """The cells that the model can say something about. A compiled cell waits where eager of its variant does;
    one whose graph was cut does more than its kernels, so only a whole one counts."""
    for variant in selection.variants:
        waits = {
            cell.workload: cell.facts["host_waits_forecast"]
            for cell in selection.of(variant, REFERENCE)
            if isinstance(cell.facts.get("host_waits_forecast"), list)
        }
        for backend in selection.available:
            for cell in selection.of(variant, backend):
                is_eager = backend == REFERENCE
                launches = cell.facts.get("kernel_launches" if is_eager else "kernels")
                moved = cell.facts.get("floor_bytes")
                if not isinstance(launches, int) or not isinstance(moved, int | float) or cell.workload not in waits:
                    continue
                if is_eager or cell.verdict == "accepted":
                    yield cell, Work(launches, len(waits[cell.workload]), moved)


def _entry(card: Card, row: _Row, selections: Sequence[Selection]) -> str:
    expected = forecast_ms(card, row.work)
    entry = milliseconds(expected)
    for cell in row.cells:
        for measured, where in _measurements(card, cell, selections):
            error = (expected / measured - 1) * 100
            entry += (
                f"<br>measured {milliseconds(measured)} ({code(cell.backend)}, {prose(where)}): "
                f"{'−' if error < 0 else '+'}{count(abs(error))}{SPACE}%"
            )
    return entry


def _measurements(card: Card, cell: Cell, selections: Sequence[Selection]) -> list[tuple[float, str]]:
    return [
        (other.timing.median_ms, selection.environment.id)
        for selection in selections
        if selection.case == cell.case and re.search(card.pattern, selection.environment.device)
        for other in selection.of(cell.variant, cell.backend)
        if other.workload == cell.workload and other.timing and other.timing.median_ms > 0
    ]
