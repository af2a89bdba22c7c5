"""Cross entropy with ignored labels: literal answers, the gradient's formula against autograd, the edge cases."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from models.case import Workload
from models.cross_entropy_ignore import IGNORED, IgnoreIndex, Masked, Nonzero, faults, floor_bytes, more_inputs

VARIANTS = [Nonzero(), Masked(), IgnoreIndex()]


@pytest.mark.parametrize("variant", VARIANTS)
def test_literal(variant: torch.nn.Module) -> None:
    """Rows of probabilities (1/2, 1/2) and (1/4, 3/4), one ignored between: the loss is (ln 2 + ln 4/3) / 2."""
    logits = torch.tensor([[0.0, 0.0], [7.0, -7.0], [0.0, math.log(3)]])
    labels = torch.tensor([0, IGNORED, 1])
    loss, gradient = variant(logits, labels)
    assert loss.item() == pytest.approx(math.log(8 / 3) / 2)
    torch.testing.assert_close(gradient, torch.tensor([[-0.25, 0.25], [0.0, 0.0], [0.125, -0.125]]))
    assert faults((logits, labels), (loss, gradient), Workload()) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_kept_is_zero(variant: torch.nn.Module) -> None:
    loss, gradient = variant(torch.tensor([[float("nan"), 1.0]]), torch.tensor([IGNORED]))
    assert loss.item() == 0.0
    assert gradient.tolist() == [[0.0, 0.0]]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 5), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_formula_is_the_gradient(seed: int, n: int, classes: int, ignored: float) -> None:
    """In float64, against `torch.nn.functional.cross_entropy` and its own backward."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (n,), generator=generator)
    labels[torch.rand(n, generator=generator) < ignored] = IGNORED
    leaf = logits.clone().requires_grad_()
    count = max(int((labels != IGNORED).sum()), 1)
    loss = functional.cross_entropy(leaf, labels, ignore_index=IGNORED, reduction="sum") / count
    loss.backward()
    for variant in VARIANTS:
        answer, gradient = variant(logits, labels)
        torch.testing.assert_close(answer, loss.detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-12)
        assert faults((logits, labels), (answer, gradient), Workload()) == []


def test_a_loss_that_is_added_up_row_by_row_is_no_fault() -> None:
    workload = Workload(n=100_000, dim=16, dtype="float32")
    (arguments,) = (arguments for name, arguments in more_inputs(workload) if name == "saturated")
    logits, labels = arguments
    each = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
    loss = torch.from_numpy(numpy.add.accumulate(each.numpy())[-1:])[0] / (labels != IGNORED).sum()
    _, gradient = Masked()(logits, labels)
    assert faults(arguments, (loss, gradient), workload) == []


def test_a_mean_over_all_rows_is_found() -> None:
    logits, labels = torch.zeros(4, 2), torch.tensor([0, IGNORED, 1, IGNORED])
    loss, gradient = Nonzero()(logits, labels)
    found = faults((logits, labels), (loss / 2, gradient / 2), Workload())
    assert [fault.code for fault in found] == ["VALUE.mismatch", "VALUE.mismatch"]


def test_the_nan_of_an_empty_mean_is_found() -> None:
    logits, labels = torch.zeros(2, 2), torch.full((2,), IGNORED)
    loss = functional.cross_entropy(logits, labels, ignore_index=IGNORED)
    found = faults((logits, labels), (loss, torch.zeros(2, 2)), Workload())
    assert [fault.code for fault in found] == ["VALUE.mismatch"]


def test_floor() -> None:
    """10 labels of 8 bytes, 5 rows of 4 floats read, 10 written, and the loss."""
    assert floor_bytes(Workload(n=10, dim=4, dtype="float32", positives=0.5)) == 80 + 5 * 16 + 10 * 16 + 4
