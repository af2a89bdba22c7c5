"""The judge that the cases share: what it calls a difference, and what it does not."""

from __future__ import annotations

import pytest
import torch

from models.judge import differences, padding_faults, parts, rounding, share

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance", "code"),
    [
        (torch.tensor([1.0, INF]), torch.tensor([1.0, INF]), 0.0, None),
        (torch.tensor([1.0]), torch.tensor([1.5]), 0.5, None),
        (torch.tensor([1.0]), torch.tensor([1.5]), 0.4, "VALUE.mismatch"),
        (torch.tensor([1.0, 9.0]), torch.tensor([1.5, 8.0]), torch.tensor([0.5, 1.0]), None),
        (torch.tensor([NAN]), torch.tensor([1.0]), INF, "VALUE.mismatch"),
        (torch.tensor([INF]), torch.tensor([-INF]), 1.0, "VALUE.mismatch"),
        (torch.tensor([2**53 + 1]), torch.tensor([2**53]), 1.0, "VALUE.mismatch"),
        (torch.tensor([1]), torch.tensor([1.0]), 1.0, "DTYPE.mismatch"),
        (torch.tensor([1.0]), torch.tensor(1.0), 1.0, "SHAPE.mismatch"),
        (torch.zeros(0, 4), torch.zeros(0, 4), 0.0, None),
        (torch.zeros(0, 4), torch.zeros(0, 3), 0.0, "SHAPE.mismatch"),
    ],
)
def test_differences(
    found: torch.Tensor, wanted: torch.Tensor, tolerance: torch.Tensor | float, code: str | None
) -> None:
    assert [fault.code for fault in differences("it", found, wanted, tolerance)] == ([code] if code else [])


def test_a_difference_says_where() -> None:
    (fault,) = differences("the rows", torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [5, 4]]))
    assert fault.text == "the rows: 1 of 4 values differ; the first at [1, 0] is 3, not 5"


@pytest.mark.parametrize(
    ("padded", "valid", "code"),
    [
        ([7, 8, 0], torch.tensor([True, True, False]), None),
        ([7, 8, 9], torch.tensor([True, True, False]), "VALUE.mismatch"),
        ([7, 0, 0], torch.tensor([True, False, False]), "SHAPE.mismatch"),
        ([7, 8], torch.tensor([True, True, False]), "SHAPE.mismatch"),
        ([7, 8, 0], torch.tensor([1, 1, 0]), "DTYPE.mismatch"),
    ],
)
def test_padding_faults(padded: list[int], valid: torch.Tensor, code: str | None) -> None:
    found = padding_faults("it", torch.tensor(padded), valid, 2)
    assert [fault.code for fault in found] == ([code] if code else [])


def test_parts() -> None:
    tensor = torch.zeros(2)
    assert parts(tensor)[0] is parts((tensor,))[0] is tensor


def test_share_is_exact_for_seed_0_and_stays_a_share() -> None:
    assert share(0.3, 0, torch.Generator()) == 0.3
    assert share(None, 0, torch.Generator()) == 0.5
    shares = [share(0.9, seed, torch.Generator().manual_seed(seed)) for seed in range(1, 50)]
    assert 0.7 <= min(shares) < 0.75
    assert max(shares) == 1.0


@pytest.mark.parametrize(("terms", "units"), [(1, 64), (4096, 64), (10_000, 100), (1_000_000, 1000)])
def test_longer_sums_may_be_rounded_more_as_the_square_root(terms: int, units: int) -> None:
    """float32 has 24 binary digits, so its unit is 2^-23."""
    assert rounding(torch.float32, terms) == units / 2**23
