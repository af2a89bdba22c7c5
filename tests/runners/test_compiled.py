"""torch.compile: what ran in eager in place of a graph is told, whichever way Dynamo gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.case import Workload, load
from runners import compiled
from runners.study.attempt import Attempt, Outcome, road

CASES = Path(__file__).parent.parent / "cases"


def attempt(case: str, variant: str, backend: str) -> Outcome:
    module = load(CASES / f"{case}.py")
    return Attempt(module, module.case.variant(variant), road(backend, {}, False), Workload(), lambda _: None).outcome()


@pytest.mark.compile
@pytest.mark.parametrize("variant", ["Dynamic"])
def test_a_function_left_to_eager_is_partial(variant: str) -> None:
    outcome = attempt("breaks_in_a_loop", variant, "compile")
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.reason.code) == ("partial", "GRAPH.breaks")


@pytest.mark.compile_fullgraph
def test_the_same_function_is_rejected_as_one_graph() -> None:
    outcome = attempt("breaks_in_a_loop", "Dynamic", "compile_fullgraph")
    assert (outcome.verdict, outcome.stage) == ("rejected", "capture")
    assert outcome.facts["peak_memory_bytes"] > 0, "what a refusal took is a fact too"


@pytest.mark.compile_fullgraph
def test_an_error_of_symbolic_shapes_is_one_of_capture() -> None:
    outcome = attempt("walks_over_places", "Walk", "compile_fullgraph")
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == ("rejected", "capture", "DDS.guard")


@pytest.mark.compile
def test_a_graph_break_is_counted() -> None:
    outcome = attempt("double", "Dynamic", "compile")
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.reason.code) == ("partial", "GRAPH.breaks")
    assert outcome.facts["graph_breaks"] >= 1


@pytest.mark.compile
def test_a_whole_graph_is_accepted_and_its_stages_are_apart() -> None:
    outcome = attempt("double", "Static", "compile")
    assert outcome.verdict == "accepted"
    seconds: dict[Any, float | None] = {name: stage.seconds for name, stage in outcome.stages.items()}
    assert all(seconds[name] for name in ("capture", "build", "run", "verify"))
    assert outcome.facts["graphs"] == outcome.facts["operators_captured"] == 1


@pytest.mark.compile
def test_a_processor_that_is_known_is_not_tried_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch._inductor import config, cpu_vec_isa

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    known = tmp_path / "vector_instructions.txt"
    tried = []
    try:
        with config.patch({"cpp.vec_isa_ok": None}):
            compiled.know_processor()
            chosen = str(cpu_vec_isa.pick_vec_isa())
            cpu_vec_isa.valid_vec_isa_list.cache_clear()
            monkeypatch.setattr(cpu_vec_isa.VecISA, "__bool__", lambda isa: tried.append(isa) or True)
            known.write_text("another")
            compiled.know_processor()
            assert config.cpp.vec_isa_ok is None
            assert tried
        monkeypatch.undo()
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
        with config.patch({"cpp.vec_isa_ok": None}):
            known.write_text(chosen)
            monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", lambda *_: pytest.fail("tried anew"))
            cpu_vec_isa.valid_vec_isa_list.cache_clear()
            compiled.know_processor()
            assert config.cpp.vec_isa_ok
            assert str(cpu_vec_isa.pick_vec_isa()) == chosen
    finally:
        cpu_vec_isa.valid_vec_isa_list.cache_clear()
