"""Comparison by meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, tensor

from runners.study.compare import TOLERANCES, Tally, clone, compare, differing, identical, moved, tolerance

NAN, INF = math.nan, math.inf


def code(expected: Any, actual: Any, inputs: Any = (), **about: Any) -> str | None:
    fault = compare(expected, actual, inputs, Tally(), **about)
    return None if fault is None else fault.code


@pytest.mark.parametrize(
    ("expected", "actual", "verdict"),
    [
        (tensor([1.0]), tensor([1.0 + 1e-6]), None),
        (tensor([1.0]), tensor([1.001]), "VALUE.mismatch"),
        (tensor([1.0], dtype=torch.float64), tensor([1.0 + 1e-6], dtype=torch.float64), "VALUE.mismatch"),
        (tensor([1.0], dtype=torch.bfloat16), tensor([1.01], dtype=torch.bfloat16), None),
        (tensor([2**53 + 1]), tensor([2**53]), "VALUE.mismatch"),
        (tensor([True]), tensor([False]), "VALUE.mismatch"),
        (tensor([NAN, 1.0]), tensor([NAN, 1.0]), None),
        (tensor([NAN]), tensor([0.0]), "VALUE.mismatch"),
        (tensor([0.0]), tensor([NAN]), "VALUE.mismatch"),
        (tensor([INF]), tensor([INF]), None),
        (tensor([INF]), tensor([-INF]), "VALUE.mismatch"),
        (tensor([INF], dtype=torch.float16), tensor([65504.0], dtype=torch.float16), "VALUE.mismatch"),
        (tensor([65504.0]), tensor([INF]), "VALUE.mismatch"),
        (tensor([-0.0]), tensor([0.0]), None),
        (tensor([1 + 2j]), tensor([1 + 2j + 1e-6]), None),
        (tensor([1 + 2j]), tensor([1 + 3j]), "VALUE.mismatch"),
        (torch.zeros(0, 3), torch.zeros(0, 3), None),
        (torch.zeros(0, 3), torch.zeros(0, 4), "SHAPE.mismatch"),
        (tensor([1.0]), tensor(1.0), "SHAPE.mismatch"),
        (tensor([1]), tensor([1], dtype=torch.int32), "DTYPE.mismatch"),
        (tensor([1]), 1, "STRUCTURE.mismatch"),
        ((tensor([1]), tensor([2])), (tensor([1]),), "STRUCTURE.mismatch"),
        ({"a": tensor([1])}, [tensor([1])], None),
        ({"a": tensor([1]), "b": (tensor([2]), None)}, [tensor([1]), tensor([2])], None),
        ({"a": tensor([1])}, {"b": tensor([1])}, "STRUCTURE.mismatch"),
        (((tensor([1]),), tensor([2])), (tensor([1]), (tensor([2]),)), "STRUCTURE.mismatch"),
        ((None, tensor([1])), (None, tensor([1])), None),
        ((3, True, 0.5), [tensor(3), tensor(True), tensor([0.5])], None),
        ((3,), [tensor(4)], "VALUE.mismatch"),
        ((3,), [tensor([3, 3])], "STRUCTURE.mismatch"),
        ((NAN,), [tensor(NAN)], None),
        (("a", 1), ("b", 1), "VALUE.mismatch"),
        (None, None, None),
        (tensor([1.0]).to_sparse(), tensor([1.0]).to_sparse(), None),
        (tensor([1.0]).to_sparse(), tensor([2.0]).to_sparse(), "VALUE.mismatch"),
    ],
)
def test_the_rules(expected: Any, actual: Any, verdict: str | None) -> None:
    assert code(expected, actual) == verdict


def test_arrays_are_compared_as_tensors() -> None:
    assert code((tensor([1.0]),), [tensor([1.0]).numpy()]) is None


def test_exact_leaves_have_no_tolerance() -> None:
    x = tensor([0.1, 0.2, 0.3])
    assert code(x, x + 1e-7) is None
    assert code(x, x + 1e-7, exact=frozenset({0})) == "VALUE.mismatch"
    assert code(x, x.clone(), exact=frozenset({0})) is None


def test_outputs_that_only_move_values_are_found() -> None:
    x = torch.rand(12)
    assert moved(lambda x: (x.flip(0), x * 1.5, x[x > 0.2], x.long(), x * 3 / 3, None), (x,)) == {0, 2}
    assert moved(lambda x: (torch.sigmoid(x * 100),), (torch.ones(4),)) == frozenset()
    assert moved(lambda x: 1 / 0, (x,)) == frozenset()


def test_a_float64_run_widens_the_tolerance_to_eagers_own_error() -> None:
    precise, eager, better = tensor([1.0], dtype=torch.float64), tensor([1.001]), tensor([1.0])
    assert code(eager, better) == "VALUE.mismatch"
    assert code(eager, better, precise=precise) is None
    assert code(eager, tensor([1.02]), precise=precise) == "VALUE.mismatch"


def test_a_float64_run_that_went_elsewhere_widens_no_further_than_stated() -> None:
    assert code(tensor([1.0]), tensor([3.0]), precise=tensor([100.0], dtype=torch.float64)) == "VALUE.mismatch"


def test_ties_need_distinct_indices_of_the_same_values() -> None:
    scores = tensor([5.0, 1.0, 5.0, 4.0, 5.0])
    values = tensor([5.0, 5.0, 5.0])
    tally = Tally()
    assert compare((values, tensor([0, 2, 4])), (values, tensor([4, 2, 0])), (scores,), tally) is None
    assert tally.ties == 2
    for wrong in ([4, 4, 0], [4, 1, 0], [4, 2, 7], [4, 2, -1]):
        assert code((values, tensor([0, 2, 4])), (values, tensor(wrong)), (scores,)) == "VALUE.mismatch"


def test_indices_without_values_are_compared_exactly() -> None:
    scores = tensor([5.0, 1.0, 5.0])
    assert code((tensor([0, 2]),), (tensor([2, 0]),), (scores,)) == "VALUE.mismatch"


def test_ties_along_another_dimension() -> None:
    scores = tensor([[1.0, 2.0], [1.0, 3.0]])
    values = tensor([[1.0, 3.0], [1.0, 2.0]])
    assert code((values, tensor([[0, 1], [1, 0]])), (values, tensor([[1, 1], [0, 0]])), (scores,)) is None


def test_ties_of_one_index_for_a_whole_dimension() -> None:
    """As of a median; where several values are as good as each other, torch promises none of their indices."""
    scores = tensor([[2.0, 1.0, 2.0], [0.0, 3.0, 3.0]])
    values, index = tensor([2.0, 3.0]), tensor([0, 1])
    assert code((values, index), (values, tensor([2, 2])), (scores,)) is None
    assert code((values, index), (values, tensor([1, 2])), (scores,)) == "VALUE.mismatch"
    beside = (values, index, tensor(2.0))
    assert code(beside, (values, tensor([1, 2]), tensor(2.0)), (scores,)) == "VALUE.mismatch"


def test_the_tally_counts_and_marks_what_says_nothing() -> None:
    tally = Tally()
    outputs = (torch.zeros(3), tensor([NAN, 0.0]), torch.zeros(0), tensor([0.0, 1.0]), tensor([False]))
    compare(outputs, outputs, (), tally)
    assert tally.facts()["elements"] == 8
    assert tally.facts()["uninformative_outputs"] == [0, 1, 2, 4]
    compare((torch.ones(3), *outputs[1:]), (torch.ones(3), *outputs[1:]), (), tally)
    assert tally.facts()["uninformative_outputs"] == [1, 2, 4]


def test_drawn_leaves_are_compared_by_dtype_and_dimensions_only() -> None:
    drawn = frozenset({0})
    assert code((tensor([1.0]),), (tensor([2.0, 3.0]),), skip=drawn) is None
    assert code((tensor([1.0]),), (tensor([2]),), skip=drawn) == "DTYPE.mismatch"
    assert code((tensor([1.0]),), (tensor(2.0),), skip=drawn) == "SHAPE.mismatch"


def test_two_runs_of_eager() -> None:
    first, second = (tensor([1.0]), tensor([1.0]), tensor([3])), (tensor([1.0]), tensor([1.0 + 1e-6]), tensor([4]))
    assert differing(first, second, exactly=True) == {1, 2}
    assert differing(first, second, exactly=False) == {2}


def test_a_clone_shares_nothing_and_keeps_what_is_no_tensor() -> None:
    given = {"a": torch.zeros(2), "b": (3, None)}
    copied = clone(given)
    copied["a"] += 1
    assert given["a"].sum() == 0
    assert copied["b"] == (3, None)
    assert not identical(given, copied)


@pytest.mark.parametrize(
    "make", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[::2], lambda x: x[:1].expand(4, 6), lambda x: x[0]]
)
def test_a_clone_lies_as_its_original(make: Callable[[Tensor], Tensor]) -> None:
    given = make(torch.arange(24.0).reshape(4, 6))
    first, second, other = clone((given, given, given.clone()))
    assert first is second
    assert other is not first
    assert first.stride() == given.stride()
    assert identical(first, given)
    assert first.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_everything_equals_itself(values: list[float]) -> None:
    given_tensor: Tensor = tensor(values)
    assert code(given_tensor, given_tensor.clone()) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_every_floating_dtype_has_a_tolerance(dtype: torch.dtype) -> None:
    assert tolerance(dtype) == TOLERANCES[str(dtype).removeprefix("torch.")]
    assert tolerance(torch.int64) == (0.0, 0.0)
    assert tolerance(torch.complex64) == TOLERANCES["float32"]
