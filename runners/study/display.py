"""What a person sees while a study runs: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from runners.study.plan import Round
from runners.study.record import Cell

COLOURS = {
    "accepted": "green",
    "partial": "yellow",
    "built": "cyan",
    "wrong": "bold red",
    "rejected": "red",
    "crashed": "bold red",
    "timeout": "magenta",
    "unavailable": "dim",
}


class Display:
    """Follows a study."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._done, self._total = 0, 0
        self._at_work: dict[tuple[str, str], str] = {}
        self._progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=None, left="")

    @contextmanager
    def following(self, total: int) -> Iterator[None]:
        """Show the study's progress, of `total` cells, while it runs."""
        self._began, self._total = time.monotonic(), total
        self._progress.update(self._task, total=total)
        with self._progress:
            yield

    def stage(self, cell: Cell, stage: str) -> None:
        self._at_work[cell.variant, cell.backend] = stage
        self._describe("   ".join(f"{v}/{b}: {s}" for (v, b), s in self._at_work.items()))

    def verdict(self, cell: Cell) -> None:
        self._at_work.pop((cell.variant, cell.backend), None)
        self._done += 1
        why = f" at {cell.stage or 'probe'}: {cell.reason.code}" if cell.reason else ""
        what = escape(f"{cell.case}/{cell.variant} {cell.backend}")
        self._console.print(
            f"[{COLOURS[cell.verdict]}]{cell.verdict:<12}[/] {what} [dim]{cell.workload}[/]{why}",
            highlight=False,
            soft_wrap=True,
        )
        self._describe(None)

    def making(self, name: str) -> None:
        self._say(f"making the environment of {name}: its packages are installed, this once")

    def measuring(self, round_: Round, lanes: int) -> None:
        self._at_work.clear()
        self._say(f"measuring {lanes} lanes of {round_.case.name} {round_.workload}")

    def sampled(self, cell: Cell, samples: int) -> None:
        self._describe(f"measuring {cell.case} {cell.workload}: round {samples}, {cell.variant}/{cell.backend}")

    def _say(self, text: str) -> None:
        self._describe(text)
        if not self._console.is_terminal:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _describe(self, text: str | None) -> None:
        elapsed = time.monotonic() - self._began
        left = elapsed / self._done * (self._total - self._done) if self._done else 0.0
        if text is not None:
            self._progress.update(self._task, description=text[:120])
        left_text = f"about {left / 60:.0f} min left" if left >= 60 else f"about {left:.0f} s left" if left else ""
        self._progress.update(self._task, completed=self._done, left=left_text)
