"""The page of one case: all that was measured and said of it, environment below environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.report import article, breakeven, facts, glance, refusals, times, verdicts
from runners.report.pictures import Picture, draw
from runners.report.selection import Selection, unmeasured_on_gpu
from runners.report.templates import template
from runners.report.text import file_stem
from runners.study.record import Cell, write_aside

FOLDER = "cases"
"""Where the pages of cases lie, beside compat.md."""

GENERATED = "<!-- Written by python -m runners.report, which replaces and removes it. -->"
"""The first line of every page in there."""


def page_of(case: str) -> str:
    """The path of a case's page, seen from compat.md."""
    return f"{FOLDER}/{file_stem(case)}.md"


def write_case(sections: Sequence[Selection], output: Path, folders: Mapping[str, Path]) -> Path:
    """Write the page of the case that `sections` hold, and its pictures; return the page's path."""
    case = sections[0].case
    page = output / page_of(case)
    links = Links(page.parent, output, folders)
    parts = [_part(section, links, draw(section, output)) for section in sections]
    words = template("case.md.j2").render(
        generated=GENERATED,
        case=case,
        side_by_side=glance.side_by_side(sections),
        parts=parts,
        links=links,
        front="../compat.md",
    )
    write_aside(words.encode(), page)
    return page


def remove_others(output: Path, pages: Iterable[Path]) -> None:
    """Remove the pages that an earlier report wrote and this one did not; what others wrote stays."""
    for path in set((output / FOLDER).glob("*.md")) - set(pages):
        if path.read_bytes().startswith(GENERATED.encode()):
            path.unlink()


@dataclass(frozen=True)
class Links:
    """Where files lie, seen from the page in `here`."""

    here: Path
    output: Path
    folders: Mapping[str, Path]

    def to(self, path: Path) -> str:
        """The path to write on the page for a file."""
        return Path(os.path.relpath(path.resolve(), self.here.resolve())).as_posix()

    def _of(self, environment: str, relative: str) -> str:
        """The same for a file that is named relative to its environment's folder."""
        return self.to(self.folders.get(environment, self.output / environment) / relative)

    def repro(self, cell: Cell) -> str | None:
        """The script that replays a cell."""
        return self._of(cell.environment, cell.repro) if cell.repro else None

    def trace(self, cell: Cell, trace: str) -> str:
        """A cell's profiler trace."""
        return self._of(cell.environment, trace)


def _part(section: Selection, links: Links, pictures: Sequence[Picture]) -> dict[str, Any]:
    entries, details = breakeven.break_evens(section), times.details(section)
    return {
        "section": section,
        "rates": [verdicts.rate(section, variant) for variant in section.variants],
        "refusals": refusals.refusals(section, links.repro),
        "pictures": pictures,
        "overview": times.overview(section),
        "details": details,
        "remarks": any("remarks" in detail.table.columns for detail in details),
        "stages": times.stage_seconds(section),
        "break_evens": [entry for entry in entries if entry.ahead],
        "never_ahead": breakeven.never_ahead(section, entries),
        "article": article.article(section),
        "facts": facts.fact_table(section),
        "host_waits": facts.host_waits(section),
        "statistics": facts.statistics(section),
        "traces": facts.traces(section, links.trace),
        "unmeasured": unmeasured_on_gpu(section.cells),
    }
