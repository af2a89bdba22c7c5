"""The environment of a study: the machine and the versions, found without importing any of them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from runners.backends import BACKENDS
from runners.study.device import gpu_facts
from runners.study.record import Environment

_ALSO = ["torch", "numpy", "triton", "jaxlib"]


def detect(flags: dict[str, Any], gpu_name: str | None) -> Environment:
    """This machine as an environment, with the GPU that torch can use or None. The id names device and torch and
    ends in a digest of all else, so that two sets of versions never share a folder."""
    gpu = gpu_facts() if gpu_name else None
    cpu = cpu_name()
    cores = len(os.sched_getaffinity(0))
    versions = packages([name for backend in BACKENDS.values() for name in backend.distributions] + _ALSO)
    device = gpu_name or "cpu"
    what = json.dumps(
        [device, cpu, cores, platform.python_version(), versions, flags, gpu and gpu["driver"]], sort_keys=True
    )
    name = f"{_slug(gpu_name or f'cpu {cpu}')}-torch-{versions.get('torch', 'none').split('+')[0]}"
    return Environment(
        id=f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:6]}",
        device=device,
        cpu=f"{cpu}, {cores} cores",
        driver=gpu["driver"] if gpu else None,
        python=platform.python_version(),
        packages=versions,
        flags=flags,
        when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def packages(distributions: Iterable[str]) -> dict[str, str]:
    """The installed versions of these distributions."""
    return {name: version for name in sorted(set(distributions)) if (version := installed(name)) is not None}


def installed(distribution: str) -> str | None:
    """The version of a distribution, None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor's name as the kernel tells it."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")
