"""`python -m runners.all`: push every variant of a case through every compiler, and write down what happened."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import psutil
import typer
from filelock import FileLock, Timeout
from rich.console import Console

from models import case as cases
from models.case import BrokenCase, Case
from runners.backends import RTX_TARGETS
from runners.report import SameEnvironment, write_report
from runners.report.page import not_reached
from runners.study import environment as environments
from runners.study import plan as plans
from runners.study import record as records
from runners.study.device import gpu_facts
from runners.study.display import Display
from runners.study.lane import Lane, LaneFailed, Limits
from runners.study.lanes import NoRoom
from runners.study.listing import show_list
from runners.study.plan import BadRequest, Profile, Round, Wanted
from runners.study.rounds import Budget
from runners.study.settings import Settings
from runners.study.study import Study
from runners.study.worker import Command, Job

GPU_MINUTES = 8.0

STUDY_SHARE = 0.95
"""Of a budget in minutes, the study's share: the rest is for ending its workers and writing the report."""

LANE_BYTES = 3 << 29
"""Memory that each living lane may count on: a gigabyte and a half."""

BUDGETS = {
    "gpu": Budget(seconds_per_cell=0.4, floor_rounds=7, cap_rounds=40, block_ms=10.0),
    "quick": Budget(seconds_per_cell=0.3, floor_rounds=7, cap_rounds=40),
    "full": Budget(seconds_per_cell=2.0, floor_rounds=9, cap_rounds=100),
}

