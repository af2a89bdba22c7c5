"""Interpreters of their own, for backends whose packages cannot share the study's environment.

A backend that names requirements gets a virtual environment under `.environments/`, made on demand; its lanes
run there and its cells keep the versions that they met.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLDER = ROOT / ".environments"

WORKER = ("msgspec", "numpy", "psutil", "scipy")
"""What a worker itself needs beside torch and its engine."""


class NotMade(Exception):
    """An environment could not be made; the message holds what the installer said."""


def interpreter(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of the environment `name`; the environment is made if it is not there as required."""
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    home = FOLDER / f"{name.replace('@', '-')}-{digest}"
    python = home / "bin" / "python"
    if (home / "made").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    _run(sys.executable, "-m", "venv", str(home))
    try:
        _run(str(python), "-m", "pip", "install", "--quiet", *requirements)
        _run(str(python), "-m", "pip", "install", "--quiet", *requirements, *WORKER)
    except NotMade:
        shutil.rmtree(home, ignore_errors=True)
        raise
    (home / "made").touch()
    return python


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise NotMade(f"{' '.join(command)}\n{result.stdout}{result.stderr}".strip())
