"""Random draws: what differs from eager's is noticed, what does not is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from runners.study import draws

Draw = Callable[[], Any]

KINDS: dict[str, Draw] = {
    "uniform": lambda: torch.rand(20),
    "normal": lambda: torch.randn(3, 4),
    "permutation": lambda: torch.randperm(12),
    "coins": lambda: torch.rand(30) < 0.1,
    "a rare coin": lambda: torch.rand(1) < 0.01,
    "integers": lambda: torch.randint(0, 6, (5,)),
    "large integers": lambda: torch.randint(0, 1000, (60,)),
    "one number": lambda: torch.rand(()),
    "a varying size": lambda: torch.zeros(int(torch.randint(0, 5, ()))),
    "often nothing": lambda: torch.rand(3)[torch.rand(3) < 0.2],
    "NaN now and then": lambda: torch.where(torch.rand(4) < 0.3, torch.nan, torch.rand(4)),
    "half precision": lambda: torch.rand(6).half(),
    "complex": lambda: torch.randn(4, dtype=torch.complex64),
    "a Python number": lambda: float(torch.rand(())),
    "beside a constant": lambda: (torch.rand(3), torch.ones(3), 4),
    "large": lambda: torch.rand(20_000),
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(11)


def codes(eager: Draw, backend: Draw, distinct: bool = False) -> list[str]:
    own = draws.collect(eager, 10.0, 200)
    return [fault.code for fault in draws.judge(own, draws.collect(backend, 10.0, 200), distinct)[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_eagers_own_draws_raise_no_alarm(kind: str) -> None:
    for _ in range(3):
        assert codes(KINDS[kind], KINDS[kind]) == []


@pytest.mark.parametrize(
    ("kind", "backend", "code"),
    [
        ("uniform", lambda: torch.ones(20), "RNG.frozen"),
        ("uniform", lambda: torch.rand(20) * 0.8, "RNG.distribution"),
        ("uniform", lambda: torch.rand(1).expand(20), "RNG.distribution"),
        ("uniform", lambda: torch.rand(20).sort().values, "RNG.distribution"),
        ("uniform", lambda: torch.cat([torch.full((1,), 0.5), torch.rand(19)]), "RNG.frozen"),
        ("normal", lambda: torch.randn(3, 4) + 1, "RNG.distribution"),
        ("permutation", lambda: torch.randint(0, 12, (12,)), "RNG.repeats"),
        ("permutation", lambda: torch.arange(12), "RNG.frozen"),
        ("permutation", lambda: torch.arange(12).roll(int(torch.randint(12, ()))), "RNG.repeats"),
        ("coins", lambda: torch.rand(30) < 0.4, "RNG.distribution"),
        ("integers", lambda: torch.randint(0, 3, (5,)), "RNG.distribution"),
        ("a varying size", lambda: torch.zeros(4), "RNG.frozen"),
        ("NaN now and then", lambda: torch.rand(4), "RNG.distribution"),
        ("large", lambda: torch.rand(10_000), "SHAPE.mismatch"),
    ],
)
def test_what_differs_is_noticed(kind: str, backend: Draw, code: str) -> None:
    assert codes(KINDS[kind], backend) == [code]


def test_a_repeat_that_is_declared_impossible_is_a_fault_even_once() -> None:
    calls = 0

    def rarely() -> torch.Tensor:
        nonlocal calls
        calls += 1
        return torch.randint(0, 12, (12,)) if calls == 100 else torch.randperm(12)

    assert codes(KINDS["permutation"], rarely, distinct=True) == ["RNG.repeats"]
    calls = 0
    assert codes(KINDS["permutation"], rarely) == []


def test_negative_indices_are_padding_and_may_repeat() -> None:
    def padded() -> torch.Tensor:
        return torch.cat([torch.randperm(5), torch.full((3,), -1)])

    assert codes(padded, padded, distinct=True) == []
    assert draws.repeated(draws.collect(padded, 10.0, 40)) == 0


def test_what_lies_at_distinct_indices_may_repeat() -> None:
    labels = torch.tensor([0, 1, 1, 0, 1, 2])

    def sampled() -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.randperm(6)[:3]
        return index, labels[index]

    assert codes(sampled, sampled, distinct=True) == []
    assert draws.repeated(draws.collect(sampled, 10.0, 40)) == 0
    assert draws.carried(draws.collect(sampled, 10.0, 40)) == {1}


def test_a_second_draw_that_repeats_is_not_excused_by_a_first_that_does_not() -> None:
    two = draws.collect(lambda: (torch.randperm(6)[:3], torch.randint(0, 6, (3,))), 10.0, 40)
    assert draws.carried(two) == frozenset()
    assert draws.repeated(two) > 0


def test_outputs_that_do_not_change_are_not_judged() -> None:
    own = draws.collect(KINDS["beside a constant"], 10.0, 40)
    assert draws.changing(own) == {0}


def test_what_could_have_been_seen_is_stated() -> None:
    own = draws.collect(KINDS["uniform"], 10.0, 200)
    facts = draws.judge(own, own, False)[1]
    assert facts["draws"] == 200
    assert facts["false_alarm"] == 1e-6
    assert 0.2 < facts["sees_difference_of"] < 0.5


def test_slow_calls_are_drawn_the_least_number_of_times() -> None:
    assert len(draws.collect(KINDS["uniform"], 0.0)) == draws.LEAST
