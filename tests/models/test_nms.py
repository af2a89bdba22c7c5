"""Non-maximum suppression: literal answers, and the property against counting the pixels of small boxes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.case import Workload
from models.nms import FixedTrips, Greedy, faults, floor_bytes

Box = tuple[int, int, int, int]
PAIR_AND_ONE = [(0, 0, 10, 10), (1, 0, 11, 10), (30, 30, 34, 34)]
CHAIN = [(3 * step, 0, 3 * step + 10, 10) for step in range(4)]


@pytest.mark.parametrize(
    ("what", "boxes", "scores", "k", "kept"),
    [
        ("the better of a pair, and one apart", PAIR_AND_ONE, [0.6, 0.9, 0.3], 3, [1, 2]),
        ("no more than K", PAIR_AND_ONE, [0.6, 0.9, 0.3], 1, [1]),
        ("what is dropped suppresses nothing", CHAIN, [0.9, 0.8, 0.7, 0.6], 4, [0, 2]),
        ("both neighbours of the best go", CHAIN, [0.1, 0.9, 0.5, 0.6], 4, [1, 3]),
        ("exactly half is not more than half", [(0, 0, 2, 1), (0, 0, 1, 1)], [0.2, 0.1], 2, [0, 1]),
        ("equal scores: the lower index", [(0, 0, 4, 4), (0, 0, 4, 4), (9, 9, 10, 10)], [0.5] * 3, 3, [0, 2]),
        ("points never overlap", [(1, 1, 1, 1), (1, 1, 1, 1)], [0.1, 0.2], 2, [1, 0]),
        ("a point in a box stays", [(0, 0, 4, 4), (1, 1, 1, 1)], [0.9, 0.2], 2, [0, 1]),
        ("scores below zero", PAIR_AND_ONE, [-0.6, -0.9, -3.0], 3, [0, 2]),
        ("one box", [(0, 0, 1, 1)], [0.0], 1, [0]),
    ],
)
def test_literal(what: str, boxes: list[Box], scores: list[float], k: int, kept: list[int]) -> None:
    arguments = torch.tensor(boxes, dtype=torch.float32), torch.tensor(scores)
    void = k - len(kept)
    assert Greedy(k)(*arguments).tolist() == kept
    indices, mask = FixedTrips(k)(*arguments)
    assert indices.tolist() == kept + [0] * void
    assert mask.tolist() == [True] * len(kept) + [False] * void


corner = st.integers(0, 5)
box = st.tuples(corner, corner, corner, corner).map(
    lambda c: (min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3]))
)


@given(st.lists(st.tuples(box, st.integers(0, 3)), min_size=1, max_size=10), st.integers(1, 4))
def test_all_forms_agree(scored: list[tuple[Box, int]], k: int) -> None:
    boxes = torch.tensor([box for box, _ in scored], dtype=torch.float32)
    scores = torch.tensor([score / 4 for _, score in scored])
    workload = Workload(n=len(scored), k=k)
    kept: list[int] = []
    for index in torch.argsort(scores, descending=True, stable=True).tolist():
        pixels = _pixels(scored[index][0])
        earlier = [_pixels(scored[other][0]) for other in kept]
        if len(kept) < k and not any(2 * len(pixels & other) > len(pixels | other) for other in earlier):
            kept.append(index)
    greedy = Greedy(k)(boxes, scores)
    indices, mask = FixedTrips(k)(boxes, scores)
    assert greedy.tolist() == indices[mask].tolist() == kept
    assert faults((boxes, scores), greedy, workload) == []
    assert faults((boxes, scores), (indices, mask), workload) == []


def test_a_single_parallel_pass_is_found() -> None:
    """The tempting rewrite that drops whatever overlaps any better box: wrong on a chain."""
    boxes, scores = torch.tensor(CHAIN, dtype=torch.float32), torch.tensor([0.9, 0.8, 0.7, 0.6])
    wrong = (torch.tensor([0, 0, 0, 0]), torch.tensor([True, False, False, False]))
    assert "SHAPE.mismatch" in [fault.code for fault in faults((boxes, scores), wrong, Workload(k=4))]


def test_floor() -> None:
    """100 boxes and scores of 5 floats, 3 indices of 8 bytes."""
    assert floor_bytes(Workload(n=100, k=3, dim=4, dtype="float32")) == 2000 + 24


def _pixels(box: Box) -> set[tuple[int, int]]:
    return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}
