"""Score threshold: literal answers of both forms, ties, and the property against a sorted list."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.score_threshold import MaskedTopK, Nonzero, faults, floor_bytes

SCORES, BOXES = torch.tensor([0.75, 0.25, 0.5, 0.625]), torch.tensor([[1.0], [2.0], [3.0], [4.0]])


def test_variable_form() -> None:
    scores, boxes = Nonzero(3)(SCORES, BOXES)
    assert scores.tolist() == [0.75, 0.625]
    assert boxes.tolist() == [[1.0], [4.0]]


def test_static_form() -> None:
    scores, boxes, mask = MaskedTopK(3)(SCORES, BOXES)
    assert scores.tolist() == [0.75, 0.625, 0.0]
    assert boxes.tolist() == [[1.0], [4.0], [0.0]]
    assert mask.tolist() == [True, True, False]


def test_no_more_than_k() -> None:
    assert Nonzero(1)(SCORES, BOXES)[1].tolist() == MaskedTopK(1)(SCORES, BOXES)[1].tolist() == [[1.0]]


def test_nan_is_not_above_and_infinity_is() -> None:
    scores = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0])
    found, boxes, mask = MaskedTopK(4)(scores, BOXES)
    assert found[:2].tolist() == Nonzero(4)(scores, BOXES)[0].tolist() == [float("inf"), 1.0]
    assert boxes.flatten().tolist() == [2.0, 4.0, 0.0, 0.0]
    assert mask.tolist() == [True, True, False, False]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.data())
def test_all_forms_agree(eighths: list[int], data: st.DataObject) -> None:
    """A box is a function of its score, so that ties have one answer."""
    k = data.draw(st.integers(1, len(eighths)))
    scores = torch.tensor(eighths) / 8
    boxes = torch.stack([scores * 3, scores + 1], 1)
    wanted = sorted((score / 8 for score in eighths if score > 4), reverse=True)[:k]
    workload = Workload(n=len(eighths), k=k)
    variable, static = Nonzero(k)(scores, boxes), MaskedTopK(k)(scores, boxes)
    assert variable[0].tolist() == static[0][static[2]].tolist() == wanted
    assert variable[1].tolist() == static[1][static[2]].tolist() == [[score * 3, score + 1] for score in wanted]
    assert faults((scores, boxes), variable, workload) == []
    assert faults((scores, boxes), static, workload) == []


def test_a_threshold_that_lets_equals_in_is_found() -> None:
    wrong = torch.tensor([0.75, 0.625, 0.5]), torch.tensor([[1.0], [4.0], [3.0]])
    found = faults((SCORES, BOXES), wrong, Workload(k=3))
    assert [fault.code for fault in found] == ["SHAPE.mismatch", "SHAPE.mismatch"]


def test_boxes_of_other_candidates_are_found() -> None:
    """The classic slip: the order of the kept used as if it were the order of all."""
    wrong = torch.tensor([0.75, 0.625]), torch.tensor([[1.0], [2.0]])
    assert [fault.code for fault in faults((SCORES, BOXES), wrong, Workload(k=3))] == ["VALUE.mismatch"]


def test_floor() -> None:
    """100 scores read; 10 scores and boxes of 4 floats read and written."""
    assert floor_bytes(Workload(n=100, k=10, dim=4, dtype="float32", positives=0.5)) == 400 + 2 * 10 * 20
    assert floor_bytes(Workload(n=100, k=10, dim=4, dtype="float32", positives=0.05)) == 400 + 2 * 5 * 20
