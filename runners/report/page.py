"""compat.md: from records to the page. What each part says is worked out in the modules beside this one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from runners.backends import BACKENDS
from runners.report import (
    advice,
    article,
    breakeven,
    facts,
    forecast,
    glance,
    refusals,
    text,
    times,
    verdicts,
    workloads,
)
from runners.report.pictures import Picture, draw
from runners.report.selection import MARK, Selection, environments, marks, selections
from runners.study.record import Cell, Environment, Record, write_aside

NOT_REACHED = "not_reached"
"""The flag in which a study lists what its deadline left out."""


def write_report(records: Sequence[Record], output: Path, folders: Mapping[str, Path] | None = None) -> Path:
    """Write `output/compat.md` and the pictures beside it, and return the page's path.

    `folders` says where an environment's own files (repro scripts, traces) lie when that is not
    `output/<environment id>`. Raises SameEnvironment when two records hold the same environment.
    """
    output = Path(output)
    links = Links(output, folders or {})
    sections = selections(records)
    pictures = {(section.environment.id, section.case): draw(section, output) for section in sections}
    page = output / "compat.md"
    write_aside(render(records, sections, links, pictures).encode(), page)
    return page


@dataclass(frozen=True)
class Links:
    """Where an environment's files lie, seen from the page."""

    output: Path
    folders: Mapping[str, Path]

    def path(self, environment: str, relative: str) -> str:
        """The path to write on the page for a file that is named relative to its environment's folder."""
        folder = self.folders.get(environment)
        if folder is None:
            return f"{environment}/{relative}"
        return Path(os.path.relpath(folder.resolve() / relative, self.output.resolve())).as_posix()

    def repro(self, cell: Cell) -> str | None:
        """The script that replays a cell."""
        return self.path(cell.environment, cell.repro) if cell.repro else None

    def trace(self, cell: Cell, trace: str) -> str:
        """A cell's profiler trace."""
        return self.path(cell.environment, trace)


def render(
    records: Sequence[Record],
    sections: Sequence[Selection],
    links: Links,
    pictures: Mapping[tuple[str, str], Sequence[Picture]],
) -> str:
    """The page as text."""
    cells = [cell for record in records for cell in record.cells]
    return _template().render(
        environments=[_environment(environment, sections, links, pictures) for environment in environments(records)],
        glance=glance.glances(sections),
        side_by_side=glance.side_by_side(sections),
        marked=_marked(records),
        unmeasured=unmeasured_on_gpu(cells),
        forecast=forecast.forecast(sections),
        verdicts=[(verdicts.SYMBOLS[name], name, verdicts.MEANINGS[name]) for name in verdicts.MEANINGS],
        codes=code_meanings(cells),
        mark=MARK,
    )


def _template() -> jinja2.Template:
    # Markdown, not HTML: `text` makes every value safe, and autoescape would spoil its code spans
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runners.report", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    environment.filters |= {
        "code": text.code,
        "prose": text.prose,
        "fence": text.fence,
        "path": text.url,
    }
    environment.globals |= {"link": text.link, "at": workloads.at, "symbols": verdicts.SYMBOLS}
    return environment.get_template("compat.md.j2")


def _environment(
    environment: Environment,
    sections: Sequence[Selection],
    links: Links,
    pictures: Mapping[tuple[str, str], Sequence[Picture]],
) -> dict[str, Any]:
    mine = [section for section in sections if section.environment.id == environment.id]
    return {
        "about": environment,
        "headline": glance.headline(mine),
        "absences": refusals.absences(mine),
        "flags": {name: flag_words(name, value) for name, value in environment.flags.items() if name != NOT_REACHED},
        "not_reached": not_reached(environment),
        "cases": [_case(section, links, pictures[environment.id, section.case]) for section in mine],
    }


def _case(section: Selection, links: Links, pictures: Sequence[Picture]) -> dict[str, Any]:
    entries, details = breakeven.break_evens(section), times.details(section)
    return {
        "name": section.case,
        "named": {variant: section.name(variant) for variant in section.variants},
        "marks": sorted(section.marks & set(section.variants)),
        "matrices": verdicts.matrices(section),
        "pairs": advice.rewrites(section),
        "advice": advice.advice(section),
        "rates": [verdicts.rate(section, variant) for variant in section.variants],
        "refusals": refusals.refusals(section, links.repro),
        "pictures": pictures,
        "overview": times.overview(section),
        "details": details,
        "remarks": any("remarks" in detail.table.columns for detail in details),
        "stages": times.stage_seconds(section),
        "break_evens": [entry for entry in entries if entry.ahead],
        "never_ahead": breakeven.never_ahead(section, entries),
        "backend": {backend: section.backend_name(backend) for backend in section.available},
        "on_cpu": bool(section.on_cpu),
        "article": article.article(section),
        "facts": facts.fact_table(section),
        "host_waits": facts.host_waits(section),
        "statistics": facts.statistics(section),
        "traces": facts.traces(section, links.trace),
        "unmeasured": unmeasured_on_gpu(section.cells),
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


def unmeasured_on_gpu(cells: Sequence[Cell]) -> list[str]:
    """The backends that need an NVIDIA GPU, or were only built for one, and have no time in these cells."""
    waiting = {cell.backend for cell in cells if cell.verdict == "built"}
    waiting |= {cell.backend for cell in cells if cell.backend in BACKENDS and BACKENDS[cell.backend].device == "cuda"}
    return [name for name in BACKENDS if name in waiting - {cell.backend for cell in cells if cell.timing}]


def code_meanings(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """The reason codes that occur, with what they mean."""
    from runners.study.reasons import CODES

    used = sorted({cell.reason.code for cell in cells if cell.reason})
    return [(used_code, CODES.get(used_code, "(not in the table of codes)")) for used_code in used]
