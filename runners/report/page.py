"""compat.md, and all that is written with it. What each part says is worked out in the modules beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.report import advice, forecast, glance, refusals, text, verdicts
from runners.report.case_page import page_of, remove_others, write_case
from runners.report.selection import Selection, by_case, environments, marks, selections, unmeasured_on_gpu
from runners.report.templates import template
from runners.study.record import Cell, Environment, Record, write_aside

NOT_REACHED = "not_reached"
"""The flag in which a study lists what its deadline left out."""


def write_report(records: Sequence[Record], output: Path, folders: Mapping[str, Path] | None = None) -> Path:
    """Write `output/compat.md`, a page for each case and the pictures, and return the first page's path.

    `folders` says where an environment's own files (repro scripts, traces) lie when that is not
    `output/<environment id>`. Raises SameEnvironment when two records hold the same environment.
    """
    output = Path(output)
    sections = selections(records)
    pages = [write_case(mine, output, folders or {}) for mine in by_case(sections).values()]
    page = output / "compat.md"
    write_aside(render(records, sections).encode(), page)
    remove_others(output, pages)
    return page


def render(records: Sequence[Record], sections: Sequence[Selection]) -> str:
    """compat.md as text."""
    cells = [cell for record in records for cell in record.cells]
    found = environments(records)
    cases = [_case(case, mine) for case, mine in by_case(sections).items()]
    return template("compat.md.j2").render(
        environments=[_environment(environment, sections) for environment in found],
        several=len(found) > 1,
        glance=glance.glances(sections),
        cases=cases,
        pages={case["name"]: case["page"] for case in cases},
        marked=_marked(records),
        unmeasured=unmeasured_on_gpu(cells),
        forecast=forecast.forecast(sections),
        verdicts=[(verdicts.SYMBOLS[name], name, verdicts.MEANINGS[name]) for name in verdicts.MEANINGS],
        codes=code_meanings(cells),
        front="",
    )


def _environment(environment: Environment, sections: Sequence[Selection]) -> dict[str, Any]:
    mine = [section for section in sections if section.environment.id == environment.id]
    return {
        "about": environment,
        "headline": glance.headline(mine),
        "absences": refusals.absences(mine),
        "flags": {name: flag_words(name, value) for name, value in environment.flags.items() if name != NOT_REACHED},
        "not_reached": not_reached(environment),
    }


def _case(case: str, sections: Sequence[Selection]) -> dict[str, Any]:
    return {
        "name": case,
        "page": page_of(case),
        "marks": any(section.marks for section in sections),
        "parts": [
            {
                "section": section,
                "matrix": verdicts.matrix(section),
                "advice": advice.advice(section),
            }
            for section in sections
        ],
    }


def not_reached(environment: Environment) -> dict[str, list[str]]:
    """What the study's deadline left out, as 'case/variant workload' -> backends."""
    listed = environment.flags.get(NOT_REACHED)
    found: dict[str, list[str]] = {}
    for entry in listed if isinstance(listed, list) else []:
        what, _, backend = str(entry).rpartition(": ")
        found.setdefault(what, []).append(backend)
    return found


def flag_words(name: str, value: Any) -> str:
    """A flag's value: rates as rates, long numbers in groups."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "bytes_per_second" in name:
            return f"{text.significant(value / 1e9)} GB/s"
        return text.count(value) if value == round(value) and abs(value) >= 10_000 else str(value)
    return str(value)


def _marked(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The footnotes: every variant that eager itself gets wrong, with the reason."""
    return [
        {
            "case": case,
            "variant": variant,
            "code": cell.reason.code if cell.reason else "no code",
            "line": refusals.telling_line(cell.reason.text) if cell.reason else "",
        }
        for (case, variant), cell in marks(records).items()
    ]


def code_meanings(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """The reason codes that occur, with what they mean."""
    from runners.study.reasons import CODES

    used = sorted({cell.reason.code for cell in cells if cell.reason})
    return [(used_code, CODES.get(used_code, "(not in the table of codes)")) for used_code in used]
