"""Ragged to padded: literal answers with and without a cut, and the property against Python lists."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.ragged_pad import Gathered, Split, faults, floor_bytes

ROWS, LENGTHS = torch.arange(1.0, 6.0).unsqueeze(1), torch.tensor([2, 0, 3])


def test_variable_form_is_as_wide_as_the_longest() -> None:
    assert Split(4)(ROWS, LENGTHS).squeeze(2).tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5]]


def test_static_form_is_k_wide() -> None:
    padded, mask = Gathered(4)(ROWS, LENGTHS)
    assert padded.squeeze(2).tolist() == [[1, 2, 0, 0], [0, 0, 0, 0], [3, 4, 5, 0]]
    assert mask.int().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]]


def test_a_sequence_is_cut_to_k() -> None:
    padded, mask = Gathered(2)(ROWS, LENGTHS)
    assert Split(2)(ROWS, LENGTHS).squeeze(2).tolist() == padded.squeeze(2).tolist() == [[1, 2], [0, 0], [3, 4]]
    assert mask.int().tolist() == [[1, 1], [0, 0], [1, 1]]


def test_lengths_that_do_not_fit_raise() -> None:
    with pytest.raises(RuntimeError, match="split_with_sizes"):
        Split(4)(ROWS, torch.tensor([2, 2]))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any), st.integers(1, 6))
def test_all_forms_agree(lengths: list[int], k: int) -> None:
    rows, argument = torch.arange(1.0, sum(lengths) + 1).unsqueeze(1), torch.tensor(lengths)
    left = rows.flatten().tolist()
    sequences = []
    for length in lengths:
        sequences.append(left[:length][:k])
        left = left[length:]
    workload = Workload(n=len(rows), k=k)
    padded, mask = Gathered(k)(rows, argument)
    assert [row[held].flatten().tolist() for row, held in zip(padded, mask, strict=True)] == sequences
    split = Split(k)(rows, argument)
    assert split.shape == (len(lengths), max(map(len, sequences)), 1)
    assert torch.equal(split, padded[:, : split.shape[1]])
    assert faults((rows, argument), split, workload) == []
    assert faults((rows, argument), (padded, mask), workload) == []


def test_a_neighbour_in_the_padding_is_found() -> None:
    """Gathered without the mask: the padding holds the rows of the next sequence."""
    wrong = torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]).unsqueeze(2)
    assert [fault.code for fault in faults((ROWS, LENGTHS), wrong, Workload(k=4))] == ["VALUE.mismatch"]


def test_floor() -> None:
    """4 lengths of 8 bytes, 10 rows of 2 floats read and written."""
    assert floor_bytes(Workload(n=10, k=5, batch=4, dim=2, dtype="float32")) == 32 + 160
