"""The parent's side of a lane: one worker process, the stage it is in, and the limits it is held to.

Workers are forked from a clean server process that has imported torch and initialised nothing, so a lane
starts in milliseconds and no compiler of one lane is ever seen by another. The parent sleeps on the pipes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from multiprocessing import connection as pipes
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import psutil

from runners.study import worker
from runners.study.attempt import Outcome, stage_outcomes
from runners.study.interpreters import command
from runners.study.record import STAGES, Reason
from runners.study.worker import Command, Event, Job

TERMINATE_SECONDS = 2.0
MEMORY_POLL_SECONDS = 0.25

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["runners.study.preload"])

LIMIT_SECONDS = 180.0
"""Of a stage, and of whatever else a worker is asked for."""

RUN_SECONDS = 60.0
"""Of loading an artifact and a single call."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker may use: seconds in one stage, or at what else it is "asked"; bytes of memory with its children;
    and when it is ended whatever it does (`time.monotonic`)."""

    seconds: dict[str, float] = msgspec.field(
        default_factory=lambda: {**dict.fromkeys(STAGES, LIMIT_SECONDS), "run": RUN_SECONDS}
    )
    memory_bytes: int = 8 << 30
    deadline: float | None = None


class LaneFailed(Exception):
    """A command to a worker came back as an error, or not at all."""


class Lane:
    """A worker at work on one job."""

    def __init__(self, job: Job, limits: Limits, cache: Path | None = None) -> None:
        """`cache` is an Inductor cache that the lane starts with a copy of."""
        self.limits = limits
        self.stage: str | None = None
        self.seconds: dict[str, float] = {}
        self.dead = False
        self._since = time.monotonic()
        self._polled = 0.0
        try:
            with _interrupt_held_back():
                self.directory = Path(tempfile.mkdtemp(prefix="gauntlet-lane-"))
                self._start_with(cache)
                self.connection, remote = multiprocessing.Pipe()
                self.process = _start(remote, job.road.interpreter if job.road else None)
                remote.close()
        except KeyboardInterrupt:
            self.close()
            raise
        self._say(msgspec.json.encode(msgspec.structs.replace(job, directory=str(self.directory))))

    def _start_with(self, cache: Path | None) -> None:
        if cache is None or not cache.exists():
            return
        try:
            shutil.copytree(cache, worker.inductor_cache(self.directory))
        except OSError as error:  # shutil's own has no words, but a list of what each file met
            shutil.rmtree(self.directory, ignore_errors=True)
            raise OSError(error.errno, error.strerror or error.args[0][-1][-1]) from error

    def start(self, command: Command) -> None:
        """Send a command; its answer comes through `events`."""
        self.stage, self.seconds = None, {}
        self._since = time.monotonic()
        self._say(msgspec.json.encode(command))

    def ask(self, command: Command) -> Any:
        """Send a command and wait for its value; raises LaneFailed with the worker's words."""
        self.start(command)
        while True:
            for _, event in events([self]):
                if isinstance(event, Outcome):
                    raise LaneFailed(event.reason.text if event.reason else event.verdict)
                if event.error is not None:
                    raise LaneFailed(event.error)
                if event.stage is None:
                    return event.value

    def close(self) -> None:
        """End the worker and all it started, and remove its folder."""
        self.connection.close()
        self._kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def said(self) -> str:
        """The end of what the worker and its compilers printed."""
        with contextlib.suppress(OSError):
            return (self.directory / "output.txt").read_text(errors="replace")[-4000:].strip()
        return ""

    def _say(self, message: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is seen in events()
            self.connection.send_bytes(message)

    def _hear(self) -> Event | Outcome:
        """The next word of the worker; an Outcome of our own when it died."""
        try:
            event = msgspec.json.decode(self.connection.recv_bytes(), type=Event)
        except (EOFError, OSError):  # it may die in the middle of a message
            return self._died()
        if event.stage is not None:
            self._enter(event.stage)
        return event

    def _enter(self, stage: str | None) -> None:
        now = time.monotonic()
        if self.stage is not None:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self._since
        self.stage, self._since = stage, now

    def _overdue(self) -> Outcome | None:
        """The verdict on a worker that outlived a limit; the worker is ended."""
        if self.limits.deadline is not None and time.monotonic() > self.limits.deadline:
            return self._ended("timeout", Reason("TIME.limit", "the study's time was up"))
        limit = self.limits.seconds.get(self.stage or "asked", LIMIT_SECONDS)
        if time.monotonic() - self._since > limit:
            text = f"stage {self.stage or 'run'} outlived its limit of {limit:g} s"
            return self._ended("timeout", Reason("TIME.limit", _with(text, self.said())))
        if time.monotonic() - self._polled > MEMORY_POLL_SECONDS:
            self._polled = time.monotonic()
            used = _memory(self.process.pid)
            if used > self.limits.memory_bytes:
                text = f"used {used >> 20} MiB; its limit is {self.limits.memory_bytes >> 20} MiB"
                return self._ended("crashed", Reason("MEMORY.host", text))
        return None

    def _died(self) -> Outcome:
        self.process.join(TERMINATE_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in iter(signal.Signals) else f"signal {-code}"
            reason = Reason(
                "CRASH.sigsegv" if -code == signal.SIGSEGV else "CRASH.signal",
                _with(f"the worker died of {name}", self.said()),
            )
        else:
            reason = Reason("CRASH.exit", _with(f"the worker left with exit code {code}", self.said()))
        return self._ended("crashed", reason)

    def _ended(self, verdict: Any, reason: Reason) -> Outcome:
        stage: Any = self.stage or "run"
        self.dead = True
        self._enter(None)
        self._kill()
        return Outcome(verdict=verdict, stage=stage, reason=reason, stages=stage_outcomes(self.seconds, stage))

    def _kill(self) -> None:
        if self.process.pid is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            self.process.join(TERMINATE_SECONDS)
            if self.process.exitcode is not None and number == signal.SIGTERM:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)  # what it started and did not end
                break


def events(lanes: Iterable[Lane], patience: float = 0.5) -> list[tuple[Lane, Event | Outcome]]:
    """Sleep until a worker speaks, dies or outlives a limit, or `patience` seconds have passed."""
    by_pipe = {lane.connection: lane for lane in lanes}
    heard: list[tuple[Lane, Event | Outcome]] = []
    ready = pipes.wait(list(by_pipe), min(patience, MEMORY_POLL_SECONDS))
    for pipe in ready:
        assert isinstance(pipe, Connection)
        heard.append((by_pipe[pipe], by_pipe[pipe]._hear()))
    for lane in by_pipe.values():
        if lane.connection not in ready and (outcome := lane._overdue()) is not None:
            heard.append((lane, outcome))
    return heard


class _Foreign:
    """A worker under another interpreter, with the face of a multiprocessing process."""

    def __init__(self, interpreter: str, remote: Connection) -> None:
        code = (
            "from multiprocessing.connection import Connection; from runners.study import worker; "
            f"worker.main(Connection({remote.fileno()}))"
        )
        self._process = subprocess.Popen(command(interpreter, code), pass_fds=[remote.fileno()], start_new_session=True)
        self.pid = self._process.pid

    def join(self, timeout: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()


@contextlib.contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Let Ctrl-C wait: a worker whose start is cut in two prints a traceback and belongs to nobody."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


def _start(remote: Connection, interpreter: str | None) -> Any:
    if interpreter:
        return _Foreign(interpreter, remote)
    process = _server.Process(target=worker.main, args=(remote,), daemon=True)
    process.start()
    return process


def _memory(pid: int | None) -> int:
    """Resident bytes of a worker and its children, shared pages of the fork counted in."""
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def _with(text: str, said: str) -> str:
    return f"{text}; it had printed:\n{said}" if said else text
