"""The books: whose time it was, worked out by hand."""

from __future__ import annotations

import time

import pytest

from runners.study import ledger as ledger_module
from runners.study.attempt import Outcome
from runners.study.ledger import Ledger, Stopwatch
from runners.study.record import StageOutcome


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_ours_is_what_is_left_of_the_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(ledger_module, "time", clock)
    ledger = Ledger()
    with ledger.side_by_side():
        clock.now += 10
    # Two lanes of 10 s each: one compiled all the time, one was ours for 6 of its 8 s of verification.
    ledger.attempt(Outcome(verdict="accepted", stages={"build": StageOutcome("ok", 10.0)}), 10.0)
    verified = Outcome(
        verdict="accepted",
        stages={"run": StageOutcome("ok", 1.0), "verify": StageOutcome("ok", 8.0)},
        facts={"verification": {"called_seconds": 2.0}, "import_seconds": 1.0},
    )
    ledger.attempt(verified, 10.0)
    clock.now += 4
    ledger.theirs(4.0)
    clock.now += 6  # nobody was at work
    assert ledger.overhead == pytest.approx(1 - (10 * 14 / 20 + 4) / 20)
    assert ledger.verification == pytest.approx(8 / 19)


def test_a_stopwatch_adds_up_and_lets_errors_through() -> None:
    watch = Stopwatch()

    def fails(value: int) -> None:
        time.sleep(0.01)
        raise ValueError(value)

    for _ in range(2):
        with pytest.raises(ValueError, match="3"):
            watch.over(fails)(3)
    assert watch.seconds >= 0.02
