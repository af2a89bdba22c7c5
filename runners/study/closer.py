"""What is found out of a cell once it has been timed: its floor, a profiler's trace, the host waits of a card."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from runners.study.device import floor_ms
from runners.study.lane import Lane, LaneFailed
from runners.study.lanes import LaneKey, Lanes
from runners.study.plan import Round
from runners.study.record import Cell, Environment
from runners.study.replay import name_of
from runners.study.worker import Command

TRACED = ("eager", "compile")
"""The backends whose whole cells are traced when only a few are."""


class Closer:
    """Looks closer at timed cells; never in a timed pass.

    `traces` cells are traced (None: all), into `folder`; the copy bandwidth of each device is measured once per
    environment and kept in its flags, so that every floor of a record rests on the same one.
    """

    def __init__(self, lanes: Lanes, environment: Environment, folder: Path, traces: int | None) -> None:
        self._lanes, self._environment, self._folder, self._traces = lanes, environment, folder, traces
        self._traced = 0
        self._profiled: set[tuple[str, LaneKey]] = set()
        self._unmeasured: set[str] = set()

    def floor(self, cell: Cell) -> float | None:
        """Milliseconds that the bytes a cell must move take at the copy bandwidth of its device; None if unknown."""
        moved = cell.facts.get("floor_bytes")
        if moved is None:
            return None
        bandwidth = self._bandwidth(self._lanes.road(cell.backend).device)
        return None if bandwidth is None else floor_ms(moved, bandwidth)

    def _bandwidth(self, device: str) -> float | None:
        """Bytes a second that a device reads or writes while copying; None where that could not be measured."""
        flag = f"copy_bytes_per_second_{device}"
        if flag not in self._environment.flags and device not in self._unmeasured:
            try:
                self._environment.flags[flag] = round(self._lanes.ask_alone(Command(do="bandwidth", path=device)))
            except LaneFailed:  # no memory for it, say: then there is no floor
                self._unmeasured.add(device)
        bandwidth: float | None = self._environment.flags.get(flag)
        return bandwidth

    def look(self, round_: Round, cell: Cell) -> None:
        """Trace, count and capture what was timed.

        On a card a lane is counted (and eager captured) at its first workload, and ends with it or with a trace:
        the profiler stays attached to CUDA, and a refused capture may spoil the process.
        """
        key = (cell.variant, cell.backend)
        few = cell.backend in TRACED and cell.verdict != "partial"
        traced = self._traces is None or (few and self._traced < self._traces)
        on_card = self._lanes.road(cell.backend).device == "cuda"
        counted = on_card and (round_.case.path, key) not in self._profiled
        if not (traced or counted):
            return
        if traced:
            self._trace(self._lanes[key], cell)
        if counted:
            self._profiled.add((round_.case.path, key))
            self._note(self._lanes[key], "count", cell)
            if cell.backend == "eager":
                self._note(self._lanes[key], "capture", cell)
        if on_card:
            self._lanes.end(key)

    def _trace(self, lane: Lane, cell: Cell) -> None:
        path = self._folder / "traces" / f"{name_of(cell)}.json.gz"
        try:
            lane.ask(Command(do="trace", path=str(path.resolve())))
            cell.facts["trace"] = str(path.relative_to(self._folder))
            self._traced += 1
        except LaneFailed as error:
            cell.facts["trace_error"] = str(error)

    def _note(self, lane: Lane, what: Literal["count", "capture"], cell: Cell) -> None:
        """Add what a worker finds out to the facts of its cell."""
        try:
            cell.facts.update(lane.ask(Command(do=what)))
        except LaneFailed as error:
            cell.facts |= {"cuda_graph": f"refused: {error}"} if what == "capture" else {f"{what}_error": str(error)}
