"""The audit: where a variant makes the host wait for the device, and whether a CUDA graph could hold it.

`forecast` runs a module once, on the CPU and on real values, and judges every operator by its tags (PyTorch:
aten/src/ATen/native/tags.yaml) and by what is known of its CUDA kernel. `count`, `profile` and `capture` find out on a
card (docs.pytorch.org: torch.cuda.set_sync_debug_mode, torch.profiler, torch.cuda.graph). `trace` writes a
profile. None of them belongs into a timed pass.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from torch import nn

Call = Callable[..., Any]

SYNCHRONISING = "called a synchronizing CUDA operation"
"""What torch's sync debug mode says of each wait."""

AUDITED = "audited call"
"""How the call that is counted is named in its profile."""


class Wait(msgspec.Struct, frozen=True):
    """One reason for the host to wait: the operator, why, the user's `file:line` (None when the wait arises
    outside the case file), and how often it comes in one call."""

    operator: str
    why: str
    where: str | None
    count: int


class HostWaits(msgspec.Struct, frozen=True):
    """What one call of a variant would do on CUDA.

    `total` counts waits, `launches` the operators that compute (views and factories of host constants left
    out; an operator may launch more than one kernel). `capturable` says whether a CUDA graph could hold the
    call; `obstacles` says what forbids it.
    """

    total: int
    waits: list[Wait]
    launches: int
    capturable: bool
    obstacles: list[str]

    def facts(self) -> dict[str, Any]:
        """For `cell.facts`: one entry per wait, the launches, and the verdict on CUDA graphs."""
        return {
            "host_waits_forecast": _entries(self.waits),
            "kernel_launches": self.launches,
            "cuda_graph_forecast": "capturable" if self.capturable else "; ".join(self.obstacles),
        }


class CountedWaits(msgspec.Struct, frozen=True):
    """The waits of one call on CUDA that torch's sync debug mode reported, with the lines it blamed."""

    total: int
    waits: list[Wait]

    def facts(self) -> dict[str, Any]:
        """For `cell.facts`: one entry per wait."""
        return {"host_waits_counted": _entries(self.waits)}


class Profiled(msgspec.Struct, frozen=True):
    """What the profiler saw of one call on CUDA, whoever made it: kernels, copies to the host, and synchronising
    calls of the runtime."""

    kernels: int
    copies_to_host: int
    synchronisations: int

    def facts(self) -> dict[str, Any]:
        """For `cell.facts`."""
        return {
            "kernels_counted": self.kernels,
            "copies_to_host": self.copies_to_host,
            "synchronisations": self.synchronisations,
        }


class Capture(msgspec.Struct, frozen=True):
    """Whether a CUDA graph took the call and replayed it; else the text of the refusal."""

    captured: bool
    text: str | None = None

    def facts(self) -> dict[str, Any]:
        """For `cell.facts`."""
        return {"cuda_graph": "captured" if self.captured else f"refused: {self.text}"}


def forecast(module: nn.Module, inputs: Sequence[Any], case_path: str | Path) -> HostWaits:
    """Run `module` once on copies of `inputs` and say where it would wait on CUDA.

    Tensors that the module makes without naming a device are taken to live on the host, all others on the
    device. Known gap: `x.to(torch.device("cpu"))` is not seen as a copy, because on the CPU it cannot be told
    from `x.to(other.device)`; `x.to("cpu")` and `x.cpu()` are.
    """
    import torch

    from runners.study.watch import Watch

    watch = Watch(lambda: _user_line(str(Path(case_path).resolve())))
    copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad(), torch.random.fork_rng(devices=[]), watch.watching():
        module(*copies)
    waits = [Wait(*key, count) for key, count in watch.waits.items()]
    obstacles = [f"{wait.operator}: {wait.why}" for wait in waits] + sorted(watch.uncapturable)
    return HostWaits(
        total=sum(wait.count for wait in waits),
        waits=waits,
        launches=watch.launches,
        capturable=not obstacles,
        obstacles=list(dict.fromkeys(obstacles)),
    )


