"""What to change, per backend: the variant to ship, and what it gains over eager's variable form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models.case import Workload
from runners.report.selection import Selection
from runners.report.text import code, multiple
from runners.report.verdicts import TAKEN, pair_verdict
from runners.report.workloads import place
from runners.study.record import Cell
from runners.study.rounds import is_tie

WORTH_A_CHANGE = 0.95
"""A rewrite must take less than this share of the variable form's time to be worth changing to."""


@dataclass(frozen=True)
class Advice:
    """One backend's row: the recommended variant (None: none is sound), its gain, and the lines of pair verdicts."""

    backend: str
    variant: str | None
    change: str
    gain: str
    pairs: list[str]


def advice(selection: Selection) -> list[Advice]:
    """One row per available compiler."""
    rows = []
    for backend in selection.compilers:
        variant = recommended(selection, backend)
        rows.append(
            Advice(
                backend=backend,
                variant=variant,
                change=_change(selection, variant, backend),
                gain=_gain(selection.of(variant, backend)) if variant else "",
                pairs=_pairs(selection, backend),
            )
        )
    return rows


def _pairs(selection: Selection, backend: str) -> list[str]:
    """The pair verdicts; where the rewrites differ, those that are alike on one line, after their names."""
    rewrites = [(form, static) for form in selection.of_kind("variable") for static in selection.of_kind("static")]
    alike: dict[tuple[str, ...], list[str]] = {}
    for form, static in rewrites:
        phrases = pair_verdict(selection.of(form, backend), selection.of(static, backend))
        named = f"{selection.name(form)} → " if len(selection.of_kind("variable")) > 1 else ""
        alike.setdefault(tuple(phrases), []).append(named + selection.name(static))
    if len(alike) == 1:
        return list(*alike)
    return [f"{', '.join(names)}: {'; '.join(phrases)}" for phrases, names in alike.items() if phrases]


def recommended(selection: Selection, backend: str) -> str | None:
    """The unmarked variant that the backend takes at most workloads.

    Among equals the fastest, where all of them were timed alike, and the variable form unless a rewrite is
    clearly faster; without times the one accepted whole most often, and again the variable form first.
    """
    candidates = {
        variant: taken
        for variant in selection.variants
        if variant not in selection.marks
        and (taken := [cell for cell in selection.of(variant, backend) if cell.verdict in TAKEN])
    }
    if not candidates:
        return None
    most = max(len(cells) for cells in candidates.values())
    equals = {variant: cells for variant, cells in candidates.items() if len(cells) == most}
    first = next(iter(equals))
    times = _typical_times(equals)
    if times:
        fastest = min(times, key=lambda variant: times[variant])
        return fastest if times[fastest] < WORTH_A_CHANGE * times[first] else first
    whole = {variant: sum(cell.verdict == "accepted" for cell in cells) for variant, cells in equals.items()}
    return max(whole, key=lambda variant: whole[variant])


def _typical_times(candidates: dict[str, list[Cell]]) -> dict[str, float]:
    """The geometric mean of each variant's medians over the workloads that all were timed at; {} if none."""
    medians: dict[str, dict[Workload, float]] = {
        variant: {cell.workload: cell.timing.median_ms for cell in cells if cell.timing and cell.timing.median_ms > 0}
        for variant, cells in candidates.items()
    }
    shared = set.intersection(*(set(times) for times in medians.values()))
    if not shared:
        return {}
    return {
        variant: math.exp(sum(math.log(times[workload]) for workload in shared) / len(shared))
        for variant, times in medians.items()
    }


def _change(selection: Selection, variant: str | None, backend: str) -> str:
    if variant is None:
        return "no sound variant that was tried is taken: run this part in eager"
    cells = [cell for cell in selection.of(variant, backend) if cell.verdict != "unavailable"]
    taken = [cell for cell in cells if cell.verdict in TAKEN]
    refused = [cell.workload for cell in cells if cell.verdict not in TAKEN]
    keep = variant in selection.of_kind("variable")
    words = f"nothing: keep {selection.name(variant)}" if keep else f"use {selection.name(variant)}"
    if refused:
        words += f", but only {place([cell.workload for cell in taken], refused)}"
    if all(cell.verdict == "built" for cell in taken):
        words += " (built, not run)"
    elif any(cell.verdict == "partial" for cell in taken):
        codes = dict.fromkeys(cell.reason.code for cell in taken if cell.verdict == "partial" and cell.reason)
        words += f" (in part: {', '.join(map(code, codes))})" if codes else " (in part)"
    return words


def _gain(cells: Sequence[Cell]) -> str:
    """The range of speed-ups over eager's variable form, a tie counted as 1, and at how many workloads it is one."""
    ratios = [gain for cell in cells if (gain := gain_of(cell)) is not None]
    if not ratios:
        taken = {cell.verdict for cell in cells if cell.verdict in TAKEN}
        return "not run" if taken == {"built"} else "not timed"
    if max(ratios) <= 1:
        remark = "" if min(ratios) == 1 else ", nowhere faster"
    else:
        faster = sum(ratio > 1 for ratio in ratios)
        remark = "" if faster == len(ratios) else f", faster at {faster} of {len(ratios)} workloads"
    return gains(ratios) + remark


def gains(ratios: Sequence[float]) -> str:
    """The range of `gain_of`s: '0.50× to 3.0×', 'tie to 2.0×'."""
    low, high = ("tie" if ratio == 1 else multiple(ratio) for ratio in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"


def gain_of(cell: Cell) -> float | None:
    """The speed-up over eager's variable form, 1 for a tie; None where it was not measured."""
    if cell.timing is None or cell.timing.ratio is None:
        return None
    return 1.0 if tied(cell) else cell.timing.ratio


def tied(cell: Cell) -> bool:
    """Whether a measured speed-up names no winner."""
    timing = cell.timing
    return timing is not None and timing.ratio is not None and is_tie(timing.ratio_low, timing.ratio_high)
