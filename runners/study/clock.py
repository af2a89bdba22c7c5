"""The clock of a worker: how long a block of calls takes, by one rule for every backend of a device.

CPU: the monotonic clock around the whole block, and the processor time that the process used meanwhile,
which tells work from waiting. CUDA: host wall time around the block, closed by a synchronisation, and
events on torch's current stream, the one that every engine is set to. An event pair does not see what
the host does after the last kernel was queued, host time does; both are reported.

What a block leaves out: making its inputs, a first call that wakes the process when more follow, garbage
collection, flushing caches, reading NVML.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from runners.study.device import Gauge

Call = Callable[..., Any]
Pool = Sequence[tuple[Any, ...]]

ESTIMATE_MS = 3.0
"""An estimate rests on at least this much time."""

LONG_MS = 200.0
"""A call that takes this long is estimated once."""

SEVERAL_THREADS = 1.05
"""More processor time than wall time, by this factor: a thread pool worked."""

ASLEEP_WITHIN_SECONDS = 0.05
"""How long a thread pool may go on spinning after its work before the worker answers nevertheless."""

WARM_UP_SECONDS = 2.0
"""Warming up calls every entry of the pool once, but starts no call after this long."""

SINGLES = 4
"""Calls per block that are timed one by one, hot and cold, on CUDA."""


class Block(msgspec.Struct, frozen=True):
    """One block of `calls` calls. Times are in milliseconds.

    `total_ms` is host wall time and `cpu_ms` the processor time of the whole process, both over all calls;
    `delay_ms` is the part of it in which the calling thread could have run and other processes held the
    processors (Linux only).
    Only on CUDA: `device_ms` over all calls between two events; `hot_ms` and `cold_ms`, the mean event time
    of one call from an empty queue with the L2 as the calls before left it and with the L2 cleared;
    `sm_mhz`, `throttled` and `others` (processes on the GPU that are not the study's, None when NVML cannot
    tell) as read after the block; `peak_bytes`, the most that torch's allocator had handed
    out beyond what was held before the block.
    """

    calls: int
    total_ms: float
    device_ms: float | None = None
    cold_ms: float | None = None
    throttled: bool = False
    hot_ms: float | None = None
    cpu_ms: float | None = None
    delay_ms: float | None = None
    sm_mhz: int | None = None
    others: int | None = None
    peak_bytes: int | None = None


class Clock(Protocol):
    """What measures. `method` is printed beside every number."""

    @property
    def method(self) -> str: ...

    def block(self, call: Call, pool: Pool, calls: int, start: int = 0) -> Block:
        """Time `calls` calls; the i-th takes the inputs `pool[(start + i) % len(pool)]`."""
        ...

    def estimate(self, call: Call, pool: Pool) -> float:
        """Milliseconds per call, roughly, after warming up; the first call never enters."""
        ...


@functools.cache
def clock_for(device: str) -> Clock:
    """The clock of a torch device: `cpu`, `cuda` or `cuda:1`; the same one whenever it is asked for."""
    if not device.startswith("cuda"):
        return CpuClock()
    import torch

    return CudaClock(torch, device, Gauge.of(torch, device))


class CpuClock:
    """The monotonic clock and the process's processor time."""

    method = "CPU: monotonic clock around a block of calls"

    def block(self, call: Call, pool: Pool, calls: int, start: int = 0) -> Block:
        arguments = _rotate(pool, calls, start)
        with _no_collection():
            _wake(call, arguments)
            delayed, worked, began = _delay_ns(), time.process_time_ns(), time.perf_counter_ns()
            _run(call, arguments)
            total = time.perf_counter_ns() - began
            worked, delay = time.process_time_ns() - worked, _since(delayed)
        if worked > SEVERAL_THREADS * total:
            _fall_asleep()
        return Block(calls, total / 1e6, cpu_ms=worked / 1e6, delay_ms=delay)

    def estimate(self, call: Call, pool: Pool) -> float:
        _warm_up(call, pool)
        return _estimate(lambda calls: _undisturbed_ms(self.block(call, pool, calls)))


