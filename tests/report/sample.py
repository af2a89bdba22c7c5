"""A record made by hand: the article's sampler, three variants on eight backends at five workloads.

`nonzero` is the variable form; `topk` is static and wrong in eager (its order is not random);
`topk_shuffled` is static and sound. What each backend does with them follows what was seen.
"""

from __future__ import annotations

from typing import Any

from models.case import Noise, Workload
from runners.study.record import Cell, Environment, Reason, Record, StageOutcome, Timing

CASE = "balanced_sampler"
KINDS = {"nonzero": "variable", "topk": "static", "topk_shuffled": "static"}
_SIZES: tuple[tuple[int, int | None, Noise], ...] = (
    (1_000, None, "inside"),
    (10_000, None, "inside"),
    (100_000, None, "inside"),
    (1_000, 32, "inside"),
    (1_000, None, "input"),
)
WORKLOADS = tuple(
    Workload(
        n=n, k=n // 10, batch=batch, dim=16, dtype="float32", label_dtype="int64", positives=0.5, noise=noise, seed=0
    )
    for n, batch, noise in _SIZES
)
AVAILABLE = ("eager", "compile", "compile_fullgraph", "export", "onnxruntime_cpu", "tensorrt_rtx")
ABSENT = ("onnxruntime_cuda", "tensorrt")

GUARD = """GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).

Caused by: (models/balanced_sampler.py:41 in forward)
The following call raised this error:
  File "models/balanced_sampler.py", line 41, in forward
    if positives.numel() > quota:"""
TOP_K = "[E] ITopKLayer node_topk: K exceeds the maximum value allowed (10000 > 3840) | In `addTopK` at <parser>"
NO_CUDA = "CUDAExecutionProvider is not in the session (to provide it: an NVIDIA GPU)"
STATISTICS = {
    # as models.draw_statistics and a case's `statistics` note them
    "false_alarm": 1e-6,
    "50 % positives": {
        "draws": 1_128,
        "inclusion of positives": {"p": 0.26, "sees_bias_of": 0.0416},
        "order of the classes": {"p": 0.07, "sees_bias_of": 0.031},
    },
    "90 % positives": {"draws": 94, "order of the items": {"p": 0.5, "sees_bias_of": 0.1044}},
}
UNBATCHED_MS = {1_000: 0.2, 10_000: 1.0, 100_000: 8.0}
SPEED_UPS = {
    # per N unbatched, then batch 32
    ("eager", "nonzero"): (1.0, 1.0, 1.0, 1.0),
    ("compile", "nonzero"): (0.9, 1.0, 1.02, 1.1),
    ("eager", "topk"): (0.5, 0.4, 0.35, 4.0),
    ("compile", "topk"): (0.8, 1.25, 2.0, 8.0),
    ("compile_fullgraph", "topk"): (0.8, 1.25, 2.0, 8.0),
    ("export", "topk"): (0.4, 0.4, 0.3, 4.0),
    ("onnxruntime_cpu", "topk"): (0.5, 0.9, 1.5, 3.0),
    ("eager", "topk_shuffled"): (0.4, 0.35, 0.3, 3.0),
    ("compile", "topk_shuffled"): (0.5, 1.0, 2.0, 6.0),
    ("compile_fullgraph", "topk_shuffled"): (0.5, 1.0, 2.0, 6.0),
    ("export", "topk_shuffled"): (0.35, 0.3, 0.25, 3.0),
    ("onnxruntime_cpu", "topk_shuffled"): (0.4, 0.8, 1.3, 2.5),
}


def environment(identifier: str = "cpu-2core", **changes: Any) -> Environment:
    about: dict[str, Any] = {
        "id": identifier,
        "device": "cpu",
        "cpu": "Xeon, 2 cores",
        "python": "3.11.4",
        "packages": {"torch": "2.13.0", "onnxruntime-gpu": "1.31.1"},
        "when": "2026-11-29T15:00:00Z",
        "flags": {"threads": 2, "copy_gb_per_s": 11.2},
    }
    return Environment(**(about | changes))


def cell(variant: str = "nonzero", backend: str = "eager", workload: Workload = WORKLOADS[0], **changes: Any) -> Cell:
    about: dict[str, Any] = {
        "case": CASE,
        "variant": variant,
        "kind": KINDS.get(variant, "static"),
        "backend": backend,
        "environment": "cpu-2core",
        "workload": workload,
        "verdict": "accepted",
    }
    return Cell(**(about | changes))


