"""What was seen on the way: facts per engine, host waits, statistics, traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runners.report.selection import Selection
from runners.report.text import code, count, milliseconds, prose, seconds, significant, size
from runners.report.times import LATER, Table
from runners.report.workloads import label
from runners.study.record import Cell

SHOWN_ELSEWHERE = frozenset(
    {"host_waits_forecast", "host_waits_counted", "statistics", "trace", "floor_bytes"}
    | {f"{name}_seconds" for name in LATER}
)
LONGEST = 160
"""Facts that would take more characters than this stay in compat.json."""


def fact_table(selection: Selection) -> Table | None:
    """Per backend and variant, its facts over all workloads."""
    rows = []
    for backend in selection.available:
        for variant in selection.variants:
            words = fact_words([_flattened(cell.facts) for cell in selection.of(variant, backend)])
            if words:
                rows.append([code(backend), selection.name(variant), "; ".join(words)])
    return Table(["backend", "variant", "facts"], rows) if rows else None


def _flattened(facts: dict[str, Any]) -> dict[str, Any]:
    """With what the verification noted among the others; of the inputs it used, their number."""
    nested = facts.get("verification")
    if not isinstance(nested, dict):
        return facts
    noted = {f"verified {name}": value for name, value in nested.items() if name not in SHOWN_ELSEWHERE}
    if isinstance(nested.get("inputs"), list):
        noted["verified inputs"] = len(nested["inputs"])
    return {name: value for name, value in facts.items() if name != "verification"} | noted


def fact_words(facts: Sequence[dict[str, Any]]) -> list[str]:
    """The facts of several cells in words: 'graph breaks 1', 'artifact 1.2 MiB to 3.4 MiB'."""
    words = []
    for name in dict.fromkeys(name for known in facts for name in known):
        if name in SHOWN_ELSEWHERE:
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


def statistics(selection: Selection) -> Table | None:
    """Per backend and variant, how many tests of the draw were made and the smallest p among them."""
    rows = []
    for backend in selection.available:
        for variant in selection.variants:
            tests = [
                test
                for cell in selection.of(variant, backend)
                for test in _tests(cell)
                if isinstance(test.get("p_value"), int | float)
            ]
            if tests:
                smallest = min(tests, key=lambda test: float(test["p_value"]))
                others = {name: entry for name, entry in smallest.items() if name not in ("name", "p_value")}
                rows.append(
                    [
                        code(backend),
                        selection.name(variant),
                        count(len(tests)),
                        f"{significant(smallest['p_value'])} ({prose(str(smallest.get('name', 'unnamed')))})",
                        ", ".join(fact_words([others])),
                    ]
                )
    columns = ["backend", "variant", "tests", "smallest p", "that test"]
    return Table(columns, rows) if rows else None


def _tests(cell: Cell) -> Iterable[dict[str, Any]]:
    verification = cell.facts.get("verification")
    tests = cell.facts.get("statistics", verification.get("statistics") if isinstance(verification, dict) else None)
    return [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []


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
