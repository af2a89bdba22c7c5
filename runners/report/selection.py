"""The merged records, cut into what one section of the page is about: one case in one environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from models.case import Workload
from runners.backends import BACKENDS
from runners.report.text import code
from runners.report.workloads import order, varying
from runners.study.record import Cell, Environment, Record

REFERENCE = "eager"
MARK = "†"


class SameEnvironment(Exception):
    """Two records hold the same environment; to merge them would mix what must stand apart."""


@dataclass(frozen=True)
class Selection:
    """The cells of one case in one environment. `marks` are its variants that eager itself gets wrong, here or
    elsewhere."""

    environment: Environment
    case: str
    cells: tuple[Cell, ...]
    marks: frozenset[str]

    @cached_property
    def variants(self) -> list[str]:
        """Variable forms first, else as recorded."""
        kinds = {cell.variant: cell.kind for cell in self.cells}
        return sorted(kinds, key=lambda variant: kinds[variant] != "variable")

    @cached_property
    def backends(self) -> list[str]:
        """As the study lists them; unknown ones after those, by name."""
        return backend_order({cell.backend for cell in self.cells})

    @cached_property
    def available(self) -> list[str]:
        """Backends of which at least one cell was tried."""
        tried = {cell.backend for cell in self.cells if cell.verdict != "unavailable"}
        return [backend for backend in self.backends if backend in tried]

    @cached_property
    def compilers(self) -> list[str]:
        """The available backends without the reference; rates are about these."""
        return [backend for backend in self.available if backend != REFERENCE]

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """The workload's dimensions worth naming in this section."""
        return varying(cell.workload for cell in self.cells)

    @cached_property
    def _by_pair(self) -> dict[tuple[str, str], list[Cell]]:
        pairs: dict[tuple[str, str], list[Cell]] = {}
        for cell in sorted(self.cells, key=lambda cell: order(cell.workload)):
            pairs.setdefault((cell.variant, cell.backend), []).append(cell)
        return pairs

    def of(self, variant: str, backend: str) -> list[Cell]:
        """The cells of one variant on one backend, by workload."""
        return self._by_pair.get((variant, backend), [])

    def of_kind(self, kind: str) -> list[str]:
        """The variants of a kind."""
        kinds = {cell.variant for cell in self.cells if cell.kind == kind}
        return [variant for variant in self.variants if variant in kinds]

    @cached_property
    def timed_workloads(self) -> list[Workload]:
        """The workloads at which anything was timed, in order."""
        return sorted({cell.workload for cell in self.cells if cell.timing}, key=order)

    @cached_property
    def on_cpu(self) -> frozenset[str]:
        """On a machine with a GPU, the available backends that run on the CPU all the same."""
        if self.environment.device == "cpu":
            return frozenset()
        return frozenset(name for name in self.available if name in BACKENDS and BACKENDS[name].device == "cpu")

    def backend_name(self, backend: str) -> str:
        """The backend's name as it stands beside times, with a label where it runs elsewhere than eager."""
        return code(backend) + (" (CPU)" if backend in self.on_cpu else "")

    def name(self, variant: str) -> str:
        """The variant's name as it stands everywhere, mark included."""
        return code(variant) + (f" {MARK}" if variant in self.marks else "")


def backend_order(names: Iterable[str]) -> list[str]:
    """The study's own order, then the names it does not know."""
    known = {name: index for index, name in enumerate(BACKENDS)}
    return sorted(names, key=lambda name: (known.get(name, len(known)), name))


def environments(records: Sequence[Record]) -> list[Environment]:
    """All environments in order of their id; raises SameEnvironment when two records hold the same one."""
    found: dict[str, Environment] = {}
    for record in records:
        for environment in record.environments:
            if environment.id in found:
                raise SameEnvironment(
                    f"two records hold the environment {environment.id!r}; merging them would mix two studies"
                )
            found[environment.id] = environment
    return [found[identifier] for identifier in sorted(found)]


def marks(records: Sequence[Record]) -> dict[tuple[str, str], Cell]:
    """(case, variant) -> the first eager cell that shows the variant's own flaw, over all environments."""
    flawed: dict[tuple[str, str], Cell] = {}
    for record in records:
        for cell in record.cells:
            if cell.backend == REFERENCE and cell.verdict == "wrong":
                flawed.setdefault((cell.case, cell.variant), cell)
    return flawed


def selections(records: Sequence[Record]) -> list[Selection]:
    """One selection per environment and case, in that order."""
    flawed = marks(records)
    cells: dict[tuple[str, str], list[Cell]] = {}
    for record in records:
        for cell in record.cells:
            cells.setdefault((cell.environment, cell.case), []).append(cell)
    return [
        Selection(
            environment=environment,
            case=case,
            cells=tuple(mine := cells[environment.id, case]),
            marks=frozenset(cell.variant for cell in mine if (case, cell.variant) in flawed),
        )
        for environment in environments(records)
        for case in dict.fromkeys(case for identifier, case in cells if identifier == environment.id)
    ]


def by_case(sections: Iterable[Selection]) -> dict[str, list[Selection]]:
    """The selections of each case, by environment."""
    cases: dict[str, list[Selection]] = {}
    for section in sections:
        cases.setdefault(section.case, []).append(section)
    return cases


def unmeasured_on_gpu(cells: Sequence[Cell]) -> list[str]:
    """The backends that need an NVIDIA GPU, or were only built for one, and have no time in these cells."""
    waiting = {cell.backend for cell in cells if cell.verdict == "built"}
    waiting |= {cell.backend for cell in cells if cell.backend in BACKENDS and BACKENDS[cell.backend].device == "cuda"}
    return [name for name in BACKENDS if name in waiting - {cell.backend for cell in cells if cell.timing}]
