"""The clock against a public one: `python -m tests.benchmarks.against_public_tools` prints a Markdown table.

The same callables, in the same process, are timed by this project's clock in rounds and by
torch.utils.benchmark's blocked autorange (docs.pytorch.org/docs/stable/benchmark_utils.html), in turn, so
that drift hits both. The medians should agree within 5 %; on a machine that others use they need not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.benchmark import Timer

from models.case import CATALOGUE, load
from runners.study.clock import Block, clock_for
from runners.study.intervals import spread

CASE, VARIANT = "balanced_sampler", "topk"

BLOCK_MS = 10.0


def callables(module: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Eager, compiled and ONNX Runtime on the CPU, each ready to be called with torch tensors."""
    yield "eager", module
    yield "compile", torch.compile(module)
    try:
        import onnxruntime
    except ImportError:
        return
    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert program is not None
    content = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run(*tensors: torch.Tensor) -> Any:
        return session.run(None, dict(zip(names, (tensor.numpy() for tensor in tensors), strict=True)))

    yield "onnxruntime_cpu", run


def compare(call: Callable[..., Any], inputs: tuple[Any, ...], rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds per call by our clock and by the public one, a sample of each per round."""
    clock, pool = clock_for("cpu"), [inputs]
    timer = Timer("call(*inputs)", globals={"call": call, "inputs": inputs}, num_threads=torch.get_num_threads())
    calls = max(1, round(BLOCK_MS / clock.estimate(call, pool)))
    ours, theirs = [], []
    for _ in range(rounds):
        block: Block = clock.block(call, pool, calls)
        ours.append(block.total_ms / block.calls)
        theirs.append(timer.blocked_autorange(min_run_time=BLOCK_MS / 1e3).median * 1e3)
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    module = load(CATALOGUE / f"{CASE}.py")
    variant = module.case.variant(VARIANT)
    assert module.case.sizes is not None
    print("| callable | N | this clock, ms | spread | blocked autorange, ms | spread | ours over theirs |")
    print("|---|---|---|---|---|---|---|")
    for n in arguments.sizes:
        workload = module.case.sizes.workload(n, None, "input")
        inputs = module.inputs(variant, workload)
        with torch.no_grad():
            for name, call in callables(module.build(variant, workload), inputs):
                ours, theirs = compare(call, inputs, arguments.rounds)
                mine, other = statistics.median(ours), statistics.median(theirs)
                print(
                    f"| {name} | {n:,} | {mine:.4g} | {spread(ours) / mine:.0%} | {other:.4g} | "
                    f"{spread(theirs) / other:.0%} | {mine / other:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
