"""Everything that is not whole: why, in the compiler's own words, where, and how to see it again."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runners.backends import BACKENDS
from runners.report.selection import Selection, backend_order
from runners.report.text import one_line, readable
from runners.report.workloads import place
from runners.study.record import ALSO, Cell, Reason, Stage, Verdict

_NAMED_ERROR = re.compile(
    r"^\s*(?:at [^:]+: )?"
    r"(?:[\w.]*(?:Error|Exception|Failure|Exit|Interrupt|Node|Warning)\b.*?:\s|\[(?:E|ERROR|ONNXRuntimeError)\]|error:)"
)
_VAGUE = re.compile(r"(?:does not build the engine|See diagnostics)\.?\s*$")
"""Lines that name an error and leave what it was to the lines below."""
_SAYS_ERROR = re.compile(r"\berror:|\bError\b")
_REMEDY = re.compile(r"\s*\(to provide it: (?P<remedy>.*)\)\s*$", re.DOTALL)
"""How `exporters.exporter.Unavailable` ends its text."""

_TRACE = "Traceback (most recent call last)"


def telling_line(text: str) -> str:
    """The one line of a compiler's text that says what it was about.

    Of a traceback the line that names the final error; otherwise the first that looks like an error; else
    the first that is not blank. One that ends in a colon takes the next along; one that only points to what
    follows gives way to the error there.
    """
    lines = [line for line in readable(text.partition(ALSO)[0]).split("\n") if line.strip()]
    if not lines:
        return ""
    if any(_TRACE in line for line in lines):
        last = max(index for index, line in enumerate(lines) if _TRACE in line)
        after = [line for line in lines[last + 1 :] if not line.startswith((" ", "\t"))]
        if after:
            return one_line(after[0])
    index = next((index for index, line in enumerate(lines) if _NAMED_ERROR.match(line)), 0)
    if lines[index].rstrip().endswith(":"):
        return one_line(" ".join(lines[index : index + 2]))
    if _VAGUE.search(lines[index]):
        return one_line(next((line for line in lines[index + 1 :] if _SAYS_ERROR.search(line)), lines[index]))
    return one_line(lines[index])


@dataclass(frozen=True)
class Place:
    """One backend that refused so: at which workloads, and the script that replays the first of them."""

    backend: str
    workloads: str
    repro: str | None


@dataclass(frozen=True)
class Refusal:
    """Cells of one variant that failed alike: same verdict, stage, code and telling line."""

    variant: str
    verdict: Verdict
    stage: Stage | None
    code: str
    line: str
    where: str | None
    text: str
    places: list[Place]

    @property
    def title(self) -> str:
        """One line of HTML, for a summary, where Markdown is not read."""
        names = ", ".join(place.backend for place in self.places)
        return html.escape(f"{self.variant}, {self.verdict} in {self.stage or 'an unknown stage'}: {names}")


def refusals(selection: Selection, script: Callable[[Cell], str | None]) -> list[Refusal]:
    """All cells that were tried and are neither accepted nor only built, grouped; `script` gives a cell's
    repro as the page should link it."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for variant in selection.variants:
        for backend in selection.available:
            for cell in selection.of(variant, backend):
                if cell.verdict not in ("accepted", "built", "unavailable"):
                    groups.setdefault(_alike(cell), []).append(cell)
    return [_refusal(selection, cells, script) for cells in groups.values()]


def _alike(cell: Cell) -> tuple[str, ...]:
    reason = cell.reason
    line = telling_line(reason.text) if reason else ""
    return (
        cell.variant,
        cell.verdict,
        cell.stage or "",
        reason.code if reason else "",
        # sizes, addresses and symbols such as u0 differ between workloads of the same refusal
        re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?", "#", line),
        (reason.where or "") if reason else "",
    )


def _refusal(selection: Selection, cells: list[Cell], script: Callable[[Cell], str | None]) -> Refusal:
    first = cells[0]
    reason = first.reason
    places = []
    for backend in backend_order({cell.backend for cell in cells}):
        here = [cell for cell in cells if cell.backend == backend]
        places.append(Place(backend, _where(selection, here), script(here[0])))
    return Refusal(
        variant=first.variant,
        verdict=first.verdict,
        stage=first.stage,
        code=reason.code if reason else "",
        line=telling_line(reason.text) if reason else "",
        where=reason.where if reason else None,
        text=reason.text if reason else "",
        places=places,
    )


def _where(selection: Selection, cells: list[Cell]) -> str:
    these = {cell.workload for cell in cells}
    tried = selection.of(cells[0].variant, cells[0].backend)
    rest = [cell.workload for cell in tried if cell.workload not in these and cell.verdict != "unavailable"]
    return place(these, rest)


@dataclass(frozen=True)
class Absence:
    """A backend that could not be tried here: why, and the command that would provide it."""

    backend: str
    code: str
    reason: str
    provide: str


def absences(selections: Sequence[Selection]) -> list[Absence]:
    """The backends that no case of an environment could try, once each."""
    found: dict[str, Absence] = {}
    for selection in selections:
        for cell in selection.cells:
            if cell.backend not in found and not any(cell.backend in other.available for other in selections):
                found[cell.backend] = _absence(cell)
    return [found[backend] for backend in backend_order(found)]


def _absence(cell: Cell) -> Absence:
    reason = cell.reason or Reason(code="", text="")
    told = _REMEDY.search(reason.text)
    line = telling_line(_REMEDY.sub("", reason.text))
    if told:
        return Absence(cell.backend, reason.code, line, told["remedy"])
    return Absence(cell.backend, reason.code, line, BACKENDS[cell.backend].provide if cell.backend in BACKENDS else "")
