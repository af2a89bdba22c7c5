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

from filelock import FileLock

ROOT = Path(__file__).parents[2]

FOLDER = ROOT / ".environments"

WORKER = ("filelock", "msgspec", "numpy", "psutil", "scipy")
"""What a worker itself needs beside torch and its engine."""

LIMIT_SECONDS = 1800.0
"""The longest that one step of the installation may take."""


class NotMade(Exception):
    """An environment could not be made; the message is a sentence, then what the installer said."""


def command(python: Path | str, code: str) -> list[str]:
    """The command that runs `code` there. Our own folder comes last on the path, so that of a package both have
    that environment's own is met."""
    return [str(python), "-I", "-c", f"import sys; sys.path.append({str(ROOT)!r}); {code}"]


def is_made(name: str, requirements: Sequence[str]) -> bool:
    """Whether the environment is there whole: the file `made` in it is written last."""
    return (home(name, requirements) / "made").exists()


def home(name: str, requirements: Sequence[str]) -> Path:
    """Where the environment `name` lies; other requirements or another Python are another environment."""
    what = "\n".join([sys.version, *requirements])
    return FOLDER / f"{name.replace('@', '-')}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"


def interpreter(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of the environment `name`, which is made anew if it is not there whole. Of two studies that
    want it, one makes it and the other waits. Raises NotMade."""
    folder = home(name, requirements)
    python = folder / "bin" / "python"
    try:
        FOLDER.mkdir(exist_ok=True)
        with FileLock(FOLDER / f"{folder.name}.lock"):
            if not is_made(name, requirements):
                _make(folder, python, requirements)
    except OSError as error:
        raise NotMade(f"the environment of {name} cannot be written to {folder}: {error.strerror or error}") from error
    return python


def _make(folder: Path, python: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-input", *requirements, *WORKER)
        (folder / "made").touch()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(*command: str) -> None:
    line = " ".join(("python", *command[1:]))
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise NotMade(f"not done after {LIMIT_SECONDS:g} s: {line}") from error
    if result.returncode:
        said = f"{result.stdout}{result.stderr}".strip()
        complaint = next((text for text in said.splitlines() if text.startswith("ERROR: ")), "it failed")
        raise NotMade(f"{complaint.removeprefix('ERROR: ')}\n{line}\n{said}")
