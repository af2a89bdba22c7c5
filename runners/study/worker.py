"""The worker's side of a lane: takes one (case, variant, backend) through the workloads it is sent.

The parent speaks first and in JSON. It sends a `Job`, then commands; the worker tells every stage as it
enters it and answers each command with one event. A worker whose parent is gone ends at its next word.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import msgspec

from models.case import BrokenCase, Case, CaseModule, Variant, Workload, load
from runners.runner import Loaded
from runners.study import audit
from runners.study.attempt import Attempt, Outcome, Road
from runners.study.device import copy_bandwidth
from runners.study.record import FAITHFUL


class Job(msgspec.Struct, kw_only=True):
    """What a worker is for: a case file alone (to describe it), or a variant of it and a road. `directory` is its
    own, `kept_inputs` the folder of large inputs that all workers share."""

    case_path: str
    directory: str
    kept_inputs: str | None = None
    variant: Variant | None = None
    road: Road | None = None


class Command(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the parent asks.

    Of a case: to `describe` it, `attempt` a workload (not `verified` where that was done before), `estimate` it
    or run a `block` of timed calls, write a `trace` of it to `path`, `count` what one call does on CUDA, `capture` it
    in a CUDA graph, `forget` it.
    Of the machine: which `device` torch sees, the copy `bandwidth` of the device in `path`; and to `prepare` the
    runner in `path`.
    """

    do: Literal[
        "describe",
        "attempt",
        "estimate",
        "block",
        "trace",
        "count",
        "capture",
        "forget",
        "device",
        "bandwidth",
        "prepare",
    ]
    workload: Workload | None = None
    verified: bool = True
    calls: int = 1
    path: str = ""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One word of the worker: a stage entered, or the answer to a command. `error` is set when a command
    failed; `value` is what the command asked for, of `estimate` and `block` with the seconds that it took."""

    stage: str | None = None
    outcome: Outcome | None = None
    value: Any = None
    error: str | None = None


def main(connection: Connection) -> None:
    """Serve the parent at the other end of `connection` until it hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        job = msgspec.json.decode(connection.recv_bytes(), type=Job)
        _settle(Path(job.directory))
        worker = Worker(job, lambda event: connection.send_bytes(msgspec.json.encode(event)))
        while True:
            worker.obey(msgspec.json.decode(connection.recv_bytes(), type=Command))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def inductor_cache(directory: Path) -> Path:
    """Where the Inductor of a worker with this folder keeps what it compiled."""
    return directory / "inductor"


def _settle(directory: Path) -> None:
    """Give the worker its own process group, folder, caches, and a file for what compilers print."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    directory.mkdir(parents=True, exist_ok=True)
    os.chdir(directory)
    output = os.open(directory / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(inductor_cache(directory))
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


class Worker:
    """One (case, variant, backend) in this process."""

    def __init__(self, job: Job, tell: Callable[[Event], None]) -> None:
        self.job = job
        self.tell = tell
        self._case: CaseModule | None = None
        self._call: Loaded | None = None
        self._pool: list[tuple[Any, ...]] = []
        self._calls = 0

    @property
    def case(self) -> CaseModule:
        if self._case is None:
            self._case = load(self.job.case_path)
        return self._case

    def obey(self, command: Command) -> None:
        """Do what the command says and answer it with one event."""
        try:
            if command.do == "attempt":
                assert command.workload is not None
                self.tell(Event(outcome=self.attempt(command.workload, command.verified)))
            else:
                answer = {
                    "describe": self.describe,
                    "estimate": self.estimate,
                    "block": lambda: self.block(command.calls),
                    "trace": lambda: self.trace(Path(command.path)),
                    "count": lambda: audit.profile(self._loaded(), self._pool[0]).facts(),
                    "capture": lambda: audit.capture(self._loaded(), self._pool[0]).facts(),
                    "forget": self.forget,
                    "device": device_here,
                    "bandwidth": lambda: copy_bandwidth(command.path),
                    "prepare": lambda: importlib.import_module(command.path).prepare(),
                }[command.do]()
                self.tell(Event(value=answer))
        except Exception as error:
            self.tell(Event(error=f"{type(error).__name__}: {error}"))

    def describe(self) -> Case:
        """The case as planned, once its inputs have been made for every variant of a fixed case."""
        case = self.case.case
        for variant in () if case.sizes else case.variants:
            try:
                self.case.check(variant)
            except BrokenCase:
                raise
            except Exception as error:
                raise BrokenCase(
                    f"{case.path} raises in its inputs for {variant.name}: {type(error).__name__}: {error}"
                ) from error
        return case

    def attempt(self, workload: Workload, verified: bool) -> Outcome:
        """Capture, convert, build, run and verify; what raises on the way becomes the verdict."""
        self.forget()
        assert self.job.road is not None and self.job.variant is not None
        attempt = Attempt(
            self.case,
            self.job.variant,
            self.job.road,
            workload,
            lambda stage: self.tell(Event(stage=stage)),
            Path(self.job.directory),
            verified,
            Path(self.job.kept_inputs) if self.job.kept_inputs else None,
        )
        outcome = attempt.outcome()
        if attempt.call is not None and (outcome.verdict in FAITHFUL or self.job.road.name == "eager"):
            self._call = attempt.call
            try:
                self._pool = attempt.pool()
            except Exception as error:  # too large to be timed; the verdict stands
                outcome.facts["pool_error"] = f"{type(error).__name__}: {error}"
        self._give_memory_back()
        return outcome

    def estimate(self) -> dict[str, Any]:
        clock, began = self._clock(), time.perf_counter()
        ms = clock.estimate(self._loaded(), self._pool)
        return {"ms": ms, "method": clock.method, "seconds": time.perf_counter() - began}

    def block(self, calls: int) -> dict[str, Any]:
        began = time.perf_counter()
        block = self._clock().block(self._loaded(), self._pool, calls, self._calls)
        self._calls += calls
        return {"block": block, "seconds": time.perf_counter() - began}

    def trace(self, path: Path) -> str:
        audit.trace(self._loaded(), self._pool, path)
        return str(path)

    def forget(self) -> None:
        """Drop the compiled callable and its inputs, and give the device's memory back."""
        self._call = None
        self._pool = []
        self._give_memory_back()

    def _give_memory_back(self) -> None:
        """Let other workers have the device's memory that torch keeps for itself."""
        if self.job.road is not None and self.job.road.device == "cuda":
            import torch

            torch.cuda.empty_cache()

    def _loaded(self) -> Loaded:
        assert self._call is not None, "nothing was attempted, or it was not faithful"
        assert self._pool, "its inputs could not be made"
        return self._call

    def _clock(self) -> Any:
        from runners.study.clock import clock_for

        assert self.job.road is not None
        return clock_for(self.job.road.device)


def device_here() -> dict[str, Any] | None:
    """The GPU that torch sees, with its memory in bytes, or None: NVML may know a card that torch cannot use."""
    import torch

    if not torch.cuda.is_available():
        return None
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {"name": about.name, "memory_bytes": about.total_memory}
