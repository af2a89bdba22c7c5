"""The first two answers: does my backend take it, and is the answer still right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from models.case import Workload
from runners.report.selection import REFERENCE, Selection
from runners.report.text import SPACE, code
from runners.report.workloads import at, place
from runners.study.record import Cell, Verdict

SYMBOLS: dict[Verdict, str] = {
    "accepted": "✅",
    "partial": "🟡",
    "built": "🔧",
    "wrong": "❗",
    "rejected": "❌",
    "crashed": "💥",
    "timeout": "⌛",
    "unavailable": "➖",
}

MEANINGS: dict[Verdict, str] = {
    "accepted": "every stage passed: right answer, whole graph on the engine asked for",
    "partial": "right answer, with a reservation that its code names: cut graph, fixed dimension, output to copy, "
    "nothing but zeros to compare",
    "built": "compiled for a device that this machine lacks; not run",
    "wrong": "it ran, and the answer breaks the contract",
    "rejected": "a stage refused, with an error",
    "crashed": "the worker process died",
    "timeout": "a stage outlived its limit and was ended",
    "unavailable": "the package or the device is missing; never counted",
}

WORST_FIRST: tuple[Verdict, ...] = (
    "crashed",
    "timeout",
    "wrong",
    "rejected",
    "partial",
    "built",
    "accepted",
    "unavailable",
)

TAKEN: frozenset[Verdict] = frozenset({"accepted", "partial", "built"})
"""Verdicts that mean 'my backend takes it'; the last two carry a label wherever they are counted."""

PAIR_WORDS = ("both accepted", "static rescues", "static breaks it", "neither")


@dataclass(frozen=True)
class Finding:
    """One verdict with its code, and at which of the workloads it fell ('' when at all)."""

    verdict: Verdict
    code: str | None
    place: str

    def __str__(self) -> str:
        words = [f"{SYMBOLS[self.verdict]}{SPACE}{self.verdict}"]
        if self.verdict == "built":
            words.append("(not run)")
        placed = at(" ".join(words), self.place)
        return f"{placed} {code(self.code)}" if self.code and self.verdict != "built" else placed


def findings(cells: Sequence[Cell]) -> list[Finding]:
    """The verdicts of one variant on one backend, worst first, each with where it turns."""
    tried = [cell for cell in cells if cell.verdict != "unavailable"] or list(cells)
    groups: dict[tuple[Verdict, str | None], list[Workload]] = {}
    for cell in tried:
        groups.setdefault((cell.verdict, cell.reason.code if cell.reason else None), []).append(cell.workload)
    found = []
    for key in sorted(groups, key=lambda key: (WORST_FIRST.index(key[0]), key[1] or "")):
        others = [workload for other, group in groups.items() if other != key for workload in group]
        found.append(Finding(key[0], key[1], place(groups[key], others)))
    return found


def matrix(selection: Selection) -> list[tuple[str, list[list[Finding]]]]:
    """Every available backend with its findings on each variant."""
    return [
        (backend, [findings(selection.of(variant, backend)) for variant in selection.variants])
        for backend in selection.available
    ]


def pair_word(variable: Cell, static: Cell) -> str | None:
    """The pair verdict at one workload; None where either could not be tried."""
    if "unavailable" in (variable.verdict, static.verdict):
        return None
    taken = (variable.verdict in TAKEN, static.verdict in TAKEN)
    word = {
        (True, True): "both accepted",
        (False, True): "static rescues",
        (True, False): "static breaks it",
        (False, False): "neither",
    }[taken]
    labels = [
        f"{name} {remark}"
        for name, cell in (("variable", variable), ("static", static))
        for verdict, remark in (("partial", "in part"), ("built", "not run"))
        if cell.verdict == verdict
    ]
    if [cell.verdict for cell in (variable, static)] == ["built", "built"]:
        labels = ["not run"]
    return f"{word} ({', '.join(labels)})" if labels else word


def pair_verdict(variable: Sequence[Cell], static: Sequence[Cell]) -> list[str]:
    """The pair verdict over the workloads that both were tried at, with where it turns."""
    partners = {cell.workload: cell for cell in static}
    groups: dict[str, list[Workload]] = {}
    for cell in variable:
        partner = partners.get(cell.workload)
        word = pair_word(cell, partner) if partner else None
        if word:
            groups.setdefault(word, []).append(cell.workload)
    phrases = []
    for word, workloads in groups.items():
        others = [workload for other, group in groups.items() if other != word for workload in group]
        phrases.append(at(f"*{word}*", place(workloads, others)))
    return phrases


@dataclass(frozen=True)
class Rate:
    """How many of the backends take a variant. Unavailable cells are in no denominator."""

    variant: str
    taken: int
    """Backends that take it at every workload tried, in part and unrun ones included."""
    accepted: int
    """Backends that accept it whole at every workload tried."""
    backends: int
    cells: dict[Verdict, int]
    """Cells by verdict, the reference left out."""
    counted: int
    unavailable: int

    def of(self, number: int) -> str:
        """'3 of 7', the denominator never left out."""
        return f"{number} of {self.backends}".replace(" ", SPACE) if self.backends else "not tried"


def rate(selection: Selection, variant: str) -> Rate:
    """The rate of one variant over the backends of a selection, eager left out."""
    per_backend = [
        [cell.verdict for cell in selection.of(variant, backend) if cell.verdict != "unavailable"]
        for backend in selection.backends
        if backend != REFERENCE
    ]
    tried = [verdicts for verdicts in per_backend if verdicts]
    tally = Counter(cell.verdict for cell in selection.cells if cell.variant == variant and cell.backend != REFERENCE)
    unavailable = tally.pop("unavailable", 0)
    return Rate(
        variant=variant,
        taken=sum(TAKEN.issuperset(verdicts) for verdicts in tried),
        accepted=sum(set(verdicts) == {"accepted"} for verdicts in tried),
        backends=len(tried),
        cells={verdict: tally[verdict] for verdict in reversed(WORST_FIRST) if tally[verdict]},
        counted=tally.total(),
        unavailable=unavailable,
    )
