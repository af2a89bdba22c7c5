"""The device: what it is, how fast it copies, and what its state was during a block.

NVML (nvidia-ml-py, docs.nvidia.com/deploy/nvml-api) is asked lazily; a machine without it answers None.
Nothing here imports torch by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

THROTTLING = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""NVML clock event reasons that slow a card below what it was asked for: software power cap, hardware
slowdown, software thermal, hardware thermal, power brake. Idle and application-set clocks are none."""

COPIES = 7
"""Copies per bandwidth measurement; the fastest counts, because a floor must be what the machine can do."""

MIB = 1 << 20


class Reading(msgspec.Struct, frozen=True):
    """The card's state: SM clock in MHz, whether it is throttled, processes on it that are not the study's.
    None is what NVML could not tell."""

    sm_mhz: int | None = None
    throttled: bool = False
    others: int | None = None


class Gauge:
    """Reads a card's state; one that has no NVML to ask reads nothing and never raises."""

    def __init__(self, nvml: Any = None, handle: Any = None, family: Callable[[], set[int]] | None = None) -> None:
        self._nvml, self._handle = nvml, handle
        self._family = family or _family

    @classmethod
    def of(cls, torch: Any, device: str) -> Gauge:
        """The gauge of a torch device, found by its UUID: CUDA and NVML number the cards differently."""
        nvml = _nvml()
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        if nvml is None or uuid is None:
            return cls()
        handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
        return cls(nvml, handle) if handle is not None else cls()

    def read(self) -> Reading:
        if self._nvml is None:
            return Reading()
        nvml, handle = self._nvml, self._handle
        reasons = _ask(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return Reading(
            sm_mhz=_ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            throttled=bool((reasons or 0) & THROTTLING),
            others=self._others(),
        )

    def _others(self) -> int | None:
        listed = _ask(self._nvml, lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        present = {process.pid for process in listed or ()}
        # In a container NVML may list pids of another namespace; then this process is not among them.
        return len(present - self._family()) if os.getpid() in present else None


def gpu_facts(index: int = 0) -> dict[str, Any] | None:
    """Name, driver, memory in bytes and top SM clock in MHz of a card, as NVML counts cards; None without."""
    nvml = _nvml()
    if nvml is None:
        return None
    handle = _ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return None
    memory = _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return {
        "name": _ask(nvml, lambda: nvml.nvmlDeviceGetName(handle)),
        "uuid": _ask(nvml, lambda: nvml.nvmlDeviceGetUUID(handle)),
        "driver": _ask(nvml, nvml.nvmlSystemGetDriverVersion),
        "memory_bytes": memory and int(memory.total),
        "sm_mhz_max": _ask(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
    }


def copy_bandwidth(device: str = "cpu") -> float:
    """Bytes per second that a copy moves, each byte read and each byte written counted.

    CPU: NumPy copies a buffer larger than the last-level cache, all allowed cores at once. CUDA: torch copies
    on the device, timed by events.
    """
    return _cuda_bandwidth(device) if device.startswith("cuda") else _cpu_bandwidth()


def floor_ms(moved: float, bandwidth: float) -> float:
    """Milliseconds that moving `moved` bytes takes at `bandwidth` bytes per second."""
    return moved / bandwidth * 1e3


def last_level_cache(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int | None:
    """Bytes of the largest cache that Linux reports, or None."""
    sizes = [file.read_text().strip() for file in root.glob("index*/size")]
    units = {"K": 1 << 10, "M": MIB, "G": 1 << 30}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=None)


def _cpu_bandwidth() -> float:
    import numpy as np

    # At least four times the cache, so that at most a quarter of a copy can come from it.
    size = min(max(4 * (last_level_cache() or 32 * MIB), 128 * MIB), 1024 * MIB)
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))

    def copy(pool: ThreadPoolExecutor) -> float:
        began = time.perf_counter()
        list(pool.map(lambda part: np.copyto(*part), parts))
        return time.perf_counter() - began

    with ThreadPoolExecutor(threads) as pool:
        return 2 * size / min(copy(pool) for _ in range(COPIES))


def _cuda_bandwidth(device: str) -> float:
    import torch

    event: Any = torch.cuda.Event
    size = min(max(8 * torch.cuda.get_device_properties(device).L2_cache_size, 256 * MIB), 2048 * MIB)
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)

    def copy() -> float:
        first, last = event(enable_timing=True), event(enable_timing=True)
        stream = torch.cuda.current_stream(device)
        first.record(stream)
        target.copy_(source)
        last.record(stream)
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    copy()
    return 2 * size / min(copy() for _ in range(COPIES))


def _nvml() -> Any:
    """The NVML module, initialised, or None where it, its library or a driver is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml if _ask(pynvml, lambda: pynvml.nvmlInit() or True) else None


def _ask(nvml: Any, question: Callable[[], Any]) -> Any:
    """NVML's answer, or None where the card or the driver does not answer this question."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def _family() -> set[int]:
    """The study's processes: this one, the one that started it, and that one's children."""
    import psutil

    own = {os.getpid(), os.getppid()}
    try:
        return own | {child.pid for child in psutil.Process(os.getppid()).children(recursive=True)}
    except psutil.Error:
        return own
