"""The study: takes every planned cell through its lane, then measures the faithful ones in rounds.

Round by round (one workload of one variant): eager first, since everything is judged against it; then all
other lanes, overlapping on idle cores; then the measuring rounds, with eager's variable form among them,
which overlap with nothing. The record is on disk after every cell.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from models.case import CATALOGUE, Variant
from runners.backends import BACKENDS
from runners.study import record as records
from runners.study.attempt import Outcome, road
from runners.study.clock import Block
from runners.study.device import floor_ms
from runners.study.interpreters import NotMade, interpreter, is_made
from runners.study.lane import Lane, LaneFailed, Limits, events
from runners.study.ledger import Ledger
from runners.study.plan import Round
from runners.study.record import FAITHFUL, Cell, CellKey, Environment, Reason, Record, StageOutcome
from runners.study.replay import name_of, write_script
from runners.study.rounds import Budget, measure
from runners.study.worker import Command, Event, Job, inductor_cache

NO_ROOM = re.compile(r".*(?:No space left on device|Disk quota exceeded).*")


class NoRoom(Exception):
    """The disk that workers work on is full, so what they answer says nothing of a compiler."""


LaneKey = tuple[str, str]
"""(variant, backend): a lane of the round at hand."""

GRACE_SECONDS = 2.0
"""What is at work at the deadline may end by itself for so long; then it is ended."""

TRACED = ("eager", "compile")
"""The backends whose whole cells are traced when only a few are."""

INPUTS_HELD = 5
"""How many times its inputs an attempt may hold, to compare what calls leave of them."""

SIDE_BY_SIDE_BYTES = 4 << 30
"""What the inputs of attempts side by side may take together."""


class Listener(Protocol):
    """Who is told how the study goes."""

    def making(self, name: str) -> None: ...

    def stage(self, cell: Cell, stage: str) -> None: ...

    def verdict(self, cell: Cell) -> None: ...

    def measuring(self, round_: Round, lanes: int) -> None: ...

    def sampled(self, cell: Cell, samples: int) -> None: ...


class Settings(msgspec.Struct, kw_only=True):
    """How a study is run, apart from what it tries: how many lanes build at a time and how many may live, what
    a worker may use, how long to measure, the options of backends, how many cells are traced (None: all that
    are timed), and when to stop (`time.monotonic`)."""

    has_gpu: bool
    parallel: int
    limits: Limits
    budget: Budget
    options: dict[str, Any]
    lanes: int = 16
    traces: int | None = 0
    deadline: float | None = None


class Study:
    """One run of a plan into the record of one environment.

    `folder` is the environment's own; what is finished among the `earlier` cells is not repeated.
    """

    def __init__(
        self, environment: Environment, folder: Path, settings: Settings, listener: Listener, earlier: Sequence[Cell]
    ) -> None:
        self.environment, self.folder, self.settings, self.listener = environment, folder, settings, listener
        self.cells: dict[CellKey, Cell] = {cell.key: cell for cell in earlier}
        self.unreached: list[str] = []
        self._lanes: dict[LaneKey, Lane] = {}
        self._case: str | None = None
        self._cache: Path | None = None
        self._kept_inputs: Path | None = None
        self._traced = 0
        self._profiled: set[tuple[str, LaneKey]] = set()
        deadline = None if settings.deadline is None else settings.deadline + GRACE_SECONDS
        self._limits = msgspec.structs.replace(settings.limits, deadline=deadline)
        self._interpreters: dict[str, str] = {}
        self._missing: dict[str, Outcome] = {}
        self._bandwidth: dict[str, float | None] = {}
        self.ledger = Ledger()

    def run(self, rounds: Sequence[Round]) -> None:
        """Run the plan to its end, or to the deadline; what was not reached is in `unreached`."""
        with tempfile.TemporaryDirectory(prefix="gauntlet-study-") as shared:
            self._cache, self._kept_inputs = Path(shared) / "inductor", Path(shared) / "inputs"
            try:
                self._prepare(rounds)
                for round_ in rounds:
                    self._run_round(round_)
            finally:
                self._close_lanes()

    def _prepare(self, rounds: Sequence[Round]) -> None:
        """Make environments, and let every engine do what it does once per machine, so that no cell pays for it.

        What Inductor then keeps (the processor's vector instructions, nothing of any case) is the cache that
        every lane starts with.
        """
        names = {name for round_ in rounds if self.todo(round_) for name in round_.backends}
        began = time.monotonic()
        for name in sorted(names):
            if name in BACKENDS and BACKENDS[name].requirements:
                self._make(name, BACKENDS[name].requirements)
        for runner in sorted({road(name, {}, self.settings.has_gpu).runner for name in names}):
            if hasattr(importlib.import_module(runner), "prepare"):
                with contextlib.suppress(LaneFailed):  # its cells will say what is wrong with it
                    self._ask_alone(Command(do="prepare", path=runner))
        self.ledger.theirs(time.monotonic() - began)

    def _make(self, name: str, requirements: Sequence[str]) -> None:
        if not is_made(name, requirements):
            self.listener.making(name)
        try:
            self._interpreters[name] = str(interpreter(name, requirements))
        except NotMade as error:
            outcome = Outcome(verdict="unavailable", reason=Reason("ENV.not_made", str(error)))
            self._missing[name] = _scrubbed(outcome)

    def _ask_alone(self, command: Command) -> Any:
        """What a worker of its own answers; what it left in its Inductor cache is kept."""
        lane = self._new_lane(Job(case_path="", directory=""))
        try:
            answer = lane.ask(command)
            left = inductor_cache(lane.directory)
            if command.do == "prepare" and self._cache and left.exists():
                shutil.copytree(left, self._cache, dirs_exist_ok=True)
            return answer
        finally:
            lane.close()

    def todo(self, round_: Round) -> list[str]:
        """The backends whose cells of this round are not finished."""
        return [name for name in round_.backends if not finished(self.cells.get(self._key(round_, name)))]

    def _run_round(self, round_: Round) -> None:
        todo = self.todo(round_)
        if not todo:
            return
        if self._late():
            self._miss(round_, todo)
            return
        self._make_room(round_)
        if "eager" in todo:
            self._attempt(round_, ["eager"])
        else:
            self._load(round_, round_.variant)
        if round_.denominator not in (None, round_.variant):
            self._load(round_, round_.denominator)
        if self._judgeable(round_):
            self._attempt(round_, [name for name in todo if name != "eager"])
        self._measure(round_, todo)
        for lane in self._lanes.values():
            with contextlib.suppress(LaneFailed):  # a lane that died is replaced when it is needed
                lane.ask(Command(do="forget"))
        if self._kept_inputs is not None:
            shutil.rmtree(self._kept_inputs, ignore_errors=True)

    def _make_room(self, round_: Round) -> None:
        """End lanes of other cases, and of other variants when there are many: each holds memory."""
        here = {variant.name for variant in (round_.variant, round_.denominator) if variant}
        crowded = len(self._lanes) > self.settings.lanes
        for key in list(self._lanes):
            if self._case != round_.case.path or (crowded and key[0] not in here):
                self._lanes.pop(key).close()
        self._case = round_.case.path

    def _load(self, round_: Round, variant: Variant | None) -> None:
        """Have eager of a variant ready to be timed; it was verified and recorded in its own round."""
        assert variant is not None
        lane = self._lane(round_, variant, "eager")
        lane.start(Command(do="attempt", workload=round_.workload, verified=False))
        while True:
            for _, word in events([lane]):
                if isinstance(word, Event) and word.stage is not None:
                    continue
                outcome = word if isinstance(word, Outcome) else word.outcome
                if outcome is None or outcome.verdict not in FAITHFUL:
                    _need_room(outcome, lane)
                    self._lanes.pop((variant.name, "eager")).close()
                return

    def _attempt(self, round_: Round, names: Sequence[str]) -> None:
        """Take these backends through their stages, as many at a time as the settings and the inputs allow. Those for
        which the device's memory did not suffice beside others are tried again alone."""
        waiting, at_work, began = deque(names), dict[Lane, str](), dict[str, float]()
        starved: list[str] = []
        eager = self.cells.get(self._key(round_, "eager"))
        input_bytes = eager.facts.get("input_bytes", 0) if eager else 0
        parallel = max(1, min(self.settings.parallel, SIDE_BY_SIDE_BYTES // max(INPUTS_HELD * input_bytes, 1)))
        while waiting or at_work:
            while waiting and len(at_work) < parallel:
                name = waiting.popleft()
                if self._late():
                    self._miss(round_, [name])
                elif name in self._missing:
                    self._conclude(round_, name, self._missing[name])
                else:
                    began[name] = time.monotonic()
                    lane = self._lane(round_, round_.variant, name)
                    lane.start(Command(do="attempt", workload=round_.workload))
                    at_work[lane] = name
            with self.ledger.side_by_side() if at_work else contextlib.nullcontext():
                heard = events(at_work)
            for lane, word in heard:
                if isinstance(word, Event) and word.stage is not None:
                    self.listener.stage(self._cell(round_, at_work[lane], None), word.stage)
                    continue
                name = at_work.pop(lane)
                outcome = self._outcome(round_, lane, word, name)
                self.ledger.attempt(outcome, time.monotonic() - began[name])
                if outcome.reason and outcome.reason.code == "MEMORY.device" and len(names) > 1:
                    starved.append(name)
                elif outcome.verdict == "timeout" and self._late():  # cut off, which says nothing of it
                    self._miss(round_, [name])
                else:
                    self._conclude(round_, name, outcome)
        for name in starved:
            self._attempt(round_, [name])

    def _outcome(self, round_: Round, lane: Lane, word: Event | Outcome, name: str) -> Outcome:
        """What a lane's last word on an attempt comes to."""
        outcome = word if isinstance(word, Outcome) else word.outcome
        if outcome is None:
            assert isinstance(word, Event)
            outcome = Outcome(verdict="rejected", stage="run", reason=Reason("UNCLASSIFIED", word.error or ""))
        _need_room(outcome, lane)
        if isinstance(word, Outcome):
            self._lanes.pop((round_.variant.name, name)).close()
        outcome = _scrubbed(outcome, lane.directory)
        if outcome.verdict == "unavailable":
            self._missing[name] = outcome
        return outcome

    def _miss(self, round_: Round, names: Sequence[str]) -> None:
        """Note what the deadline left out of what could have been tried, in the record too."""
        where = f"{round_.case.name}/{round_.variant.name} {round_.workload}"
        self.unreached += [f"{where}: {name}" for name in names if name not in self._missing]
        self.environment.flags["not_reached"] = self.unreached
        self._save()

    def _conclude(self, round_: Round, name: str, outcome: Outcome) -> None:
        """Record what an attempt came to; end a lane that is of no more use."""
        cell = self._cell(round_, name, outcome)
        key = (round_.variant.name, name)
        if name != "eager" and key in self._lanes and not _is_of_use(outcome):
            self._lanes.pop(key).close()
        cell.repro = write_script(self.folder, round_.case, cell, self.settings.options)
        self.cells[cell.key] = cell
        self._save()
        self.listener.verdict(cell)

    def _measure(self, round_: Round, todo: Sequence[str]) -> None:
        """Time this round's faithful cells, and eager of both forms beside them."""
        cells = {name: self.cells.get(self._key(round_, name)) for name in round_.backends}
        timed: dict[LaneKey, Cell] = {
            (round_.variant.name, name): cell
            for name, cell in cells.items()
            if cell and name in todo and (cell.verdict in FAITHFUL or (name == "eager" and cell.verdict == "wrong"))
        }
        if not timed:
            return
        denominator = (round_.denominator.name, "eager") if round_.denominator else None
        keys = [key for key in (*timed, denominator) if key in self._lanes]
        self.listener.measuring(round_, len(keys))
        rulers = {key: LaneRuler(self._lanes[key]) for key in keys if key}
        outcomes = measure(
            rulers,
            denominator,
            replace(self.settings.budget, deadline=self.settings.deadline),
            lambda key, count: self.listener.sampled(timed[key], count) if key in timed else None,
        )
        self.ledger.theirs(sum(ruler.seconds for ruler in rulers.values()))
        for key, cell in timed.items():
            outcome = outcomes.get(key)
            if outcome is not None and outcome.timing is not None:
                cell.timing = outcome.timing
                seconds = sum(cell.timing.samples_ms) * cell.timing.more.get("calls_per_block", 1) / 1e3
                cell.stages = {**cell.stages, "time": StageOutcome("ok", round(seconds, 6))}
            elif outcome is not None and outcome.error is not None and not self._late():
                cell.facts["time_error"] = str(outcome.error)
                cell.stages = {**cell.stages, "time": StageOutcome("failed")}
            else:
                self._miss(round_, [f"{key[1]} (its time)"])
        self._save()
        for key, cell in timed.items():
            if cell.timing is None:
                continue
            cell.timing.floor_ms = self._floor(cell)
            self._look_closer(round_, key, cell)
        self._save()

    def _look_closer(self, round_: Round, key: LaneKey, cell: Cell) -> None:
        """Trace, count and capture what was timed.

        On a card a lane is counted (and eager captured) at its first workload, and ends with it or with a trace:
        the profiler stays attached to CUDA, and a refused capture may spoil the process.
        """
        few, traces = key[1] in TRACED and cell.verdict != "partial", self.settings.traces
        traced = traces is None or (few and self._traced < traces)
        on_card = road(cell.backend, {}, self.settings.has_gpu).device == "cuda"
        counted = on_card and (round_.case.path, key) not in self._profiled
        if self._late() or not (traced or counted):
            return
        if traced:
            self._trace(self._lanes[key], cell)
        if counted:
            self._profiled.add((round_.case.path, key))
            self._note(self._lanes[key], "count", cell)
            if key[1] == "eager":
                self._note(self._lanes[key], "capture", cell)
        if on_card:
            self._lanes.pop(key).close()

    def _trace(self, lane: Lane, cell: Cell) -> None:
        path = self.folder / "traces" / f"{name_of(cell)}.json.gz"
        try:
            lane.ask(Command(do="trace", path=str(path.resolve())))
            cell.facts["trace"] = str(path.relative_to(self.folder))
            self._traced += 1
        except LaneFailed as error:
            cell.facts["trace_error"] = str(error)

    def _note(self, lane: Lane, what: Literal["count", "capture"], cell: Cell) -> None:
        """Add what a worker finds out to the facts of its cell."""
        try:
            cell.facts.update(lane.ask(Command(do=what)))
        except LaneFailed as error:
            cell.facts |= {"cuda_graph": f"refused: {error}"} if what == "capture" else {f"{what}_error": str(error)}

    def _floor(self, cell: Cell) -> float | None:
        moved = cell.facts.get("floor_bytes")
        if moved is None:
            return None
        device = road(cell.backend, {}, self.settings.has_gpu).device
        if device not in self._bandwidth:
            try:
                self._bandwidth[device] = float(self._ask_alone(Command(do="bandwidth", path=device)))
            except LaneFailed:  # no memory for it, say: then there is no floor
                self._bandwidth[device] = None
            else:
                self.environment.flags[f"copy_bytes_per_second_{device}"] = round(self._bandwidth[device] or 0)
        bandwidth = self._bandwidth[device]
        return None if bandwidth is None else floor_ms(moved, bandwidth)

    def _judgeable(self, round_: Round) -> bool:
        """Whether eager of this variant ran, so that others can be judged against it."""
        cell = self.cells.get(self._key(round_, "eager"))
        return cell is not None and cell.verdict in (*FAITHFUL, "wrong")

    def _lane(self, round_: Round, variant: Variant, name: str) -> Lane:
        key = (variant.name, name)
        if key in self._lanes and self._lanes[key].dead:
            self._lanes.pop(key).close()
        if key not in self._lanes:
            way = road(name, self.settings.options, self.settings.has_gpu)
            way.interpreter = self._interpreters.get(name)
            job = Job(
                case_path=str(Path(round_.case.path).resolve()),
                directory="",
                kept_inputs=str(self._kept_inputs),
                variant=variant,
                road=way,
            )
            self._lanes[key] = self._new_lane(job)
        return self._lanes[key]

    def _new_lane(self, job: Job) -> Lane:
        try:
            return Lane(job, self._limits, self._cache)
        except OSError as error:
            raise NoRoom(f"a worker cannot be made: {error.strerror or error}") from error

    def _cell(self, round_: Round, name: str, outcome: Outcome | None) -> Cell:
        outcome = outcome or Outcome(verdict="unavailable")
        return Cell(
            case=round_.case.name,
            variant=round_.variant.name,
            kind=round_.variant.kind,
            backend=name,
            environment=self.environment.id,
            workload=round_.workload,
            verdict=outcome.verdict,
            stage=outcome.stage,
            reason=outcome.reason,
            stages=outcome.stages,
            facts=dict(outcome.facts),
        )

    def _key(self, round_: Round, name: str) -> CellKey:
        return (round_.case.name, round_.variant.name, name, self.environment.id, round_.workload)

    def _save(self) -> None:
        records.write(
            Record(environments=[self.environment], cells=list(self.cells.values())), self.folder / "compat.json"
        )

    def _late(self) -> bool:
        return self.settings.deadline is not None and time.monotonic() > self.settings.deadline

    def _close_lanes(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()


class LaneRuler:
    """A lane as the measuring rounds see it. `seconds` adds up what passed inside the callable or asleep."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.method = ""
        self.seconds = 0.0

    def estimate(self) -> float:
        answer = self._lane.ask(Command(do="estimate"))
        self.method = answer["method"]
        self.seconds += answer["seconds"]
        return float(answer["ms"])

    def block(self, calls: int) -> Block:
        answer = self._lane.ask(Command(do="block", calls=calls))
        self.seconds += answer["seconds"]
        return msgspec.convert(answer["block"], Block)


def finished(cell: Cell | None) -> bool:
    """Whether nothing is left to do for a cell: it was refused, or it was timed as far as it could be. Eager is
    timed where it is `wrong` too, for others are faithful to it."""
    if cell is None:
        return False
    time_stage = cell.stages.get("time")
    is_timed = cell.verdict in FAITHFUL or (cell.backend == "eager" and cell.verdict == "wrong")
    return not is_timed or (time_stage is not None and time_stage.status != "not_reached")


def _is_of_use(outcome: Outcome) -> bool:
    """Whether the lane of this attempt may take the next workload: importing its compiler anew costs seconds."""
    starved = outcome.reason is not None and outcome.reason.code.startswith("MEMORY.")
    return outcome.verdict in (*FAITHFUL, "built", "rejected") and not starved


def _need_room(outcome: Outcome | None, lane: Lane) -> None:
    """Raise NoRoom where an attempt failed for want of room on the disk: by its words, or it died on a full one."""
    if outcome is None or outcome.reason is None:
        return
    said = NO_ROOM.search(outcome.reason.text)
    if said or (outcome.verdict == "crashed" and shutil.disk_usage(lane.directory.parent).free < 1 << 20):
        raise NoRoom(f"{lane.directory.parent} is full ({said.group().strip() if said else 'a worker died on it'})")


def _scrubbed(outcome: Outcome, lane_directory: Path | None = None) -> Outcome:
    """The outcome with this machine's folders named by their meaning, so that records can be compared."""
    content = msgspec.json.encode(outcome).decode()
    for path, meaning in (
        (str(lane_directory or ""), "<lane>"),
        (sysconfig.get_path("purelib"), "<site-packages>"),
        (str(CATALOGUE.parent), "."),
        (os.environ.get("HOME", ""), "~"),
    ):
        if len(path) > 1:
            content = content.replace(path, meaning)
    return msgspec.json.decode(content, type=Outcome)
