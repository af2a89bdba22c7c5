"""How many kernels a graph compiled by Inductor launches, counted in its schedule, after fusion.

The count is that of the device compiled for: Inductor fuses otherwise for the CPU than for CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

LAUNCHES_NOTHING = frozenset({"MultiOutput", "AssertScalar", "DynamicScalar"})
"""Inductor's external nodes that stand for no kernel: one output of several, and what the host does alone."""


@contextmanager
def counted_kernels(facts: dict[str, Any]) -> Iterator[None]:
    """Note as `facts["kernels"]` what the graphs that Inductor compiles in this block launch in one call: a kernel
    for each loop nest and one for each operator it leaves to a library, which may launch more.

    Nothing is noted where Inductor schedules nothing (another compiler, a graph from its cache) or where this
    torch's Inductor has no such schedule.
    """
    try:
        from torch._inductor.scheduler import Scheduler
        from torch._inductor.virtualized import V
    except ImportError:
        yield
        return
    codegen = getattr(Scheduler, "codegen", None)
    if codegen is None:
        yield
        return
    graphs: dict[Any, int] = {}  # by graph: a graph may be scheduled twice, first to tune it

    def counting(scheduler: Any) -> Any:
        graphs[V.graph] = sum(launches(node) for node in scheduler.nodes)
        return codegen(scheduler)

    with mock.patch.object(Scheduler, "codegen", counting):
        yield
    if graphs:
        facts["kernels"] = sum(graphs.values())


def launches(node: Any) -> int:
    """The kernels of one node of a fused schedule."""
    kind = type(node).__name__
    if kind == "NopKernelSchedulerNode":
        return 0
    if kind == "GroupedSchedulerNode":
        return sum(launches(inner) for inner in node.snodes)
    if kind == "OuterLoopFusedSchedulerNode":  # the CPU's own: loop nests that share their outer loop alone
        return len(node.get_outer_nodes())
    if node.is_extern():
        return int(type(node.node).__name__ not in LAUNCHES_NOTHING)
    return 1
