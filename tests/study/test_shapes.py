"""Inputs beside the example: what a road was promised, and what not."""

from __future__ import annotations

import torch

from runners.study.shapes import compared


def test_another_python_number_is_as_another_shape() -> None:
    x = torch.ones(3)
    assert compared((x, 2), (x + 1, 2), None) == "same"
    assert compared((x, 2), (x, 3), None) == "other"
    assert compared((x, 2), (torch.ones(4), 3), [frozenset({0})]) == "other"
