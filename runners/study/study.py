"""The study: takes every planned cell through its lane, then measures the faithful ones in rounds.

Round by round (one workload of one case): eager's variants first, since everything is judged against
them; then all other lanes, overlapping on idle cores; then the measuring rounds, which overlap with
nothing. The record is on disk after every cell.
"""

from __future__ import annotations

import contextlib
import importlib
import sysconfig
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from models.case import CATALOGUE, Variant
from runners.backends import BACKENDS
from runners.study import record as records
from runners.study.clock import Block
from runners.study.device import floor_ms
from runners.study.interpreters import NotMade, interpreter
from runners.study.lane import Lane, LaneFailed, Limits, events
from runners.study.plan import Round
from runners.study.record import FAITHFUL, Cell, CellKey, Environment, Reason, Record, StageOutcome
from runners.study.replay import name_of, write_script
from runners.study.rounds import Budget, measure
from runners.study.worker import Command, Event, Job, Outcome, road

LaneKey = tuple[str, str]
"""(variant, backend): a lane of the round at hand."""


class Listener(Protocol):
    """Who is told how the study goes."""

    def stage(self, cell: Cell, stage: str) -> None: ...

    def verdict(self, cell: Cell) -> None: ...

    def measuring(self, round_: Round, lanes: int) -> None: ...

    def sampled(self, cell: Cell, samples: int) -> None: ...


class Settings(msgspec.Struct, kw_only=True):
    """How a study is run, apart from what it tries: how many lanes build at a time, what a worker may use, how
    long to measure, the options of backends, how many cells are traced (None: all that are timed), and when to
    stop (`time.monotonic`)."""

    has_gpu: bool
    parallel: int
    limits: Limits
    budget: Budget
    options: dict[str, Any]
    traces: int | None = 0
    deadline: float | None = None


