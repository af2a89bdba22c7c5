"""The workers that a study keeps alive, and the environments that they run in."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from models.case import CATALOGUE, Variant
from runners.backends import BACKENDS
from runners.study.attempt import Outcome, Road, road
from runners.study.interpreters import NotMade, interpreter, is_made
from runners.study.lane import Lane, LaneFailed
from runners.study.plan import Round
from runners.study.record import FAITHFUL, Reason
from runners.study.settings import Settings
from runners.study.worker import Command, Job, inductor_cache

NO_ROOM = re.compile(r".*(?:No space left on device|Disk quota exceeded).*")

GRACE_SECONDS = 2.0
"""What is at work at the deadline may end by itself for so long; then it is ended."""

LaneKey = tuple[str, str]
"""(variant, backend): a lane of the case at hand."""


class NoRoom(Exception):
    """The disk that workers work on is full, so what they answer says nothing of a compiler."""


class Lanes:
    """The living workers, by (variant, backend) of the case at hand.

    A context: while it lasts its workers share a folder, with an Inductor cache that each starts with a copy of
    and the large inputs of a round; at its end they are ended. `missing` says which backends are known to be
    unavailable, and why.
    """

    def __init__(self, settings: Settings) -> None:
        deadline = None if settings.deadline is None else settings.deadline + GRACE_SECONDS
        self.missing: dict[str, Outcome] = {}
        self._settings = settings
        self._limits = msgspec.structs.replace(settings.limits, deadline=deadline)
        self._alive: dict[LaneKey, Lane] = {}
        self._case: str | None = None
        self._interpreters: dict[str, str] = {}
        self._shared: Path | None = None

    def __enter__(self) -> Lanes:
        self._shared = Path(tempfile.mkdtemp(prefix="gauntlet-study-"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for key in list(self._alive):
            self.end(key)
        if self._shared is not None:
            shutil.rmtree(self._shared, ignore_errors=True)

    def __contains__(self, key: LaneKey) -> bool:
        return key in self._alive

    def __getitem__(self, key: LaneKey) -> Lane:
        return self._alive[key]

    def prepare(self, names: Iterable[str], making: Callable[[str], None]) -> None:
        """Make environments, and let every engine do what it does once per machine, so that no cell pays for it.

        What Inductor then keeps (the processor's vector instructions, nothing of any case) is the cache that
        every lane starts with. `making(name)` is called before an environment is made.
        """
        names = sorted(names)
        for name in names:
            if name in BACKENDS and BACKENDS[name].requirements:
                self._make(name, BACKENDS[name].requirements, making)
        for runner in sorted({self.road(name).runner for name in names}):
            if hasattr(importlib.import_module(runner), "prepare"):
                with contextlib.suppress(LaneFailed):  # its cells will say what is wrong with it
                    self.ask_alone(Command(do="prepare", path=runner))

    def _make(self, name: str, requirements: Sequence[str], making: Callable[[str], None]) -> None:
        if not is_made(name, requirements):
            making(name)
        try:
            self._interpreters[name] = str(interpreter(name, requirements))
        except NotMade as error:
            outcome = Outcome(verdict="unavailable", reason=Reason("ENV.not_made", str(error)))
            self.missing[name] = scrubbed(outcome)

    def ask_alone(self, command: Command) -> Any:
        """What a worker of its own answers; what it left in its Inductor cache is kept."""
        lane = self._new(Job(case_path="", directory=""))
        try:
            answer = lane.ask(command)
            left, kept = inductor_cache(lane.directory), self._inductor_cache
            if command.do == "prepare" and kept is not None and left.exists():
                shutil.copytree(left, kept, dirs_exist_ok=True)
            return answer
        finally:
            lane.close()

    def road(self, name: str) -> Road:
        """The road of a backend on this machine."""
        return road(name, self._settings.options, self._settings.has_gpu)

    def get(self, round_: Round, variant: Variant, name: str) -> Lane:
        """The lane of a backend, made anew if there is none or it died."""
        key = (variant.name, name)
        if key in self._alive and self._alive[key].dead:
            self.end(key)
        if key not in self._alive:
            way = self.road(name)
            way.interpreter = self._interpreters.get(name)
            job = Job(
                case_path=str(Path(round_.case.path).resolve()),
                directory="",
                kept_inputs=None if self._shared is None else str(self._shared / "inputs"),
                variant=variant,
                road=way,
            )
            self._alive[key] = self._new(job)
        return self._alive[key]

    def _new(self, job: Job) -> Lane:
        try:
            return Lane(job, self._limits, self._inductor_cache)
        except OSError as error:
            raise NoRoom(f"a worker cannot be made: {error.strerror or error}") from error

    @property
    def _inductor_cache(self) -> Path | None:
        return None if self._shared is None else self._shared / "inductor"

    def end(self, key: LaneKey) -> None:
        """End a lane, if it lives."""
        if key in self._alive:
            self._alive.pop(key).close()

    def turn_to(self, round_: Round) -> None:
        """End lanes of other cases, and of other variants when there are many: each holds memory."""
        here = {variant.name for variant in (round_.variant, round_.denominator) if variant}
        crowded = len(self._alive) > self._settings.lanes
        for key in list(self._alive):
            if self._case != round_.case.path or (crowded and key[0] not in here):
                self.end(key)
        self._case = round_.case.path

    def forget(self) -> None:
        """Let all lanes drop what they hold of the workload at hand."""
        for lane in self._alive.values():
            with contextlib.suppress(LaneFailed):  # a lane that died is replaced when it is needed
                lane.ask(Command(do="forget"))
        if self._shared is not None:
            shutil.rmtree(self._shared / "inputs", ignore_errors=True)


def is_of_use(outcome: Outcome) -> bool:
    """Whether the lane of this attempt may take the next workload: importing its compiler anew costs seconds."""
    starved = outcome.reason is not None and outcome.reason.code.startswith("MEMORY.")
    return outcome.verdict in (*FAITHFUL, "built", "rejected") and not starved


def need_room(outcome: Outcome | None, lane: Lane) -> None:
    """Raise NoRoom where an attempt failed for want of room on the disk: by its words, or it died on a full one."""
    if outcome is None or outcome.reason is None:
        return
    said = NO_ROOM.search(outcome.reason.text)
    if said or (outcome.verdict == "crashed" and shutil.disk_usage(lane.directory.parent).free < 1 << 20):
        raise NoRoom(f"{lane.directory.parent} is full ({said.group().strip() if said else 'a worker died on it'})")


def scrubbed(outcome: Outcome, lane_directory: Path | None = None) -> Outcome:
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
