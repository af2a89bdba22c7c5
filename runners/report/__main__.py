"""`python -m runners.report results/*/compat.json --output DIR`: one report from any number of environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from runners.report import write_report
from runners.report.selection import SameEnvironment
from runners.study.record import DamagedRecord, Record, read


def main(
    paths: Annotated[list[Path], typer.Argument(help="compat.json of one or more environments.", show_default=False)],
    output: Annotated[Path, typer.Option(help="Where compat.md, the pages of the cases and the pictures go.")] = Path(
        "results"
    ),
) -> None:
    """Merge records into one report: environments side by side, never mixed."""
    records: list[Record] = []
    folders: dict[str, Path] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        try:
            record = read(path)
        except FileNotFoundError:
            _stop(f"{path} does not exist")
        except (DamagedRecord, OSError) as error:
            _stop(str(error))
        records.append(record)
        folders |= {environment.id: path.parent for environment in record.environments}
    try:
        written = write_report(records, output, folders)
    except (SameEnvironment, OSError) as error:
        _stop(str(error))
    typer.echo(written)


def _stop(fault: str) -> NoReturn:
    typer.echo(f"Error: {' '.join(fault.split())}", err=True)
    raise typer.Exit(2)


if __name__ == "__main__":
    typer.run(main)
