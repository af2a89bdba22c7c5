"""torch.compile: what ran in eager in place of a graph is told, whichever way Dynamo gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.case import Workload, load
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
