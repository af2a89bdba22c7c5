"""An attempt with a real exporter and engine: draws that were folded away, and what is seen without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import models
from exporters.exporter import Finding
from models.case import Workload, load
from runners.study.attempt import Attempt, Outcome, Road
from tests.bad import built as built_backend

SAMPLER = Path(models.__file__).parent / "balanced_sampler.py"
DRAWN = Path(__file__).parent / "cases" / "drawn.py"


@pytest.fixture(autouse=True)
def whatever_the_first_build_took(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("LOAD_SECONDS", "BUILD_SECONDS", "FROZEN_BUILD_SECONDS"):
        monkeypatch.setattr(f"runners.study.anew.{limit}", 600.0)


def attempt(runner: str, exporters: tuple[str, ...], variant: str = "Noisy", **options: Any) -> Outcome:
    case = load(DRAWN)
    road = Road(name="under test", runner=runner, exporters=exporters, device="cpu", options=options)
    return Attempt(case, case.case.variant(variant), road, Workload(), lambda stage: None).outcome()


@pytest.mark.parametrize("batch", [None, 32])
@pytest.mark.parametrize("noise", ["inside", "input"])
def test_a_quiet_fallback_is_partial_whatever_is_drawn(noise: Any, batch: int | None) -> None:
    case = load(SAMPLER)
    workload = case.case.sizes.workload(100, batch, noise)  # type: ignore[union-attr]
    road = Road(name="under test", runner="tests.bad.elsewhere", exporters=(), device="cpu")
    outcome = Attempt(case, case.case.variant("topk_shuffled"), road, workload, lambda stage: None).outcome()
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == ("partial", "verify", "FALLBACK.provider")


@pytest.mark.onnxruntime_cpu
@pytest.mark.parametrize(
    ("exporter", "verdict", "fresh_load", "rebuild"),
    [("exporters.onnx_model", "accepted", True, True), ("tests.bad.folded_noise", "wrong", True, False)],
)
def test_random_nodes_that_were_folded_are_told_from_live_ones(
    exporter: str, verdict: str, fresh_load: bool, rebuild: bool
) -> None:
    road = ("exporters.exported_program", exporter)
    outcome = attempt("runners.onnxruntime", road, provider="CPUExecutionProvider")
    verification = outcome.facts["verification"]
    assert outcome.verdict == verdict
    assert verification["fresh_load_repeats_the_draw"] is fresh_load
    assert verification["rebuild_repeats_the_draw"] is rebuild
    if verdict == "wrong":
        assert outcome.reason is not None
        assert outcome.reason.code == "RNG.frozen"
        assert "the draw is baked into the artifact" in outcome.reason.text
        assert "built anew, it draws something else" in outcome.reason.text


@pytest.mark.tensorrt_rtx
@pytest.mark.parametrize(
    ("exporter", "verdict", "code"),
    [("exporters.onnx_model", "built", "BUILT.no_run"), ("tests.bad.folded_noise", "wrong", "RNG.frozen")],
)
def test_an_engine_whose_draw_was_folded_is_wrong_without_a_run(
    exporter: str, verdict: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporters.tensorrt_engine.capability_here", lambda: None)
    monkeypatch.setattr("runners.tensorrt.capability_here", lambda: None)
    road = ("exporters.exported_program", exporter, "exporters.tensorrt_engine")
    outcome = attempt("runners.tensorrt", road, module="tensorrt_rtx", sm="8.9")
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == (verdict, "build", code)
    assert outcome.facts["random_layers"] == (1 if verdict == "built" else 0)
    assert "built for SM 8.9" in outcome.reason.text


@pytest.mark.parametrize(
    ("found", "verdict", "code"), [("partial", "built", "BUILT.no_run"), ("wrong", "wrong", "RNG.frozen")]
)
def test_what_is_seen_without_a_run_is_in_the_reason(
    found: Any, verdict: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(source: Any, request: Any) -> Any:
        request.findings.append(Finding(found, "RNG.frozen", "1 of 1 random nodes were folded"))
        return whole(source, request)

    whole = built_backend.load
    monkeypatch.setattr(built_backend, "load", load)
    outcome = attempt("tests.bad.built", ())
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.reason.code) == (verdict, code)
    assert "1 of 1 random nodes were folded" in outcome.reason.text
    assert "an engine of 7 bytes" in outcome.reason.text


@pytest.mark.parametrize(
    ("made", "called", "line", "text"),
    [
        ("pass", "raise ValueError('not today')", 6, "ValueError: not today"),
        ("pass", "raise SystemExit(3)", 6, "SystemExit: 3"),
        ("raise ValueError('not made')", "return x", 4, "ValueError: not made"),
    ],
)
def test_a_module_that_raises_is_rejected_at_stage_run_of_eager(
    made: str, called: str, line: int, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "raises.py"
    path.write_text(
        "import torch\n"
        "class Raises(torch.nn.Module):\n"
        "    def __init__(self):\n"
        f"        super().__init__(); {made}\n"
        "    def forward(self, x):\n"
        f"        {called}\n"
        "def example_inputs():\n    return (torch.ones(1),)\n"
    )
    case = load(path)
    road = Road(name="eager", runner="runners.eager", exporters=(), device="cpu")
    outcome = Attempt(case, case.case.variant("Raises"), road, Workload(), lambda stage: None).outcome()
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == ("rejected", "run", "EAGER.failed")
    assert (outcome.reason.where, outcome.reason.text) == (f"raises.py:{line}", text)
    assert outcome.stages["run"].status == "failed"


@pytest.mark.parametrize("at", ["example_inputs", "more_inputs"])
def test_what_eager_raises_is_the_variants_own_failure(at: str, tmp_path: Path) -> None:
    size = {"example_inputs": 3, "more_inputs": 3, at: 4}
    path = tmp_path / "refuses.py"
    path.write_text(
        "import torch\n"
        "class Square(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.view(3, 1)\n"
        f"def example_inputs():\n    return (torch.ones({size['example_inputs']}),)\n"
        f"def more_inputs():\n    return [(torch.ones({size['more_inputs']}),)]\n"
    )
    case = load(path)
    road = Road(name="eager", runner="runners.eager", exporters=(), device="cpu")
    outcome = Attempt(case, case.case.variant("Square"), road, Workload(), lambda stage: None).outcome()
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == ("rejected", "run", "EAGER.failed")
    assert outcome.reason.where == "refuses.py:4"
    assert outcome.reason.text.startswith("at more_inputs()[0]: ") is (at == "more_inputs")