def timing(median_ms: float, ratio: float | None = None, spread: float = 0.03, **changes: Any) -> Timing:
    about: dict[str, Any] = {
        "median_ms": median_ms,
        "iqr_ms": 0.06 * median_ms,
        "samples_ms": [median_ms * factor for factor in (0.95, 0.98, 1.0, 1.03, 1.08)],
        "method": "CPU: monotonic clock around a block of calls; 12 calls a block, one block a round, order shuffled",
        "ratio": ratio,
        "ratio_low": None if ratio is None else ratio * (1 - spread),
        "ratio_high": None if ratio is None else ratio * (1 + spread),
        "more": {"rounds": 5, "calls_per_block": 12, "unstable": False},
    }
    return Timing(**(about | changes))


def full(identifier: str = "cpu-2core", faster: float = 1.0) -> Record:
    """The whole sample as one environment's record; `faster` divides its times."""
    cells = [
        _judged(variant, backend, workload, identifier, faster)
        for variant in KINDS
        for backend in (*AVAILABLE, *ABSENT)
        for workload in WORKLOADS
    ]
    return Record(environments=[environment(identifier)], cells=cells)


def _judged(variant: str, backend: str, workload: Workload, identifier: str, faster: float) -> Cell:
    about: dict[str, Any] = {"environment": identifier, "repro": _script(variant, backend, workload)}
    about |= _verdict(variant, backend, workload)
    speed_ups = SPEED_UPS.get((backend, variant))
    if speed_ups and workload.noise == "inside":
        index = 3 if workload.batch else list(UNBATCHED_MS).index(workload.n or 0)
        reference = UNBATCHED_MS[workload.n or 0] * (24 if workload.batch else 1) / faster
        about["timing"] = timing(
            reference / speed_ups[index], speed_ups[index], floor_ms=(workload.n or 0) * 1e-5 * (workload.batch or 1)
        )
    return cell(variant, backend, workload, **about)


def _verdict(variant: str, backend: str, workload: Workload) -> dict[str, Any]:
    passed = {"capture": StageOutcome("ok", 0.4), "build": StageOutcome("ok", 1.8 + (workload.n or 0) / 1e5)}
    if backend == "onnxruntime_cuda":
        return _refused("unavailable", "build", "ENV.no_device", NO_CUDA)
    if backend == "tensorrt":
        return _refused("unavailable", "build", "ENV.no_package", "No module named 'tensorrt'")
    if variant == "nonzero":
        if backend == "compile":
            partial = _refused("partial", "verify", "GRAPH.breaks", "2 graph breaks: Tensor.nonzero, Tensor.item")
            return partial | {"stages": passed, "facts": {"graph_breaks": 2, "graphs": 3}}
        if backend != "eager":
            refused = _refused("rejected", "capture", "DDS.guard", GUARD, "balanced_sampler.py:41")
            return refused | {"stages": {"capture": StageOutcome("failed", 0.7)}}
        waits = [{"operator": "aten.nonzero", "where": "balanced_sampler.py:38"}] * 2
        return {"facts": {"host_waits_forecast": waits, "kernel_launches": 15, "floor_bytes": 22_400}}
    if variant == "topk" and backend == "eager":
        return _refused("wrong", "verify", "ORDER.biased", "positives come first in every draw: p < 1e-12")
    if backend == "tensorrt_rtx":
        if workload.n == 100_000:
            failed = {"stages": {"build": StageOutcome("failed", 2)}}
            return _refused("rejected", "build", "LIMIT.topk_k", TOP_K) | failed
        return _refused("built", "run", "BUILT.no_run", "built for SM 8.9") | {
            "stages": passed,
            "facts": {"engine_bytes": 210_000 + (workload.n or 0)},
        }
    facts: dict[str, Any] = {"verification": {"statistics": STATISTICS}} if workload.noise == "inside" else {}
    if backend == "compile":
        facts["trace"] = f"traces/{variant}-{workload.n}.json"
    return {"stages": passed, "facts": facts}


def _refused(verdict: str, stage: str, code: str, text: str, where: str | None = None) -> dict[str, Any]:
    return {"verdict": verdict, "stage": stage, "reason": Reason(code=code, text=text, where=where)}


def _script(variant: str, backend: str, workload: Workload) -> str:
    batch = f"-b{workload.batch}" if workload.batch else ""
    return f"repro/{CASE}-{variant}-{backend}-n{workload.n}{batch}-{workload.noise}.py"
