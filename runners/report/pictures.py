"""The pictures of one case in one environment, as files: which there are, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from models.case import Workload
from runners.report.selection import Selection
from runners.report.text import file_stem, slug
from runners.report.workloads import label, order, varying

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """One picture, in both formats."""

    title: str
    svg: Path
    png: Path


def draw(selection: Selection, output: Path) -> list[Picture]:
    """Draw what the selection's times allow, under `output/<environment id>/plots`."""
    lines = series(selection)
    if not lines:
        return []
    from runners.report import charts  # Matplotlib takes a while to load

    pictures = []
    for held, workloads in lines.items():
        about = ", ".join(filter(None, (selection.case, held)))
        for kind, words, chart in (
            ("time", "time of one call", charts.times),
            ("speedup", "speed-up over eager's variable form", charts.speed_ups),
        ):
            title = f"{about}: {words}"
            figure = chart(selection, workloads, f"{title} ({selection.environment.id})")
            if figure is not None:
                stem = f"{file_stem(selection.case)}-{slug(f'{held} {kind}')}"
                pictures.append(_save(figure, selection, output, stem, title))
    return pictures


def series(selection: Selection) -> dict[str, list[Workload]]:
    """The timed workloads that differ in N alone, by what they hold fixed in words.

    Where anything was timed with noise drawn inside, the runs with noise as input are left to the tables.
    """
    timed = selection.timed_workloads
    if any(workload.noise == "inside" for workload in timed):
        timed = [workload for workload in timed if workload.noise != "input"]
    dimensions = [name for name in varying(timed) if name not in ("n", "k", "seed")]
    found: dict[Workload, list[Workload]] = {}
    for workload in sorted(timed, key=order):
        fixed = msgspec.structs.replace(workload, n=None, k=None, seed=None)
        found.setdefault(fixed, []).append(workload)
    if len(found) < 2:
        return {"": timed} if timed else {}
    return {label(fixed, dimensions, absent=True): workloads for fixed, workloads in found.items()}


def _save(figure: Figure, selection: Selection, output: Path, stem: str, title: str) -> Picture:
    import matplotlib

    folder = output / selection.environment.id / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    picture = Picture(title, folder / f"{stem}.svg", folder / f"{stem}.png")
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    figure.set_layout_engine("none")  # the layout is found once for both files
    # A fixed salt and no date: the same record gives the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": stem}):
        figure.savefig(picture.svg, metadata={"Date": None})
        figure.savefig(picture.png, dpi=144, metadata={"Software": None})
    return picture
