"""What was seen on the way: facts per engine, host waits, statistics, traces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from models.draw_statistics import ASKED_BIAS, NOMINAL
from runners.report.selection import Selection
from runners.report.text import SPACE, code, count, milliseconds, prose, seconds, significant, size
from runners.report.times import LATER, Table
from runners.report.workloads import label
from runners.study.record import Cell

SHOWN_ELSEWHERE = frozenset(
    {"host_waits_forecast", "host_waits_counted", "statistics", "trace", "floor_bytes"}
    | {f"{name}_seconds" for name in LATER}
)
LEFT_OUT = frozenset({"random_outputs", "uninformative_outputs", "input_dtypes", "output_dtypes", "build_warnings"})
"""Facts that stay in compat.json: they say nothing about the engine, or the same everywhere."""
LONGEST = 160
"""Facts that would take more characters than this stay in compat.json."""


def fact_table(selection: Selection) -> Table | None:
    """Per backend and variant, its facts over all workloads."""
    rows = []
    for backend in selection.available:
        for variant in selection.variants:
            words = fact_words([_flattened(cell.facts) for cell in selection.of(variant, backend)])
            if words:
                rows.append([selection.backend_name(backend), selection.name(variant), "; ".join(words)])
    return Table(["backend", "variant", "facts"], rows) if rows else None


def _flattened(facts: dict[str, Any]) -> dict[str, Any]:
    """With what the verification noted among the others; of the inputs it used, their number."""
    nested = facts.get("verification")
    if not isinstance(nested, dict):
        return facts
    noted = {f"verified {name}": value for name, value in nested.items() if name not in SHOWN_ELSEWHERE | LEFT_OUT}
    if isinstance(nested.get("inputs"), list):
        noted["verified inputs"] = len(nested["inputs"])
    if silent := nested.get("uninformative_outputs"):
        noted["verified with nothing but zeros or NaN"] = [f"output {number}" for number in silent]
    return {name: value for name, value in facts.items() if name != "verification"} | noted


def fact_words(facts: Sequence[dict[str, Any]]) -> list[str]:
    """The facts of several cells in words: 'graph breaks 1', 'artifact 1.2 MiB to 3.4 MiB'."""
    words = []
    for name in dict.fromkeys(name for known in facts for name in known):
        if name in SHOWN_ELSEWHERE | LEFT_OUT:
            continue
        text = _over_workloads(name, [known[name] for known in facts if name in known])
        if text and len(text) <= LONGEST:
            heading = name.removesuffix("_bytes").removesuffix("_seconds").removesuffix("_ms").replace("_", " ")
            words.append(f"{prose(heading)} {text}")
    return words


def _over_workloads(name: str, values: Sequence[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if numbers and len(numbers) == len(values):
        low, high = _value(name, min(numbers)), _value(name, max(numbers))
        return low if low == high else f"{low} to {high}"
    if values and all(_counts(value) for value in values):
        parts = dict.fromkeys(part for value in values for part in value)
        return ", ".join(
            f"{prose(str(part))}: {_over_workloads(part, [value[part] for value in values if part in value])}"
            for part in parts
        )
    distinct = list(dict.fromkeys(text for value in values if (text := _value(name, value))))
    return " or ".join(distinct) if len(distinct) <= 3 else ""


def _value(name: str, value: Any) -> str:
    """One value in words; '' when it holds nothing or is too involved for a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        for suffix, write in (("_bytes", size), ("_seconds", seconds), ("_ms", milliseconds)):
            if name.endswith(suffix):
                return write(value)
        return count(value) if isinstance(value, int) else significant(value)
    if isinstance(value, dict):
        parts = [f"{prose(str(key))}: {_value(str(key), entry)}" for key, entry in value.items()]
        return ", ".join(parts) if all(_flat(entry) for entry in value.values()) else ""
    if isinstance(value, list):
        return ", ".join(_value(name, entry) for entry in value) if all(_flat(entry) for entry in value) else ""
    return "" if value is None else prose(str(value))


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(type(entry) is int for entry in value.values())


def _flat(value: Any) -> bool:
    return not isinstance(value, list | dict)


