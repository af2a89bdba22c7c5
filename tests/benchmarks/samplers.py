"""Prints how fast the partition sampler is against the variable one, as ratios of one run.

    python -m tests.benchmarks.samplers [--threads 2] [--quick]

The workloads are the study's. Every row takes its variants in turn, a block of calls each, by the study's clock, which
lets thread pools fall asleep before the next one, and compares medians. Compile time is the first call's CPU time,
compilers started by it included, in a new Inductor cache.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from models.case import CATALOGUE, load
from models.partition import PartitionSampler
from runners.study.clock import clock_for

SHAPES = [(1_000, None), (10_000, None), (100_000, None), (1_000_000, None), (1_000, 32), (10_000, 32)]
"""N and batch."""

ROUNDS, BLOCK_MS = 40, 4.0


def compiled(module: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[..., object]:
    torch._dynamo.reset()
    call = torch.compile(module, fullgraph=True, dynamic=False)
    call(*inputs)
    return call


def ahead_of_time(module: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[..., object]:
    program = torch.export.export(module, inputs)
    return torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))


def onnxruntime_cpu(module: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[..., object]:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "sampler.onnx")
        torch.onnx.export(module, inputs, dynamo=True, verbose=False).save(file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return lambda *args: session.run(None, dict(zip(names, (arg.numpy() for arg in args), strict=True)))


def cpu_seconds() -> float:
    """CPU time of this process and of the compilers it has waited for."""
    return sum(os.times()[:4])


def table(quick: bool) -> None:
    print(
        "| N | batch | variable, ms | top-k compiled | partition compiled | AOTInductor | ONNX Runtime | compile, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    case, clock = load(CATALOGUE / "balanced_sampler.py"), clock_for("cpu")
    assert case.case.sizes is not None
    for n, batch in SHAPES[:1] if quick else SHAPES:
        workload = case.case.sizes.workload(n, batch, "inside")
        variable, topk, partition = (
            case.build(case.case.variant(name), workload) for name in ("nonzero", "topk", "partition")
        )
        inputs = case.inputs(case.case.variant("partition"), workload)
        calls: dict[str, Callable[..., object]] = {"variable": variable}
        start = cpu_seconds()
        calls["topk"] = compiled(topk, inputs)
        middle = cpu_seconds()
        calls["compiled"] = compiled(partition, inputs)
        end = cpu_seconds()
        calls["aot"] = ahead_of_time(partition, inputs)
        calls["ort"] = onnxruntime_cpu(partition, inputs)
        times: dict[str, list[float]] = {name: [] for name in calls}
        with torch.no_grad():
            length = {name: max(1, round(BLOCK_MS / clock.estimate(call, [inputs]))) for name, call in calls.items()}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    block = clock.block(call, [inputs], length[name])
                    times[name].append(block.total_ms / block.calls)
        median = {name: statistics.median(values) for name, values in times.items()}
        ratios = " | ".join(f"{median['variable'] / median[name]:.1f}×" for name in ("topk", "compiled", "aot", "ort"))
        spent = f"top-k {middle - start:.1f}, partition {end - middle:.1f}"
        print(f"| {n:,} | {batch or '–'} | {median['variable']:.3f} | {ratios} | {spent} |", flush=True)


def memory() -> None:
    """Print the peak memory of a call at N = 10 M beyond its inputs, eager and compiled."""
    n = 10_000_000
    features, labels = torch.zeros(n, 1, dtype=torch.float16), (torch.arange(n) % 10 == 0).long()
    sampler = PartitionSampler(1000).eval()
    # Compiled for any N at a small one, so that the compiler's own memory is spent before the measured call.
    call = torch.compile(sampler, fullgraph=True, dynamic=True)
    call(features[:20_000], labels[:20_000])
    before = peak_bytes()
    for name, function in (("compiled", call), ("eager, if that is more", sampler)):
        function(features, labels)
        rise = (peak_bytes() - before) / (labels.numel() * labels.element_size())
        print(f"memory at N = 10 M, {name}: {rise:.2f} x the bytes of int64 labels", flush=True)


def peak_bytes() -> int:
    """Most memory this process has held so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="the smallest shape only")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        memory()
        table(arguments.quick)


if __name__ == "__main__":
    main()
