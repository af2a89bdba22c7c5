"""Kernels of Inductor's schedules: what launches something is counted, what launches nothing is not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from exporters.kernels import counted_kernels, launches


def node(kind: str, inner: Any = None, **methods: Any) -> Any:
    return type(kind, (), {"is_extern": lambda self: inner is not None, "node": inner, **methods})()


LOOP = node("SchedulerNode")
CALL = node("ExternKernelSchedulerNode", node("FallbackKernel"))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (LOOP, 1),
        (node("FusedSchedulerNode"), 1),
        (node("ForeachKernelSchedulerNode"), 1),
        (CALL, 1),
        (node("ExternKernelSchedulerNode", node("MultiOutput")), 0),
        (node("ExternKernelSchedulerNode", node("AssertScalar")), 0),
        (node("NopKernelSchedulerNode"), 0),
        (node("OuterLoopFusedSchedulerNode", get_outer_nodes=lambda self: (LOOP, LOOP, LOOP)), 3),
        (node("GroupedSchedulerNode", snodes=[LOOP, CALL, node("NopKernelSchedulerNode")]), 2),
    ],
)
def test_what_a_node_launches(one: Any, expected: int) -> None:
    assert launches(one) == expected


def best_of_sines(x: Tensor) -> Tensor:
    """One fused loop, one library call, whose first output the second loop takes."""
    return ((x.sin() + 1) * 2).topk(4).values.cos() * 3


@pytest.mark.compile
@pytest.mark.parametrize(("call", "expected"), [(lambda x: x.sin() + x.cos(), 1), (best_of_sines, 3)])
def test_kernels_of_a_compiled_graph(call: Callable[[Tensor], Tensor], expected: int) -> None:
    torch._dynamo.reset()
    facts: dict[str, Any] = {}
    with torch._inductor.config.patch(force_disable_caches=True), counted_kernels(facts):
        torch.compile(call)(torch.rand(64))
    assert facts == {"kernels": expected}


def test_nothing_is_noted_where_inductor_schedules_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts: dict[str, Any] = {}
    with counted_kernels(facts):
        torch.compile(torch.sin, backend="eager")(torch.rand(3))
    monkeypatch.setattr("torch._inductor.scheduler.Scheduler", SimpleNamespace())
    with counted_kernels(facts):
        pass
    assert facts == {}
