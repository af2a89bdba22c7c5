"""The study: takes every planned cell through its lane, then measures the faithful ones in rounds.

Round by round (one workload of one variant): eager first, since everything is judged against it; then all
other lanes, overlapping on idle cores; then the measuring rounds, with eager's variable form among them,
which overlap with nothing. The record is on disk after every cell.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec

from models.case import Variant
from runners.study import record as records
from runners.study.attempt import Outcome
from runners.study.clock import Block
from runners.study.closer import Closer
from runners.study.lane import Lane, events
from runners.study.lanes import LaneKey, Lanes, is_of_use, need_room, scrubbed
from runners.study.ledger import Ledger
from runners.study.plan import Round
from runners.study.record import FAITHFUL, Cell, CellKey, Environment, Reason, Record, StageOutcome
from runners.study.replay import write_script
from runners.study.rounds import measure
from runners.study.settings import Settings
from runners.study.worker import Command, Event

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
        self._lanes = Lanes(settings)
        self._closer = Closer(self._lanes, environment, folder, settings.traces)
        self._took: dict[str, float] = {}
        self.ledger = Ledger()

    def run(self, rounds: Sequence[Round]) -> None:
        """Run the plan to its end, or to the deadline; what was not reached is in `unreached`."""
        with self._lanes:
            began = time.monotonic()
            names = {name for round_ in rounds if self.todo(round_) for name in round_.backends}
            self._lanes.prepare(names, self.listener.making)
            self.ledger.theirs(time.monotonic() - began)
            for round_ in rounds:
                self._run_round(round_)

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
        self._lanes.turn_to(round_)
        if "eager" in todo:
            self._attempt(round_, ["eager"])
        else:
            self._load(round_, round_.variant)
        if round_.denominator not in (None, round_.variant):
            self._load(round_, round_.denominator)
        if self._judgeable(round_):
            self._attempt(round_, [name for name in todo if name != "eager"])
        self._measure(round_, todo)
        self._lanes.forget()

    def _load(self, round_: Round, variant: Variant | None) -> None:
        """Have eager of a variant ready to be timed; it was verified and recorded in its own round."""
        assert variant is not None
        lane = self._lanes.get(round_, variant, "eager")
        lane.start(Command(do="attempt", workload=round_.workload, verified=False))
        while True:
            for _, word in events([lane]):
                if isinstance(word, Event) and word.stage is not None:
                    continue
                outcome = word if isinstance(word, Outcome) else word.outcome
                if outcome is None or outcome.verdict not in FAITHFUL:
                    need_room(outcome, lane)
                    self._lanes.end((variant.name, "eager"))
                return

    def _attempt(self, round_: Round, names: Sequence[str]) -> None:
        """Take these backends through their stages, as many at a time as the settings and the inputs allow: first those
        that took longest last time, so that none works on alone at the end. Those for which the device's memory
        did not suffice beside others are tried again alone."""
        waiting = deque(sorted(names, key=lambda name: -self._took.get(name, math.inf)))
        at_work, began = dict[Lane, str](), dict[str, float]()
        starved: list[str] = []
        eager = self.cells.get(self._key(round_, "eager"))
        input_bytes = eager.facts.get("input_bytes", 0) if eager else 0
        parallel = max(1, min(self.settings.parallel, SIDE_BY_SIDE_BYTES // max(INPUTS_HELD * input_bytes, 1)))
        while waiting or at_work:
            while waiting and len(at_work) < parallel:
                name = waiting.popleft()
                if self._late():
                    self._miss(round_, [name])
                elif name in self._lanes.missing:
                    self._conclude(round_, name, self._lanes.missing[name])
                else:
                    began[name] = time.monotonic()
                    lane = self._lanes.get(round_, round_.variant, name)
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
                self._took[name] = time.monotonic() - began[name]
                self.ledger.attempt(outcome, self._took[name])
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
        need_room(outcome, lane)
        if isinstance(word, Outcome):
            self._lanes.end((round_.variant.name, name))
        outcome = scrubbed(outcome, lane.directory)
        if outcome.verdict == "unavailable":
            self._lanes.missing[name] = outcome
        return outcome

    def _miss(self, round_: Round, names: Sequence[str]) -> None:
        """Note what the deadline left out of what could have been tried, in the record too."""
        where = f"{round_.case.name}/{round_.variant.name} {round_.workload}"
        self.unreached += [f"{where}: {name}" for name in names if name not in self._lanes.missing]
        self.environment.flags["not_reached"] = self.unreached
        self._save()

    def _conclude(self, round_: Round, name: str, outcome: Outcome) -> None:
        """Record what an attempt came to; end a lane that is of no more use."""
        cell = self._cell(round_, name, outcome)
        if name != "eager" and not is_of_use(outcome):
            self._lanes.end((cell.variant, name))
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
        keys = [key for key in (*timed, denominator) if key and key in self._lanes]
        self.listener.measuring(round_, len(keys))
        rulers = {key: LaneRuler(self._lanes[key]) for key in keys}
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
        for cell in timed.values():
            if cell.timing is None:
                continue
            cell.timing.floor_ms = self._closer.floor(cell)
            if not self._late():
                self._closer.look(round_, cell)
        self._save()

    def _judgeable(self, round_: Round) -> bool:
        """Whether eager of this variant ran, so that others can be judged against it."""
        cell = self.cells.get(self._key(round_, "eager"))
        return cell is not None and cell.verdict in (*FAITHFUL, "wrong")

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
