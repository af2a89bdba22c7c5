"""The record: every cell of one environment in one JSON file, `compat.json`, schema 1.

The exact form is `compat.schema.json` beside this file. The file is valid JSON at every moment: each
change is written aside and renamed into place, so an interrupted study loses the cell it was in and
nothing else.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from models.case import Kind, Workload

Verdict = Literal["accepted", "partial", "built", "wrong", "rejected", "crashed", "timeout", "unavailable"]
Stage = Literal["capture", "convert", "build", "run", "verify", "time"]
Status = Literal["ok", "failed", "not_reached"]

STAGES: tuple[Stage, ...] = ("capture", "convert", "build", "run", "verify", "time")

FAITHFUL: frozenset[Verdict] = frozenset({"accepted", "partial"})
"""Verdicts of cells whose answer is right; only these are timed."""


ALSO = "\n\nalso "
"""What stands in a reason's text between its own words and each further finding, which has its code before it."""


class Reason(msgspec.Struct, frozen=True):
    """Why a cell is not `accepted`: a stable code, the compiler's own text whole, the user's file and line."""

    code: str
    text: str
    where: str | None = None


class StageOutcome(msgspec.Struct, frozen=True):
    """How one stage ended and how long it took, in seconds; None when it was not reached."""

    status: Status
    seconds: float | None = None


class Timing(msgspec.Struct, kw_only=True):
    """Steady-state time of one call in milliseconds.

    `ratio` is the time of eager's variable form divided by this cell's, taken round by round (above 1:
    faster); `ratio_low` and `ratio_high` bound it by bootstrap. They are None where the variable form
    has no time in the same rounds. `more` holds what only some clocks have: CUDA event times, cold
    columns, throttled samples, the number of rounds.
    """

    median_ms: float
    iqr_ms: float
    samples_ms: list[float]
    method: str
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    floor_ms: float | None = None
    more: dict[str, Any] = {}


class Cell(msgspec.Struct, kw_only=True):
    """One (case, variant, backend, workload) with its outcome: the unit of everything recorded."""

    case: str
    variant: str
    kind: Kind
    backend: str
    environment: str
    workload: Workload
    verdict: Verdict
    stage: Stage | None = None
    reason: Reason | None = None
    stages: dict[Stage, StageOutcome] = {}
    facts: dict[str, Any] = {}
    timing: Timing | None = None
    repro: str | None = None

    @property
    def key(self) -> CellKey:
        return (self.case, self.variant, self.backend, self.environment, self.workload)


CellKey = tuple[str, str, str, str, Workload]


class Environment(msgspec.Struct, kw_only=True):
    """The machine and the versions under which cells were obtained; `when` is the start of the study, in UTC, and of
    the first one where others went on with it."""

    id: str
    device: str
    cpu: str
    python: str
    packages: dict[str, str]
    when: str
    driver: str | None = None
    flags: dict[str, Any] = {}


class Record(msgspec.Struct, kw_only=True):
    """What `compat.json` holds."""

    schema: Literal[1] = 1
    environments: list[Environment] = []
    cells: list[Cell] = []


class DamagedRecord(Exception):
    """A results file that is no record; the message names the file and the fault in one sentence."""


def read(path: Path) -> Record:
    """The record in `path`; raises DamagedRecord when the file is no valid schema-1 record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedRecord(
            f"{path} is not a compat.json of schema 1 ({error}); move it away or name another --output"
        ) from error


def write(record: Record, path: Path) -> None:
    """Replace `path` by the record in one step, a cell a line; a full disk or a crash leaves the old file as it was."""
    encode = msgspec.json.encode
    cells = b",\n".join(encode(cell) for cell in record.cells)
    content = b'{"schema":1,\n"environments":%b,\n"cells":[\n%b\n]}\n' % (encode(record.environments), cells)
    write_aside(content, path)


def write_aside(content: bytes, path: Path) -> None:
    """Write `content` beside `path`, then rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
