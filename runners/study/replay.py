"""Replays one cell alone, in this process, by the code that the study's workers run.

Every cell has a script of its own under `repro/`; `python -m pdb` on it stops where the compiler refuses.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from models import case as cases
from models.case import Case, Workload
from runners.backends import BACKENDS
from runners.study.attempt import Attempt, road
from runners.study.device import gpu_facts
from runners.study.interpreters import command, home, interpreter
from runners.study.record import Cell, write_aside

_SCRIPT = '''"""Replays one cell: {title}."""

from runners.study.replay import replay

replay(
    case={case!r},
    variant={variant!r},
    backend={backend!r},
    workload={workload!r},
    options={options!r},
)
'''


def replay(case: str, variant: str, backend: str, workload: dict[str, Any], options: dict[str, Any]) -> None:
    """Attempt the cell and print its stages, its verdict and the compiler's words; `case` is the name of one
    of ours or a path. A backend with an environment of its own is replayed there."""
    requirements = BACKENDS[backend].requirements
    if requirements and Path(sys.prefix) != home(backend, requirements):
        asked = {"case": case, "variant": variant, "backend": backend, "workload": workload, "options": options}
        code = f"from runners.study.replay import replay; replay(**{asked!r})"
        sys.exit(subprocess.call(command(interpreter(backend, requirements), code)))
    module = cases.load(case if case.endswith(".py") else cases.CATALOGUE / f"{case}.py")
    attempt = Attempt(
        module,
        module.case.variant(variant),
        road(backend, options, has_gpu=gpu_facts() is not None),
        msgspec.convert(workload, Workload),
        lambda stage: print(f"stage {stage}", file=sys.stderr),
    )
    outcome = attempt.outcome()
    print(f"{outcome.verdict}" + (f" at stage {outcome.stage}" if outcome.stage else ""))
    if outcome.reason:
        print(f"{outcome.reason.code} ({outcome.reason.where or 'no line of the case named'})\n{outcome.reason.text}")


def write_script(folder: Path, case: Case, cell: Cell, options: dict[str, Any]) -> str:
    """Write the cell's script under `folder/repro/`; returns its path relative to `folder`."""
    path = Path("repro") / f"{name_of(cell)}.py"
    ours = Path(case.path).parent.resolve() == cases.CATALOGUE.resolve()
    content = _SCRIPT.format(
        title=f"{cell.case} / {cell.variant} / {cell.backend} / {cell.workload}",
        case=case.name if ours else case.path,
        variant=cell.variant,
        backend=cell.backend,
        workload=msgspec.to_builtins(cell.workload),
        options=options,
    )
    write_aside(content.encode(), folder / path)
    return str(path)


def name_of(cell: Cell) -> str:
    """A file name for a cell, unique within its environment."""
    workload = cell.workload
    parts = (
        cell.case,
        cell.variant,
        cell.backend,
        None if workload.n is None else f"n{workload.n}",
        None if workload.batch is None else f"b{workload.batch}",
        workload.noise,
    )
    return "-".join(part for part in parts if part).replace("@", "-")
