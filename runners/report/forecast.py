"""A forecast for cards that are not at hand: its own section, labelled as one, beside what was measured.

The model is the simplest that can be wrong in public: a call takes as long as its bytes need at the card's
stated bandwidth, plus a launch for every kernel, plus a round trip for every time the host waits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runners.report.selection import Selection
from runners.report.text import code, milliseconds, prose
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
    Card("L40S", 864, "https://www.nvidia.com/en-us/data-center/l40s/", r"L40S"),
    Card("A10G", 600, "https://www.baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference/", r"A10G"),
    Card("H100 SXM", 3_350, "https://www.nvidia.com/en-us/data-center/h100/", r"H100(?!.*(PCIe|NVL))"),
    Card("H200", 4_800, "https://www.nvidia.com/en-us/data-center/h200/", r"H200"),
)

LAUNCH_MS = 0.005
"""What one kernel launch is assumed to cost the host, whatever the card."""

WAIT_MS = 0.02
"""What one wait of the host is assumed to cost: a copy of a few bytes and a synchronisation."""


@dataclass(frozen=True)
class Forecast:
    """The section: the forecast, and how it was made."""

    words: str
    cards: tuple[Card, ...]
    table: Table


def forecast_ms(card: Card, floor_bytes: float, launches: float, waits: float) -> float:
    """Milliseconds of one call on a card, by the model above."""
    return floor_bytes / (card.gigabytes_per_second * 1e6) + launches * LAUNCH_MS + waits * WAIT_MS


def forecast(selections: Sequence[Selection]) -> Forecast | None:
    """The forecast for every cell whose launches and bytes are known; None when no record knows them.

    A cell that several environments know is forecast once. Where one of them is such a card and has a time for
    it, measurement and error stand beside the forecast.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for selection in selections:
        for variant in selection.variants:
            for backend in selection.available:
                for cell in selection.of(variant, backend):
                    if _known(cell):
                        workload = label(cell.workload, selection.dimensions)
                        head = (code(selection.case), code(backend), selection.name(variant), workload)
                        rows.setdefault(head, [*head, *(_entry(card, cell, selections) for card in CARDS)])
    if not rows:
        return None
    words = (
        f"**Not measured.** Bytes that must move over the card's stated bandwidth, plus {milliseconds(LAUNCH_MS)} a "
        f"kernel launch and {milliseconds(WAIT_MS)} a host wait. The last two are assumed, alike for every card. "
        f"Where a record of such a card has the time, it stands below the forecast with the error."
    )
    return Forecast(
        words,
        CARDS,
        Table(["case", "backend", "variant", "workload", *(card.name for card in CARDS)], list(rows.values())),
    )


def _known(cell: Cell) -> bool:
    return all(isinstance(cell.facts.get(name), int | float) for name in ("kernel_launches", "floor_bytes"))


def _entry(card: Card, cell: Cell, selections: Sequence[Selection]) -> str:
    waits = cell.facts.get("host_waits_forecast", 0)
    waits = len(waits) if isinstance(waits, list) else waits
    expected = forecast_ms(
        card,
        cell.facts["floor_bytes"],
        cell.facts["kernel_launches"],
        waits if isinstance(waits, int | float) else 0,
    )
    entry = milliseconds(expected)
    for measured, device in _measurements(card, cell, selections):
        entry += f"<br>measured {milliseconds(measured)} ({prose(device)}): {(expected / measured - 1) * 100:+.0f} %"
    return entry


def _measurements(card: Card, cell: Cell, selections: Sequence[Selection]) -> list[tuple[float, str]]:
    return [
        (other.timing.median_ms, selection.environment.id)
        for selection in selections
        if selection.case == cell.case and re.search(card.pattern, selection.environment.device)
        for other in selection.of(cell.variant, cell.backend)
        if other.workload == cell.workload and other.timing and other.timing.median_ms > 0
    ]
