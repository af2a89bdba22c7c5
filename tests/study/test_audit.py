"""The audit: forecasts of host waits with the user's line, kept results exposed, traces written."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models import case
from runners.study import audit
from runners.study.watch import CHECKED, MASK, SIZE, TO_DEVICE, TO_HOST, VALUE

CATALOGUE = Path(case.__file__).parent

Forecast = Callable[[str], audit.HostWaits]


@pytest.fixture
def forecast(tmp_path: Path) -> Forecast:
    """The forecast for a forward with this body, over values x, a mask m and positions i; its body begins on
    line 6 of case.py."""

    def of(body: str) -> audit.HostWaits:
        path = tmp_path / "written.py"
        head = "import torch\n\n\nclass Written(torch.nn.Module):\n    def forward(self, x, m, i):\n"
        path.write_text(head + textwrap.indent(textwrap.dedent(body), " " * 8))
        module = case.load(_with_example(path)).module.Written()
        x = torch.tensor([0.5, 2.0, 0.1, 3.0])
        return audit.forecast(module, (x, x > 1, torch.tensor([3, 0])), path)

    return of


def _with_example(path: Path) -> Path:
    path.write_text(path.read_text() + "\n\n\ndef example_inputs():\n    return ()\n")
    return path


@pytest.mark.parametrize(
    ("body", "operator", "why"),
    [
        ("return x[m]", "aten::index", MASK),
        ("x[m] = x[m].exp()", "aten::index_put_", MASK),
        ("return torch.nonzero(m)", "aten::nonzero", SIZE),
        ("return torch.where(m)", "aten::nonzero", SIZE),
        ("return torch.unique(i)", "aten::_unique2", SIZE),
        ("return torch.masked_select(x, m)", "aten::masked_select", SIZE),
        ("return torch.bincount(i)", "aten::bincount", SIZE),
        ("return torch.repeat_interleave(i, i)", "aten::repeat_interleave", SIZE),
        ("return x.sum().item()", "aten::_local_scalar_dense", VALUE),
        ("return int(i[0])", "aten::_local_scalar_dense", VALUE),
        ("if m.any():\n    return x", "aten::_local_scalar_dense", VALUE),
        ("return torch.equal(x, x)", "aten::equal", VALUE),
        ("return torch.multinomial(x, 2)", "aten::multinomial", CHECKED),
        ("return x.cpu()", "cpu", TO_HOST),
        ("return x.to('cpu')", "to", TO_HOST),
        ("return x.tolist()", "tolist", TO_HOST),
        ("return torch.tensor([1.0], device=x.device)", "tensor", TO_DEVICE),
        ("return x[torch.randperm(4)]", "aten::index", TO_DEVICE),
        ("return x[[0, 1]]", "aten::index", TO_DEVICE),
    ],
)
def test_what_waits_is_told_with_its_reason_and_forbids_a_cuda_graph(
    forecast: Forecast, body: str, operator: str, why: str
) -> None:
    found = forecast(body)
    assert (operator, why) in {(wait.operator, wait.why) for wait in found.waits}
    assert found.total >= 1
    assert not found.capturable
    assert any(operator in obstacle for obstacle in found.obstacles)


@pytest.mark.parametrize(
    "body",
    [
        "return x[i]",
        "return x[1:3]",
        "return torch.where(m, x, -x)",
        "x[m] = 0",
        "x[i] = x[:2] + 1",
        "return x[torch.randperm(4, device=x.device)]",
        "return x.topk(2)",
        "return torch.repeat_interleave(i, 2)",
        "return torch.repeat_interleave(x[:2], i, output_size=3)",
        "return torch.multinomial(x, 2, replacement=True)",
        "return torch.arange(4).sum().item()",
        "return x.to(torch.float64)",
        "return x.new_zeros(3)",
    ],
)
def test_what_does_not_wait_is_not_accused(forecast: Forecast, body: str) -> None:
    found = forecast(body)
    assert found.waits == []
    assert found.capturable


def test_each_wait_has_the_line_of_the_case_file_and_its_count(forecast: Forecast) -> None:
    found = forecast(
        """\
        total = 0.0
        for row in x:
            total += float(row)
        return torch.nonzero(m)
        """
    )
    assert [(wait.where, wait.count) for wait in found.waits] == [("written.py:8", 4), ("written.py:9", 1)]
    assert found.total == 5
    assert [entry["where"] for entry in found.facts()["host_waits_forecast"]] == ["written.py:8"] * 4 + ["written.py:9"]


def test_launches_leave_out_views_and_what_stays_on_the_host(forecast: Forecast) -> None:
    assert forecast("return x[1:3].view(2, 1).exp() + 1").launches == 2
    assert forecast("return torch.arange(4).sum()").launches == 0


def test_the_forecast_leaves_inputs_and_the_generator_as_they_were() -> None:
    class Changes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(torch.rand_like(x))

    x = torch.zeros(3)
    state = torch.get_rng_state()
    audit.forecast(Changes(), (x,), "nowhere.py")
    assert x.tolist() == [0, 0, 0]
    assert torch.equal(torch.get_rng_state(), state)


def test_the_article_s_sampler_waits_twice_and_its_rewrite_never() -> None:
    module = case.load(CATALOGUE / "balanced_sampler.py")
    assert module.case.sizes is not None
    workload = module.case.sizes.workload(1000, None, "inside")
    found = {
        name: audit.forecast(module.build(variant, workload), module.inputs(variant, workload), module.case.path)
        for name in ("nonzero", "topk")
        for variant in [module.case.variant(name)]
    }
    assert [wait.operator for wait in found["nonzero"].waits] == ["aten::nonzero"] * 2
    assert all(str(wait.where).startswith("balanced_sampler.py:") for wait in found["nonzero"].waits)
    assert (found["topk"].total, found["topk"].capturable) == (0, True)


def test_a_kept_result_is_exposed_and_equal_answers_alone_are_not() -> None:
    pool = [(torch.tensor([1.0, 2.0]),), (torch.tensor([3.0, 4.0]),), (torch.tensor([1.0, 2.0]),)]
    reference = audit.fingerprints(lambda x: x * 2, pool)
    kept = torch.zeros(2)
    assert reference[0] == reference[2] != reference[1]
    assert audit.answers_repeat(audit.fingerprints(lambda x: kept, pool), reference)
    assert not audit.answers_repeat(audit.fingerprints(lambda x: x + 1, pool), reference)
    constant = audit.fingerprints(lambda x: x.shape, pool)
    assert not audit.answers_repeat(constant, constant)


def test_fingerprints_tell_dtypes_shapes_and_empty_outputs_apart() -> None:
    outputs: list[Any] = [
        torch.zeros(0),
        torch.zeros(0, 2),
        torch.zeros(2),
        torch.zeros(2, dtype=torch.int32),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.tensor(True),
        (torch.zeros(2), 3),
        None,
    ]
    assert len(set(audit.fingerprints(lambda index: outputs[index], [(i,) for i in range(len(outputs))]))) == 8


def test_a_trace_holds_the_active_calls_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "cell.json"
    audit.trace(torch.exp, [(torch.ones(4),), (torch.zeros(4),)], path)
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(event.get("name") == "call" for event in events) == 3
    assert sum(event.get("name") == "aten::exp" for event in events) == 3


def event(name: str, at: int, device: str = "CPU", until: int = 0) -> Any:
    return SimpleNamespace(
        name=name, device_type=SimpleNamespace(name=device), time_range=SimpleNamespace(start=at, end=until)
    )


def test_the_profile_counts_what_the_call_did_and_not_what_surrounds_it() -> None:
    found = audit.seen(
        [
            event(audit.AUDITED, 25, "CUDA", 70),  # the profiler marks the call on the device too
            event("cudaDeviceSynchronize", 5),  # the profiler's own
            event(audit.AUDITED, 10, until=60),
            event("cudaLaunchKernel", 12),
            event("void nonzero_kernel", 30, "CUDA"),
            event("Memset (Device)", 31, "CUDA"),
            event("Memcpy DtoH (Device -> Pageable)", 40, "CUDA"),
            event("cudaStreamSynchronize", 45),
            event("void gather_kernel", 65, "CUDA"),  # queued by the call, run after it returned
            event("cudaDeviceSynchronize", 61),  # ours
        ]
    )
    assert found.facts() == {"kernels_counted": 2, "copies_to_host": 1, "synchronisations": 1}


BODIES = {
    "nonzero": lambda x: torch.nonzero(x > 0),
    "mask": lambda x: x[x > 0],
    "item": lambda x: x * x.sum().item(),
    "copy": lambda x: x.cpu(),
    "none": lambda x: x.topk(2).values,
}


class Body(torch.nn.Module):
    def __init__(self, body: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(x)


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(BODIES))
def test_the_forecast_against_the_count(name: str) -> None:
    x = torch.randn(1000)
    expected = audit.forecast(Body(BODIES[name]), (x,), __file__)
    counted = audit.count(BODIES[name], (x.cuda(),))
    assert (expected.total > 0) == (counted.total > 0)
    profiled = audit.profile(BODIES[name], (x.cuda(),))
    assert (expected.total > 0) == (profiled.copies_to_host > 0)
    assert profiled.kernels >= expected.launches - (name == "copy")


@pytest.mark.gpu
def test_what_waits_cannot_be_captured_and_what_does_not_can() -> None:
    x = torch.randn(1000, device="cuda")
    # The refused capture comes last: it may leave the process unfit for more.
    assert audit.capture(BODIES["none"], (x,)).captured
    refused = audit.capture(BODIES["item"], (x,))
    assert not refused.captured
    assert refused.text
