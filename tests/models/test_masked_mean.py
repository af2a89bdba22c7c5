"""The masked mean: literal answers, the property against Python numbers, and the wrong rewrites it must catch."""

from __future__ import annotations

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.masked_mean import BooleanIndex, Where, faults, floor_bytes, inputs

VARIANTS = [BooleanIndex(), Where()]
ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
NAN = float("nan")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("mask", "mean"),
    [
        ([True, False, True], [3.0, 5.5]),
        ([False, True, False], [3.0, 4.0]),
        ([True, True, True], [3.0, 5.0]),
        ([False, False, False], [0.0, 0.0]),
    ],
)
def test_literal(variant: torch.nn.Module, mask: list[bool], mean: list[float]) -> None:
    assert variant(ROWS, torch.tensor(mask)).tolist() == mean


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_not_selected_has_no_influence(variant: torch.nn.Module) -> None:
    poisoned = torch.tensor([[1.0, 2.0], [NAN, float("inf")], [3.0, 4.0]])
    assert variant(poisoned, torch.tensor([True, False, True])).tolist() == [2.0, 3.0]


@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=1, max_size=20))
def test_all_forms_agree(rows: list[tuple[int, bool]]) -> None:
    features = torch.tensor([[float(value)] for value, _ in rows])
    mask = torch.tensor([taken for _, taken in rows])
    selected = [value for value, taken in rows if taken]
    mean = sum(selected) / len(selected) if selected else 0.0
    for variant in VARIANTS:
        answer = variant(features, mask)
        assert answer.tolist() == [pytest.approx(mean, abs=1e-6)]
        assert faults((features, mask), answer, Workload()) == []


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("multiplies by the mask", lambda rows, mask: (rows * mask.unsqueeze(1)).sum(0) / mask.sum()),
        ("divides by N", lambda rows, mask: rows[mask].sum(0) / len(rows)),
        ("ignores the mask", lambda rows, mask: rows.nan_to_num().mean(0)),
    ],
)
def test_a_wrong_rewrite_is_found(what: str, wrong: object) -> None:
    features = torch.tensor([[1.0, 2.0], [NAN, 4.0], [5.0, 9.0]])
    mask = torch.tensor([True, False, True])
    assert callable(wrong)
    assert [fault.code for fault in faults((features, mask), wrong(features, mask), Workload())] == ["VALUE.mismatch"]


def test_the_mean_of_nothing_is_not_nan() -> None:
    mask = torch.zeros(3, dtype=torch.bool)
    assert [fault.code for fault in faults((ROWS, mask), ROWS[mask].mean(0), Workload())] == ["VALUE.mismatch"]


def test_a_sum_that_is_added_up_row_by_row_is_no_fault_but_a_lost_row_in_a_thousand_is() -> None:
    features, mask = inputs(Workload(n=100_000, dim=16, dtype="float32"), 1)
    one_by_one = torch.from_numpy(numpy.add.accumulate(features[mask].numpy())[-1])
    assert faults((features, mask), one_by_one / mask.sum(), Workload()) == []
    features, mask = inputs(Workload(n=1000, dim=16, dtype="float32"), 1)
    lost = features[mask][1:].sum(0) / mask.sum()
    assert [fault.code for fault in faults((features, mask), lost, Workload())] == ["VALUE.mismatch"]


def test_floor() -> None:
    """100 mask bytes, 25 rows of 16 floats read, one written."""
    assert floor_bytes(Workload(n=100, dim=16, dtype="float32", positives=0.25)) == 100 + 25 * 64 + 64
