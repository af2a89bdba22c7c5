"""Rows repeated by counts: literal answers of each form, and the property against a list of sources."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.repeat_by_counts import MOST, RepeatInterleave, Searched, Slots, faults, floor_bytes

ROWS, COUNTS = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2, 0, 1])


def test_variable_form() -> None:
    assert RepeatInterleave()(ROWS, COUNTS).tolist() == [[1.0], [1.0], [3.0]]


def test_slots_stay_with_their_row() -> None:
    rows, mask = Slots()(ROWS, COUNTS)
    assert rows.flatten().tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]
    assert mask.tolist() == [row != 0 for row in rows.flatten().tolist()]


def test_searched_rows_are_in_front() -> None:
    rows, mask = Searched()(ROWS, COUNTS)
    assert rows.flatten().tolist() == [1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert mask.tolist() == [True] * 3 + [False] * 9


@pytest.mark.parametrize("variant", [RepeatInterleave(), Slots(), Searched()])
def test_nothing_to_repeat(variant: torch.nn.Module) -> None:
    arguments = ROWS, torch.zeros(3, dtype=torch.int64)
    assert faults(arguments, variant(*arguments), Workload()) == []


@given(st.lists(st.integers(0, MOST), min_size=1, max_size=20))
def test_all_forms_agree(counts: list[int]) -> None:
    rows, argument = torch.arange(1.0, len(counts) + 1).unsqueeze(1), torch.tensor(counts)
    wanted = [float(row + 1) for row, count in enumerate(counts) for _ in range(count)]
    assert RepeatInterleave()(rows, argument).flatten().tolist() == wanted
    for variant in (Slots(), Searched()):
        repeated, mask = variant(rows, argument)
        assert repeated[mask].flatten().tolist() == wanted
        assert faults((rows, argument), (repeated, mask), Workload()) == []


def test_a_tile_in_place_of_a_repeat_is_found() -> None:
    wrong = torch.tensor([[1.0], [3.0], [1.0]])
    assert [fault.code for fault in faults((ROWS, COUNTS), wrong, Workload())] == ["VALUE.mismatch"]


def test_padding_that_is_not_zero_is_found() -> None:
    rows, mask = Searched()(ROWS, COUNTS)
    rows[-1] = 3.0
    assert [fault.code for fault in faults((ROWS, COUNTS), (rows, mask), Workload())] == ["VALUE.mismatch"]


def test_floor() -> None:
    """10 counts of 8 bytes, 5 rows of 8 bytes read, each written 2.5 times."""
    assert floor_bytes(Workload(n=10, dim=2, dtype="float32", positives=0.5)) == 80 + 40 + 100