class Study:
    """One run of a plan into the record of one environment.

    `folder` is the environment's own; `finished` are the cells of an earlier run that are not repeated.
    """

    def __init__(
        self, environment: Environment, folder: Path, settings: Settings, listener: Listener, earlier: Sequence[Cell]
    ) -> None:
        self.environment, self.folder, self.settings, self.listener = environment, folder, settings, listener
        self.cells: dict[CellKey, Cell] = {cell.key: cell for cell in earlier}
        self.unreached: list[str] = []
        self._lanes: dict[LaneKey, Lane] = {}
        self._traced = 0
        self._interpreters: dict[str, str] = {}
        self._missing: dict[str, Outcome] = {}
        self._bandwidth: dict[str, float] = {}
        self._began = time.monotonic()
        self._busy = 0.0

    @property
    def overhead(self) -> float:
        """The share of the wall time in which no worker was at work for us."""
        return 1 - self._busy / max(time.monotonic() - self._began, 1e-9)

    def run(self, rounds: Sequence[Round]) -> None:
        """Run the plan to its end, or to the deadline; what was not reached is in `unreached`."""
        try:
            self._prepare(rounds)
            for index, round_ in enumerate(rounds):
                if index and rounds[index - 1].case.path != round_.case.path:
                    self._close_lanes()
                self._run_round(round_)
        finally:
            self._close_lanes()

    def _prepare(self, rounds: Sequence[Round]) -> None:
        """Make environments, and let every engine do what it does once per machine, so that no cell pays for it."""
        names = {name for round_ in rounds if self._todo(round_) for name in round_.backends}
        for name in names:
            if name in BACKENDS and BACKENDS[name].requirements:
                try:
                    self._interpreters[name] = str(interpreter(name, BACKENDS[name].requirements))
                except NotMade as error:
                    self._missing[name] = Outcome(verdict="unavailable", reason=Reason("ENV.not_made", str(error)))
        runners = {road(name, {}, self.settings.has_gpu).runner for name in names}
        with self._working(True):
            for runner in sorted(runners):
                if hasattr(importlib.import_module(runner), "prepare"):
                    with contextlib.suppress(LaneFailed):  # its cells will say what is wrong with it
                        self._ask_alone(Command(do="prepare", path=runner))

    def _ask_alone(self, command: Command) -> Any:
        """What a worker of its own answers."""
        lane = Lane(Job(case_path="", directory=""), self.settings.limits)
        try:
            return lane.ask(command)
        finally:
            lane.close()

    def _todo(self, round_: Round) -> list[tuple[Variant, str]]:
        return [
            (variant, name)
            for variant in round_.variants
            for name in round_.backends
            if not finished(self.cells.get(self._key(round_, variant, name)))
        ]

    def _run_round(self, round_: Round) -> None:
        todo = self._todo(round_)
        if not todo:
            return
        if self._late():
            self._miss(round_, todo)
            return
        eager = [(variant, "eager") for variant in round_.variants]
        self._attempt(round_, [task for task in eager if task in todo or self._is_denominator(task[0])])
        self._attempt(
            round_,
            [(v, name) for v, name in todo if name != "eager" and self._judgeable(round_, v)],
        )
        self._measure(round_, {self._key(round_, *task) for task in todo})
        self._forget_workload()

    def _attempt(self, round_: Round, tasks: list[tuple[Variant, str]]) -> None:
        """Take these lanes through their stages, as many at a time as the settings say."""
        waiting, at_work = deque(tasks), dict[Lane, tuple[Variant, str]]()
        while waiting or at_work:
            while waiting and len(at_work) < self.settings.parallel:
                variant, name = waiting.popleft()
                if self._late():
                    self._miss(round_, [(variant, name)])
                    continue
                if name in self._missing:
                    self._conclude(round_, variant, name, self._missing[name])
                    continue
                lane = self._lane(round_, variant, name)
                lane.start(Command(do="attempt", workload=round_.workload))
                at_work[lane] = (variant, name)
            with self._working(bool(at_work)):
                heard = events(at_work)
            for lane, word in heard:
                self._hear(round_, lane, word, at_work)

    def _hear(self, round_: Round, lane: Lane, word: Event | Outcome, at_work: dict[Lane, tuple[Variant, str]]) -> None:
        variant, name = at_work[lane]
        if isinstance(word, Event) and word.stage is not None:
            self.listener.stage(self._cell(round_, variant, name, None), word.stage)
            return
        if isinstance(word, Outcome):
            outcome = word
            self._lanes.pop((variant.name, name)).close()
        elif word.outcome is not None:
            outcome = word.outcome
        else:
            outcome = Outcome(verdict="rejected", stage="run", reason=Reason("UNCLASSIFIED", word.error or ""))
        del at_work[lane]
        if outcome.verdict == "unavailable":
            self._missing[name] = outcome
        self._conclude(round_, variant, name, _scrubbed(outcome, lane.directory))

    def _miss(self, round_: Round, tasks: Sequence[tuple[Variant, str]]) -> None:
        """Note what the deadline left out, in the record too."""
        self.unreached += [f"{round_.case.name}/{v.name} {name} {round_.workload}" for v, name in tasks]
        self.environment.flags["not_reached"] = self.unreached
        self._save()

    def _conclude(self, round_: Round, variant: Variant, name: str, outcome: Outcome) -> None:
        """Record what an attempt came to; end the lane of a cell that will not be measured."""
        cell = self._cell(round_, variant, name, outcome)
        if outcome.verdict not in FAITHFUL and (lane := self._lanes.pop((variant.name, name), None)):
            lane.close()
        if not finished(self.cells.get(cell.key)):
            cell.repro = write_script(self.folder, round_.case, cell, self.settings.options)
            self.cells[cell.key] = cell
            self._save()
            self.listener.verdict(cell)

    def _measure(self, round_: Round, todo: set[CellKey]) -> None:
        """Time the faithful cells of this workload in rounds, and the variable form's eager beside them."""
        lanes = {
            (variant.name, name): lane
            for variant in round_.variants
            for name in round_.backends
            if (lane := self._lanes.get((variant.name, name)))
            and (self._key(round_, variant, name) in todo or (name == "eager" and self._is_denominator(variant)))
        }
        cells = {key: self.cells[self._key_of(round_, *key)] for key in lanes}
        timed = {key: cell for key, cell in cells.items() if cell.verdict in FAITHFUL or key[1] == "eager"}
        if not timed:
            return
        self.listener.measuring(round_, len(timed))
        began = time.monotonic()
        with self._working(True):
            rulers = {key: LaneRuler(lanes[key]) for key in timed}
            denominator = self._denominator(round_, timed)
            budget = replace(self.settings.budget, deadline=self.settings.deadline)
            outcomes = measure(rulers, denominator, budget, lambda key, count: self.listener.sampled(timed[key], count))
        for key, outcome in outcomes.items():
            cell = timed[key]
            if outcome.timing is not None and cell.timing is None:
                cell.timing = outcome.timing
                cell.timing.floor_ms = self._floor(cell)
                seconds = sum(cell.timing.samples_ms) / 1e3
                cell.stages = {**cell.stages, "time": StageOutcome("ok", round(seconds, 6))}
            elif cell.timing is None:
                cell.facts["time_error"] = str(outcome.error or "the deadline came before its first block")
                cell.stages = {**cell.stages, "time": StageOutcome("failed", time.monotonic() - began)}
        for key, cell in timed.items():
            if cell.timing is not None and (self.settings.traces is None or self._traced < self.settings.traces):
                self._trace(lanes[key], cell)
            if key[1] == "eager" and self.settings.has_gpu:
                self._capture(key, cell)
        self._save()

    def _trace(self, lane: Lane, cell: Cell) -> None:
        path = self.folder / "traces" / f"{name_of(cell)}.json.gz"
        try:
            lane.ask(Command(do="trace", path=str(path.resolve())))
            cell.facts["trace"] = str(path.relative_to(self.folder))
            self._traced += 1
        except LaneFailed as error:
            cell.facts["trace_error"] = str(error)

    def _capture(self, key: LaneKey, cell: Cell) -> None:
        """Try a CUDA graph; a refused capture may spoil the process, so the lane ends with it."""
        lane = self._lanes.pop(key)
        try:
            cell.facts.update(lane.ask(Command(do="capture")))
        except LaneFailed as error:
            cell.facts["cuda_graph"] = f"refused: {error}"
        finally:
            lane.close()

    def _floor(self, cell: Cell) -> float | None:
        moved = cell.facts.get("floor_bytes")
        if moved is None:
            return None
        device = road(cell.backend, {}, self.settings.has_gpu).device
        if device not in self._bandwidth:
            self._bandwidth[device] = float(self._ask_alone(Command(do="bandwidth", path=device)))
            self.environment.flags[f"copy_bytes_per_second_{device}"] = round(self._bandwidth[device])
        return floor_ms(moved, self._bandwidth[device])

    def _denominator(self, round_: Round, timed: Mapping[LaneKey, Cell]) -> LaneKey | None:
        """Eager's variable form, or in a case without one nothing."""
        keys = [(v.name, "eager") for v in round_.variants if self._is_denominator(v)]
        return next((key for key in keys if key in timed), None)

    def _is_denominator(self, variant: Variant) -> bool:
        return variant.kind == "variable"

    def _judgeable(self, round_: Round, variant: Variant) -> bool:
        """Whether eager of this variant ran, so that others can be judged against it."""
        cell = self.cells.get(self._key(round_, variant, "eager"))
        return cell is not None and cell.verdict in (*FAITHFUL, "wrong")

    def _lane(self, round_: Round, variant: Variant, name: str) -> Lane:
        key = (variant.name, name)
        if key not in self._lanes:
            way = road(name, self.settings.options, self.settings.has_gpu)
            way.interpreter = self._interpreters.get(name)
            job = Job(case_path=str(Path(round_.case.path).resolve()), directory="", variant=variant, road=way)
            self._lanes[key] = Lane(job, self.settings.limits)
        return self._lanes[key]

    def _cell(self, round_: Round, variant: Variant, name: str, outcome: Outcome | None) -> Cell:
        outcome = outcome or Outcome(verdict="unavailable")
        return Cell(
            case=round_.case.name,
            variant=variant.name,
            kind=variant.kind,
            backend=name,
            environment=self.environment.id,
            workload=round_.workload,
            verdict=outcome.verdict,
            stage=outcome.stage,
            reason=outcome.reason,
            stages=outcome.stages,
            facts=dict(outcome.facts),
        )

    def _key(self, round_: Round, variant: Variant, name: str) -> CellKey:
        return self._key_of(round_, variant.name, name)

    def _key_of(self, round_: Round, variant: str, name: str) -> CellKey:
        return (round_.case.name, variant, name, self.environment.id, round_.workload)

    def _save(self) -> None:
        records.write(
            Record(environments=[self.environment], cells=list(self.cells.values())), self.folder / "compat.json"
        )

    def _late(self) -> bool:
        return self.settings.deadline is not None and time.monotonic() > self.settings.deadline

    def _forget_workload(self) -> None:
        for lane in self._lanes.values():
            lane.ask(Command(do="forget"))

    def _close_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    @contextmanager
    def _working(self, anyone: bool) -> Iterator[None]:
        began = time.monotonic()
        yield
        if anyone:
            self._busy += time.monotonic() - began


class LaneRuler:
    """A lane as the measuring rounds see it."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.method = ""

    def estimate(self) -> float:
        answer = self._lane.ask(Command(do="estimate"))
        self.method = answer["method"]
        return float(answer["ms"])

    def block(self, calls: int) -> Block:
        return msgspec.convert(self._lane.ask(Command(do="block", calls=calls)), Block)


def finished(cell: Cell | None) -> bool:
    """Whether nothing is left to do for a cell: it was refused, or it was timed as far as it could be."""
    if cell is None:
        return False
    time_stage = cell.stages.get("time")
    return cell.verdict not in FAITHFUL or (time_stage is not None and time_stage.status != "not_reached")


def _scrubbed(outcome: Outcome, lane_directory: Path) -> Outcome:
    """The outcome with this machine's folders named by their meaning, so that records can be compared."""
    content = msgspec.json.encode(outcome).decode()
    for path, meaning in (
        (str(lane_directory), "<lane>"),
        (sysconfig.get_path("purelib"), "<site-packages>"),
        (str(CATALOGUE.parent), "."),
        (str(Path.home()), "~"),
    ):
        content = content.replace(path, meaning)
    return msgspec.json.decode(content, type=Outcome)
