"""Expert dispatch: literal answers with and without dropped tokens, and the property against Python numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.expert_dispatch import Capacity, Fetched, HitExperts, faults, floor_bytes, turns

VARIANTS = [HitExperts, Capacity, Fetched]
TOKENS = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
ROUTES, GATES = torch.tensor([0, 2, 0, 0]), torch.tensor([1.0, 0.5, 1.0, 2.0])
WEIGHTS = torch.tensor([[[2.0]], [[7.0]], [[10.0]]])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("k", "answers"), [(4, [2, 10, 6, 16]), (3, [2, 10, 6, 16]), (2, [2, 10, 6, 0]), (1, [2, 10, 0, 0])]
)
def test_literal(variant: type[torch.nn.Module], k: int, answers: list[float]) -> None:
    """Expert 0 doubles and is asked three times, expert 1 is idle, expert 2 multiplies by 10, at half a gate."""
    found = variant(k)(TOKENS, ROUTES, GATES, WEIGHTS)
    assert found.flatten().tolist() == answers
    assert faults((TOKENS, ROUTES, GATES, WEIGHTS), found, Workload(k=k)) == []


def test_weights_are_not_transposed() -> None:
    """(1, 2) @ [[1, 10], [100, 1000]] is (201, 2010)."""
    weights = torch.tensor([[[1.0, 10.0], [100.0, 1000.0]]])
    for variant in VARIANTS:
        answer = variant(1)(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), torch.ones(1), weights)
        assert answer.tolist() == [[201.0, 2010.0]]


def test_turns() -> None:
    assert turns(torch.tensor([1, 0, 1, 1, 0]), 2).tolist() == [0, 0, 1, 2, 1]


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_all_forms_agree(tokens: list[tuple[int, int, int]], k: int) -> None:
    """Whole numbers, so that every form is exact."""
    arguments = (
        torch.tensor([[float(value)] for value, _, _ in tokens]),
        torch.tensor([route for _, route, _ in tokens]),
        torch.tensor([float(gate) for _, _, gate in tokens]),
        WEIGHTS,
    )
    taken = [0, 0, 0]
    wanted = []
    for value, route, gate in tokens:
        taken[route] += 1
        wanted.append(value * gate * (2, 7, 10)[route] if taken[route] <= k else 0)
    for variant in VARIANTS:
        answers = variant(k)(*arguments)
        assert answers.flatten().tolist() == wanted
        assert faults(arguments, answers, Workload(k=k)) == []


def test_a_dispatch_that_drops_the_wrong_token_is_found() -> None:
    """Last come, first served."""
    wrong = torch.tensor([[0.0], [10.0], [6.0], [16.0]])
    found = faults((TOKENS, ROUTES, GATES, WEIGHTS), wrong, Workload(k=2))
    assert [fault.code for fault in found] == ["VALUE.mismatch"]


def test_floor() -> None:
    """10 tokens of 2 floats in and out with gate and route, and 4 experts of 4 floats."""
    assert floor_bytes(Workload(n=10, k=10, dim=2, dtype="float32", positives=0.5)) == 10 * (16 + 4 + 8) + 4 * 16
