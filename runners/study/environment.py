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

_ARITHMETIC = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "asimd", "sve", "bf16", "i8mm")
"""Instruction sets by which engines choose how to compute, in the kernel's words."""


def detect(flags: dict[str, Any], gpu_name: str | None) -> Environment:
    """This machine as an environment, with the GPU that torch can use or None. The id names device and torch and
    ends in a digest of all else, so that two sets of versions never share a folder."""
    gpu = gpu_facts() if gpu_name else None
    name, kind = processor(_cpuinfo())
    cores = len(os.sched_getaffinity(0))
    versions = packages([name for backend in BACKENDS.values() for name in backend.distributions] + _ALSO)
    device = gpu_name or "cpu"
    what = json.dumps(
        [device, name, kind, cores, platform.python_version(), versions, flags, gpu and gpu["driver"]], sort_keys=True
    )
    title = f"{_slug(gpu_name or f'cpu {name}')}-torch-{versions.get('torch', 'none').split('+')[0]}"
    return Environment(
        id=f"{title}-{hashlib.sha256(what.encode()).hexdigest()[:6]}",
        device=device,
        cpu=f"{name} ({kind}), {cores} cores" if kind else f"{name}, {cores} cores",
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


def processor(cpuinfo: str) -> tuple[str, str]:
    """The processor's name, and what tells apart those that share it: family, model and instruction sets.

    On one machine called "AMD EPYC" OpenVINO computes in bfloat16 and is wrong where on another it is right.
    """

    def told(key: str) -> str:
        match = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        return match.group(1).strip() if match else ""

    sets = (told("flags") or told("Features")).split()
    parts = [f"family {told('cpu family')}", f"model {told('model')}"] if told("model") else []
    parts += [" ".join(word for word in _ARITHMETIC if word in sets)]
    return told("model name") or platform.processor() or platform.machine(), ", ".join(filter(None, parts))


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")