def host_waits(selection: Selection) -> Table | None:
    """The waits of the host for the device: forecast on any machine, counted on a card, with their lines."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for backend in selection.available:
        for variant in selection.variants:
            for cell in selection.of(variant, backend):
                forecast = cell.facts.get("host_waits_forecast")
                counted = cell.facts.get("host_waits_counted")
                if forecast is None and counted is None:
                    continue
                row = [
                    code(backend),
                    selection.name(variant),
                    _how_many(forecast),
                    _how_many(counted),
                    "<br>".join(dict.fromkeys([*_lines(forecast), *_lines(counted)])),
                ]
                rows.setdefault(tuple(row), row)
    columns = ["backend", "variant", "forecast", "counted", "lines that wait"]
    return Table(columns, list(rows.values())) if rows else None


def _how_many(waits: Any) -> str:
    if waits is None:
        return ""
    return count(len(waits)) if isinstance(waits, list) else _value("", waits)


def _lines(waits: Any) -> list[str]:
    if not isinstance(waits, list):
        return []
    return [
        " ".join(code(str(part), 100) for part in entry.values() if _flat(part) and part not in (None, ""))
        if isinstance(entry, dict)
        else code(str(entry), 100)
        for entry in waits[:12]
    ]


@dataclass(frozen=True)
class Group:
    """What `models.draw_statistics` noted of many draws at one share of positives."""

    share: str
    draws: int
    tests: dict[str, tuple[float, float]]
    """Name -> p and the bias that the test would have seen, as a share."""


@dataclass(frozen=True)
class DrawStatistics:
    """The table, and what to read it with."""

    table: Table
    words: str


def statistics(selection: Selection) -> DrawStatistics | None:
    """Per variant (eager first) and backend: how many tests of how many draws, the smallest p, the weakest test."""
    rows, rates = [], set()
    for variant in selection.variants:
        for backend in selection.available:
            noted = [found for cell in selection.of(variant, backend) if (found := _noted(cell))]
            groups = [group for found in noted for group in draw_groups(found)]
            if groups:
                rates |= {found["false_alarm"] for found in noted if isinstance(found.get("false_alarm"), int | float)}
                rows.append([selection.name(variant), selection.backend_name(backend), *_statistics_row(groups)])
    if not rows:
        return None
    words = "Draws over the workloads with noise inside; eager against the contract, the others against eager's draws."
    if rates:
        words += f" A test gives a false alarm at most once in {count(1 / max(rates))}; **bold** is an alarm."
    columns = ["variant", "backend", "tests", "draws a test", "smallest p", "weakest test sees a bias of"]
    return DrawStatistics(Table(columns, rows), words)


def _noted(cell: Cell) -> dict[str, Any]:
    verification = cell.facts.get("verification")
    noted = verification.get("statistics") if isinstance(verification, dict) else None
    return noted if isinstance(noted, dict) else {}


def draw_groups(noted: dict[str, Any]) -> list[Group]:
    """The groups of one cell's statistics; those without draws (a call broke a rule first) are left out."""
    groups = []
    for share, seen in noted.items():
        if isinstance(seen, dict) and isinstance(seen.get("draws"), int):
            tests = {
                name: (float(test["p"]), float(test.get("sees_bias_of", math.inf)))
                for name, test in seen.items()
                if isinstance(test, dict) and isinstance(test.get("p"), int | float)
            }
            groups.append(Group(share, seen["draws"], tests))
    return groups


def _statistics_row(groups: Sequence[Group]) -> list[str]:
    tests = [(p, sees, name, group.share) for group in groups for name, (p, sees) in group.tests.items()]
    few, many = min(group.draws for group in groups), max(group.draws for group in groups)
    draws = count(few) if few == many else f"{count(few)} to {count(many)}"
    smallest = min(tests, default=None)
    worst = f"{_p(smallest[0])} ({prose(smallest[2])}, {prose(smallest[3])})" if smallest else ""
    return [count(len(tests)), draws, worst, _weakest([sees for _, sees, _, _ in tests], groups)]


def _weakest(sees: Sequence[float], groups: Sequence[Group]) -> str:
    """'4.2 %', or how many could not have seen the bias that is asked for."""
    asked = f"{ASKED_BIAS * 100:.0f}{SPACE}%"
    blind = sum(bias > ASKED_BIAS for bias in sees)
    untested = sum(not group.tests for group in groups)
    if not sees:
        return f"no test: could not have seen {asked}"
    words = f"{max(sees) * 100:.2g}{SPACE}%" if max(sees) < 1 else f"{significant(max(sees), 2)}×"
    if blind:
        words = f"{words}: {count(blind)} of {count(len(sees))} could not have seen {asked}"
    return words + (f"; {count(untested)} of {count(len(groups))} samples too small for a test" if untested else "")


def _p(value: float) -> str:
    """p as 0.26, or 7e-65; bold where it is an alarm."""
    words = f"{value:.2g}" if value else "0"
    return f"**{words}**" if value < NOMINAL else words


@dataclass(frozen=True)
class Trace:
    """A profiler trace of one cell, ready to be linked."""

    variant: str
    backend: str
    workload: str
    path: str


def traces(selection: Selection, path: Callable[[Cell, str], str]) -> list[Trace]:
    """Every trace that was written; `path` turns a cell's own path into the page's."""
    return [
        Trace(variant, backend, label(cell.workload, selection.dimensions), path(cell, cell.facts["trace"]))
        for backend in selection.available
        for variant in selection.variants
        for cell in selection.of(variant, backend)
        if isinstance(cell.facts.get("trace"), str)
    ]
