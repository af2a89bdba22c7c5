"""Unique values and counts: literal answers of each form, and the property against Python's groups."""

from __future__ import annotations

from itertools import groupby

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.unique_count import CLASSES, Counters, SortedRuns, Unique, faults, floor_bytes

LABELS = torch.tensor([5, 2, 5, 999])


def test_variable_form() -> None:
    values, counts = Unique()(LABELS)
    assert values.tolist() == [2, 5, 999]
    assert counts.tolist() == [1, 2, 1]


def test_sorted_runs_are_in_front() -> None:
    values, counts, mask = SortedRuns()(LABELS)
    assert values.tolist() == [2, 5, 999, 0]
    assert counts.tolist() == [1, 2, 1, 0]
    assert mask.tolist() == [True, True, True, False]


def test_sorted_runs_take_any_range() -> None:
    values, counts, mask = SortedRuns()(torch.tensor([-7, 2**40, -7]))
    assert values[mask].tolist() == [-7, 2**40]
    assert counts[mask].tolist() == [2, 1]


def test_counters_stand_at_their_class() -> None:
    values, counts, mask = Counters()(LABELS)
    assert len(values) == len(counts) == len(mask) == CLASSES
    assert mask.nonzero().flatten().tolist() == values[mask].tolist() == [2, 5, 999]
    assert counts[mask].tolist() == [1, 2, 1]
    assert values.sum() == 1006
    assert counts.sum() == 4


@given(st.lists(st.integers(0, CLASSES - 1) | st.integers(0, 3), min_size=1, max_size=30))
def test_all_forms_agree(labels: list[int]) -> None:
    groups = [(value, len(list(group))) for value, group in groupby(sorted(labels))]
    argument = torch.tensor(labels)
    for variant in (Unique(), SortedRuns(), Counters()):
        outputs = variant(argument)
        values, counts = outputs[:2] if len(outputs) == 2 else (part[outputs[2]] for part in outputs[:2])
        assert list(zip(values.tolist(), counts.tolist(), strict=True)) == groups
        assert faults((argument,), outputs, Workload()) == []


def test_an_unsorted_answer_is_found() -> None:
    """`sorted=False`, or the order of first occurrence, breaks the contract."""
    wrong = torch.tensor([5, 2, 999]), torch.tensor([2, 1, 1])
    assert [fault.code for fault in faults((LABELS,), wrong, Workload())] == ["VALUE.mismatch", "VALUE.mismatch"]


def test_floor() -> None:
    """10 labels read, then at most as many values and counts written; 2000 labels show 500 classes."""
    assert floor_bytes(Workload(n=10, positives=0.5)) == 8 * 30
    assert floor_bytes(Workload(n=2000, positives=0.5)) == 8 * 3000
