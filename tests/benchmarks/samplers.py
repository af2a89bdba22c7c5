"""Prints how fast the partition sampler is against the variable one, as ratios of one run.

    python -m tests.benchmarks.samplers [--threads 2] [--quick]

Every row interleaves its variants call by call and compares medians. K is N / 10, features have four columns,
a tenth of
the labels is positive. Compile time is the first call's CPU time, compilers started by it included.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from models.partition import PartitionSampler

SHAPES = [(1000,), (10_000,), (100_000,), (1_000_000,), (32, 1000), (32, 10_000)]


def variable(features: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The article's variable form; a batch is a loop."""
    if labels.dim() == 2:
        images = [variable(f, y, k) for f, y in zip(features, labels, strict=True)]
        return torch.stack([rows for rows, _ in images]), torch.stack([y for _, y in images])
    positive, negative = (labels == 1).nonzero().squeeze(1), (labels == 0).nonzero().squeeze(1)
    take_positive, take_negative = min(positive.numel(), k // 2), min(negative.numel(), k // 2)
    if take_negative < k // 2:
        take_positive = min(positive.numel(), k - take_negative)
    else:
        take_negative = min(negative.numel(), k - take_positive)
    chosen = torch.cat(
        [
            positive[torch.randperm(positive.numel())[:take_positive]],
            negative[torch.randperm(negative.numel())[:take_negative]],
        ]
    )
    chosen = chosen[torch.randperm(chosen.numel())]
    return features[chosen], labels[chosen]


class TopK(nn.Module):
    """The article's static form, with fresh keys for the last ranking."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        k, half = self.k, self.k // 2
        slot = torch.arange(k, device=labels.device)
        keys = torch.rand(labels.shape, device=labels.device)
        _, positive = torch.where(labels == 1, keys, -1.0).topk(k, dim=-1)
        _, negative = torch.where(labels == 0, keys, -1.0).topk(k, dim=-1)
        many_positives = (labels == 1).sum(-1, keepdim=True)
        many_negatives = (labels == 0).sum(-1, keepdim=True)
        take_negative = torch.minimum(many_negatives, k - many_positives.clamp(max=half))
        take_positive = torch.minimum(many_positives, k - take_negative)
        fresh = torch.rand(*labels.shape[:-1], 2 * k, device=labels.device)
        taken = torch.cat([slot < take_positive, slot < take_negative], -1)
        place = torch.where(taken, fresh, -1.0).topk(k, dim=-1).indices
        index = torch.cat([positive, negative], -1).gather(-1, place)
        rows = features.gather(-2, index.unsqueeze(-1).expand(*index.shape, features.shape[-1]))
        return rows, labels.gather(-1, index)


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


def example(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    labels = (torch.rand(shape) < 0.1).long()
    labels[..., : shape[-1] // 20] = 1
    return torch.randn(*shape, 4), labels


def table(quick: bool) -> None:
    print("shape | variable ms | top-k compiled | partition compiled | AOTInductor | ONNX Runtime | compile s")
    for shape in SHAPES[:1] if quick else SHAPES:
        inputs, k = example(shape), shape[-1] // 10
        partition = PartitionSampler(k).eval()
        calls: dict[str, Callable[..., object]] = {"variable": lambda *args, k=k: variable(*args, k)}
        start = cpu_seconds()
        calls["topk"] = compiled(TopK(k), inputs)
        middle = cpu_seconds()
        calls["compiled"] = compiled(partition, inputs)
        end = cpu_seconds()
        calls["aot"] = ahead_of_time(partition, inputs)
        calls["ort"] = onnxruntime_cpu(partition, inputs)
        times: dict[str, list[float]] = {name: [] for name in calls}
        with torch.no_grad():
            for _ in range(400 if inputs[1].numel() < 50_000 else 25):
                for name, call in calls.items():
                    begin = time.perf_counter()
                    call(*inputs)
                    times[name].append(time.perf_counter() - begin)
        median = {name: statistics.median(values) for name, values in times.items()}
        ratios = " | ".join(f"{median['variable'] / median[name]:.2f}x" for name in ("topk", "compiled", "aot", "ort"))
        spent = f"top-k {middle - start:.1f}, partition {end - middle:.1f}"
        print(f"{shape} | {median['variable'] * 1e3:.3f} | {ratios} | {spent}", flush=True)


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
    memory()
    table(arguments.quick)


if __name__ == "__main__":
    main()