def count(call: Call, inputs: Sequence[Any]) -> CountedWaits:
    """Count the waits of one warm call on CUDA that torch itself knows of."""
    import torch

    call(*inputs)
    torch.cuda.synchronize()
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    lines = Counter(f"{Path(one.filename).name}:{one.lineno}" for one in caught if SYNCHRONISING in str(one.message))
    return CountedWaits(
        total=sum(lines.values()),
        waits=[Wait("cuda", SYNCHRONISING, where, number) for where, number in lines.items()],
    )


def profile(call: Call, inputs: Sequence[Any]) -> Profiled:
    """Count what one warm call does on CUDA. The profiler stays attached to the process: time nothing after it."""
    import torch
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as profiled

    call(*inputs)
    torch.cuda.synchronize()
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        with record_function(AUDITED):
            call(*inputs)
        torch.cuda.synchronize()
    return seen(profiler.events() or [])


def seen(events: Sequence[Any]) -> Profiled:
    """What the profiler's events say of the call inside `record_function(AUDITED)`.

    On the device nothing else was at work; of the host's events only those within the call count, since the profiler
    and the closing synchronisation wait too.
    """
    on_device = [event.name for event in events if _on_device(event) and event.name != AUDITED]
    span = next(event.time_range for event in events if event.name == AUDITED and not _on_device(event))
    inside = [
        event.name for event in events if not _on_device(event) and span.start <= event.time_range.start < span.end
    ]
    return Profiled(
        kernels=sum(not name.startswith(("Memcpy", "Memset")) for name in on_device),
        copies_to_host=sum("Memcpy DtoH" in name for name in on_device),
        synchronisations=sum(name.startswith("cuda") and "Synchronize" in name for name in inside),
    )


def capture(call: Call, inputs: Sequence[Any]) -> Capture:
    """Try to capture one call in a CUDA graph and replay it. A refused capture may leave the process's
    generator and stream unusable: make this the last thing a worker does."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):  # warm up on a side stream, as the documentation asks
            for _ in range(3):
                call(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call(*inputs)
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:  # whatever it is, it is the answer
        return Capture(False, f"{type(error).__name__}: {error}")
    return Capture(True)


def trace(
    call: Call, pool: Sequence[tuple[Any, ...]], path: Path, wait: int = 1, warmup: int = 1, active: int = 3
) -> None:
    """Write a Chrome trace of `active` calls to `path`, after `wait` calls unseen and `warmup` discarded."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    path.parent.mkdir(parents=True, exist_ok=True)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for index in range(wait + warmup + active):
            with record_function("call"):
                call(*pool[index % len(pool)])
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            profiler.step()


def fingerprints(call: Call, pool: Sequence[tuple[Any, ...]]) -> list[int]:
    """One checksum per entry of the pool, over every output's shape, dtype and bytes."""
    return [_checksum(call(*inputs)) for inputs in pool]


def answers_repeat(own: Sequence[int], reference: Sequence[int]) -> bool:
    """Whether a callable gave one answer to two inputs to which the reference gave two.

    This exposes a callable that keeps its result although its inputs change: it would be timed for work
    that it does not do. Equal answers alone prove nothing, since different inputs may share an answer.
    """
    pairs = combinations(range(len(own)), 2)
    return any(own[i] == own[j] and reference[i] != reference[j] for i, j in pairs)


def _entries(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    return [
        {"operator": wait.operator, "why": wait.why, "where": wait.where} for wait in waits for _ in range(wait.count)
    ]


def _user_line(case_path: str) -> str | None:
    """`name:line` of the innermost frame that runs the case file's code."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == case_path:
            return f"{Path(case_path).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _on_device(event: Any) -> bool:
    return bool(event.device_type.name == "CUDA")


def _checksum(value: Any, start: int = 0) -> int:
    if isinstance(value, (tuple, list)):
        for item in value:
            start = _checksum(item, start)
        return start
    if not hasattr(value, "dtype"):
        return zlib.crc32(repr(value).encode(), start)
    start = zlib.crc32(f"{tuple(value.shape)} {value.dtype}".encode(), start)
    if hasattr(value, "tobytes"):
        return zlib.crc32(value.tobytes(), start)
    import torch

    return zlib.crc32(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy(), start)