_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def main(
    case: Annotated[
        list[str] | None, typer.Option(help="A case's name, a path to a case file, or `all`. Repeatable.")
    ] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Only these variants. Repeatable.")] = None,
    backend: Annotated[list[str] | None, typer.Option(help="Only these backends (and eager). Repeatable.")] = None,
    n: Annotated[str | None, typer.Option(help="Items, as 1000,10k,1M.")] = None,
    batch: Annotated[str | None, typer.Option(help="Batches, as none,32.")] = None,
    noise: Annotated[str | None, typer.Option(help="Where randomness comes from: inside,input.")] = None,
    profile: Annotated[
        Profile, typer.Option(help="quick: to N 100 000; full: to 10 M; gpu: as full, on the GPU, most valuable first.")
    ] = "quick",
    output: Annotated[Path, typer.Option(help="Where records and the report go.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with this environment's record.")] = False,
    sm: Annotated[str, typer.Option(help="The compute capability that TensorRT-RTX builds for without a GPU.")] = "8.9",
    trace: Annotated[bool, typer.Option("--trace", help="Write a profiler trace of every timed cell.")] = False,
    minutes: Annotated[
        float | None, typer.Option(help=f"Stop after this long and list what was not reached (gpu: {GPU_MINUTES:g}).")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List cases, variants and backends, and stop.")] = False,
) -> None:
    """Push every variant of a case through every compiler and record, stage by stage, what each one did."""
    if list_:
        show_list(Console())
        return
    try:
        wanted = Wanted(
            variants=tuple(variant) if variant else None,
            backends=tuple(backend) if backend else None,
            n=plans.parse_sizes(n) if n else None,
            batches=plans.parse_batches(batch) if batch else None,
            noise=plans.parse_noise(noise) if noise else None,
            profile=profile,
        )
        plans.select_backends(wanted.backends)
        if sm not in RTX_TARGETS:
            raise BadRequest(f"TensorRT-RTX does not build for SM {sm!r}; valid: {', '.join(RTX_TARGETS)}")
        found, broken = find_cases(case or ["balanced_sampler"])
        for message in broken:
            _errors.print(f"error: {message}", markup=False)
        if not found:
            raise typer.Exit(2)
        rounds = plans.plan(found, wanted)
        if minutes is None and profile == "gpu":
            minutes = GPU_MINUTES
        traces = None if trace else 3 if profile == "gpu" else 0
        run(rounds, profile, output, resume, {"sm": sm}, traces, minutes)
    except (BadRequest, records.DamagedRecord, SameEnvironment) as error:
        _fail(str(error))
    except NoRoom as error:
        _fail(f"{error}: make room or point TMPDIR elsewhere; what was recorded is whole, add --resume to go on")
    except OSError as error:
        _fail(f"cannot write to {output}: {error.strerror or error}; what was recorded before is whole")
    if broken:
        raise typer.Exit(2)


def find_cases(names: Sequence[str]) -> tuple[list[Case], list[str]]:
    """The cases asked for, and a sentence for each that cannot be studied; an unknown name raises BadRequest."""
    ours = {case.name: case for case in cases.catalogue()}
    found: dict[str, Case] = {}
    broken = []
    for name in names:
        if name == "all":
            found.update(ours)
        elif name in ours:
            found[name] = ours[name]
        elif name.endswith(".py") or os.sep in name:
            try:
                described = describe(Path(name))
                # A record knows a case by its file's stem alone.
                other = ours.get(described.name) or found.get(described.name)
                if other and not Path(other.path).samefile(described.path):
                    raise BrokenCase(f"{name} has the name of {other.path}; rename your file")
                found[described.name] = other or described
            except BrokenCase as error:
                broken.append(str(error))
        else:
            raise BadRequest(f"unknown case {name!r}; valid: all, {', '.join(ours)}, or a path to a case file")
    return list(found.values()), broken


def describe(path: Path) -> Case:
    """What a case file holds, found by importing it in a worker: it may hang, crash or raise there."""
    if not path.is_file():
        raise BrokenCase(f"there is no case file {path}")
    lane = Lane(Job(case_path=str(path.resolve()), directory=""), Limits(seconds={"asked": 60.0}))
    try:
        case = msgspec.convert(lane.ask(Command(do="describe")), Case)
    except LaneFailed as error:
        first, *others = str(error).removeprefix("BrokenCase: ").split("\n")
        message = f"{first} {others[-1]}" if others and first.endswith(":") else first
        message = message.replace(str(path.resolve()), str(path))
        raise BrokenCase(message if str(path) in message else f"{path} cannot be studied: {message}") from error
    finally:
        lane.close()
    return msgspec.structs.replace(case, path=str(path))


def run(
    rounds: list[Round],
    profile: str,
    output: Path,
    resume: bool,
    options: dict[str, str],
    traces: int | None,
    minutes: float | None,
) -> None:
    """Run the plan into `output/<environment>/` and write the report; `traces` cells are traced, None for all."""
    began = time.monotonic()
    gpu = usable_gpu()
    environment = environments.detect({"sm": options["sm"]}, gpu["name"] if gpu else None)
    folder = output / environment.id
    console = Console(soft_wrap=not sys.stdout.isatty())
    with _only_study(output):
        neighbours = _neighbours(output, folder)
        earlier = _earlier(folder, resume)
        room = [psutil.virtual_memory().total, *([gpu["memory_bytes"]] if gpu else [])]
        if earlier.environments:
            environment = earlier.environments[0]
        settings = Settings(
            has_gpu=gpu is not None,
            parallel=max(1, min(len(os.sched_getaffinity(0)), 8)),
            limits=Limits(),
            lanes=max(12, min(room) // LANE_BYTES),
            budget=BUDGETS[profile],
            options=dict(options),
            traces=traces,
            deadline=None if minutes is None else began + STUDY_SHARE * 60 * minutes,
        )
        display = Display(console)
        study = Study(environment, folder, settings, display, earlier.cells)
        with display.following(sum(len(study.todo(round_)) for round_ in rounds)):
            try:
                study.run(rounds)
            except KeyboardInterrupt:
                record = folder / "compat.json"
                _errors.print(f"interrupted; {record} is whole: add --resume to the command to go on", markup=False)
                raise typer.Exit(130) from None
        page = write_report([*neighbours, records.read(folder / "compat.json")], output)
    for what, backends in not_reached(environment).items():
        console.print(f"not reached: {what}: {', '.join(backends)}", highlight=False, markup=False)
    console.print(
        f"{len(study.cells)} cells in {time.monotonic() - began:.0f} s, {study.ledger.overhead:.1%} of it neither in "
        f"a compiler nor in a called variant; verification took {study.ledger.verification:.0%} of the lanes' time. "
        f"Read {page}.",
        highlight=False,
        markup=False,
    )


def usable_gpu() -> dict[str, Any] | None:
    """Name and memory of the GPU that torch can use here. NVML is asked first, since it answers at once where
    there is none; torch is asked in a worker, since it may be built without CUDA or see no card."""
    if gpu_facts() is None:
        return None
    lane = Lane(Job(case_path="", directory=""), Limits())
    try:
        found: dict[str, Any] | None = lane.ask(Command(do="device"))
        return found
    except LaneFailed:
        return None
    finally:
        lane.close()


def _neighbours(output: Path, folder: Path) -> list[records.Record]:
    """The records of other environments in the results folder, read before the study so that a damaged one is
    told at once."""
    found = [records.read(path) for path in sorted(output.glob("*/compat.json")) if path.parent != folder]
    for record in found:
        if any(environment.id == folder.name for environment in record.environments):
            raise SameEnvironment(f"another folder of {output} holds the environment {folder.name}; move it away")
    return found


def _earlier(folder: Path, resume: bool) -> records.Record:
    """The record to go on from, with what was measured of its machine; what it did not reach is planned anew. A
    record that is not gone on with is kept as `compat.previous.json`, in place of the one before it."""
    path = folder / "compat.json"
    if not path.exists():
        return records.Record()
    record = records.read(path)
    if resume:
        for environment in record.environments:
            environment.flags.pop("not_reached", None)
        return record
    path.replace(folder / "compat.previous.json")
    return records.Record()


@contextmanager
def _only_study(output: Path) -> Iterator[None]:
    """Hold the results folder; a second study on it is told so."""
    output.mkdir(parents=True, exist_ok=True)
    lock = FileLock(output / ".study.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        _fail(f"another study is writing to {output}; wait for it or name another --output")
    try:
        yield
    finally:
        lock.release()


def _fail(message: str) -> NoReturn:
    _errors.print(f"error: {message}", markup=False)
    raise typer.Exit(2)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell has ignored in its background
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # an end asked for is an end
    typer.run(main)