class CudaClock:
    """Events and host time; everything of the clock that touches CUDA is here.

    `torch` is the module (or a stand-in), `gauge` reads NVML. Sources: docs.pytorch.org, torch.cuda.Event and
    torch.cuda.graphs; the flush follows triton.testing.do_bench.
    """

    method = "CUDA: host wall time around a block of calls, closed by a synchronisation; events beside it"

    def __init__(self, torch: Any, device: str, gauge: Gauge, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._torch, self._cuda, self._device, self._gauge, self._now = torch, torch.cuda, device, gauge, now
        cache = self._cuda.get_device_properties(device).L2_cache_size
        # Twice the L2: writing it leaves no line of the inputs behind, whatever the replacement policy.
        self._flush = torch.empty(max(2 * cache, 1 << 20), dtype=torch.uint8, device=device)

    def block(self, call: Call, pool: Pool, calls: int, start: int = 0) -> Block:
        arguments = _rotate(pool, calls, start)
        with _no_collection():
            _wake(call, arguments)
            held = self._cuda.memory_allocated(self._device)
            self._cuda.reset_peak_memory_stats(self._device)
            total, device = self._timed(call, arguments)
            peak = self._cuda.max_memory_allocated(self._device) - held
            reading = self._gauge.read()
            singles = _rotate(pool, min(calls, SINGLES), start)
            hot = [self._timed(call, [inputs])[1] for inputs in singles]
            cold = [self._timed(call, [inputs], self._flush.zero_)[1] for inputs in singles]
        return Block(
            calls,
            total,
            device,
            cold_ms=sum(cold) / len(cold),
            hot_ms=sum(hot) / len(hot),
            peak_bytes=peak,
            throttled=reading.throttled,
            sm_mhz=reading.sm_mhz,
            others=reading.others,
        )

    def estimate(self, call: Call, pool: Pool) -> float:
        _warm_up(call, pool, self._synchronise)
        return _estimate(lambda calls: self._timed(call, _rotate(pool, calls, 0))[0])

    def _timed(
        self, call: Call, arguments: Iterable[tuple[Any, ...]], before: Callable[[], Any] = lambda: None
    ) -> tuple[float, float]:
        """Host and device milliseconds of these calls from an empty queue, `before` left out."""
        stream = self._cuda.current_stream(self._device)
        first, last = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        before()
        self._synchronise()
        began = self._now()
        first.record(stream)
        _run(call, arguments)
        last.record(stream)
        self._synchronise()
        return (self._now() - began) / 1e6, float(first.elapsed_time(last))

    def _synchronise(self) -> None:
        # The whole device: an engine that works on a stream of its own must not escape the host clock.
        self._cuda.synchronize(self._device)


def _run(call: Call, arguments: Iterable[tuple[Any, ...]]) -> None:
    # A result is dropped as soon as it exists, as in a loop that consumes it; freeing it is part of the cost.
    for inputs in arguments:
        call(*inputs)


def _wake(call: Call, arguments: Sequence[tuple[Any, ...]]) -> None:
    # The worker was asleep and others used the caches: that belongs to no steady state. A block of a single
    # call is so long that it does not matter.
    if len(arguments) > 1:
        call(*arguments[0])


def _delay_ns() -> int | None:
    """How long the calling thread has waited for a processor so far (proc(5), /proc/[pid]/schedstat)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _fall_asleep() -> None:
    # Thread pools spin for a while after their work (OpenMP's for some milliseconds). The worker answers when
    # that is over, because the next block belongs to another worker, who needs the cores.
    deadline = time.perf_counter() + ASLEEP_WITHIN_SECONDS
    used = time.process_time_ns()
    while time.perf_counter() < deadline:
        time.sleep(0.001)
        before, used = used, time.process_time_ns()
        if used - before < 100_000:
            return


def _undisturbed_ms(block: Block) -> float:
    # For choosing the length of blocks only: what is reported is the time that passed. The kernel may book a
    # delay late, into a block that it did not hit; the work done in a block bounds its time from below.
    left = max(block.total_ms - (block.delay_ms or 0.0), block.cpu_ms or 0.0)
    return min(block.total_ms, left)


def _since(before_ns: int | None) -> float | None:
    now = _delay_ns()
    return None if now is None or before_ns is None else (now - before_ns) / 1e6


def _rotate(pool: Pool, calls: int, start: int) -> list[tuple[Any, ...]]:
    return [pool[(start + index) % len(pool)] for index in range(calls)]


def _warm_up(call: Call, pool: Pool, synchronise: Callable[[], None] = lambda: None) -> None:
    # Every entry, because an engine may compile once more when it first meets another density.
    deadline = time.perf_counter() + WARM_UP_SECONDS
    for inputs in pool:
        call(*inputs)
        if time.perf_counter() > deadline:
            break
    synchronise()


def _estimate(total_ms: Callable[[int], float]) -> float:
    calls = 1
    while (spent := total_ms(calls)) < ESTIMATE_MS and calls < 1 << 20:
        calls *= 4
    # The fastest of three, because a disturbed estimate would make every block too short.
    repeats = 2 if spent < LONG_MS else 0
    return min([spent, *(total_ms(calls) for _ in range(repeats))]) / calls


@contextmanager
def _no_collection() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
