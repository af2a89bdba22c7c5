"""Measuring rounds, with rulers whose blocks are written down beforehand."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.study.clock import Block
from runners.study.intervals import RESOLUTION, bootstrap, median_interval, ratio_interval, spread
from runners.study.rounds import Budget, is_tie, measure


class Scripted:
    """A ruler that takes what `per_call(round)` says, in milliseconds; it sleeps for none of it."""

    method = "scripted"

    def __init__(self, per_call: Callable[[int], float], estimate: float = 1.0, **marks: float | bool) -> None:
        self.per_call, self.first, self.marks = per_call, estimate, marks
        self.rounds = 0
        self.asked: list[int] = []

    def estimate(self) -> float:
        return self.first

    def block(self, calls: int) -> Block:
        self.asked.append(calls)
        self.rounds += 1
        return Block(calls, self.per_call(self.rounds - 1) * calls, **self.marks)  # type: ignore[arg-type]


def noisy(middle: float, share: float, seed: int) -> Callable[[int], float]:
    draw = random.Random(seed)
    return lambda _: middle * (1 + draw.uniform(-share, share))


BUDGET = Budget(seconds_per_cell=60, floor_rounds=7, cap_rounds=30, settled=0)


def test_median_quartiles_ratio_and_samples_of_a_series_worked_by_hand() -> None:
    eager = Scripted([4.0, 8.0, 4.0, 8.0, 4.0, 8.0, 4.0].__getitem__)
    own = Scripted([2.0, 2.0, 1.0, 4.0, 2.0, 4.0, 2.0].__getitem__)
    outcomes = measure({"eager": eager, "own": own}, "eager", Budget(60, floor_rounds=7, cap_rounds=7, settled=0))
    timing = outcomes["own"].timing
    assert timing is not None
    assert timing.samples_ms == [2.0, 2.0, 1.0, 4.0, 2.0, 4.0, 2.0]
    assert timing.median_ms == 2.0
    assert timing.iqr_ms == 1.0  # sorted 1 2 2 2 2 4 4: quartiles at positions 1.5 and 4.5, 2 and 3
    assert timing.ratio == 2.0  # round by round: 2 4 4 2 2 2 2
    assert timing.more["rounds"] == 7
    reference = outcomes["eager"].timing
    assert reference is not None
    assert (reference.ratio, reference.ratio_low, reference.ratio_high) == (1.0, 1.0, 1.0)


def test_drift_that_all_share_leaves_the_ratio_alone() -> None:
    def drift(index: int) -> float:
        return 1.0 + index / 10

    outcomes = measure(
        {"eager": Scripted(lambda i: 3 * drift(i)), "own": Scripted(lambda i: 2 * drift(i))}, "eager", BUDGET
    )
    timing = outcomes["own"].timing
    assert timing is not None
    assert timing.ratio == pytest.approx(1.5)
    assert timing.ratio_low == pytest.approx(1.5 / (1 + RESOLUTION))
    assert timing.ratio_high == pytest.approx(1.5 * (1 + RESOLUTION))
    assert timing.more["unstable"]  # its own time did drift


def test_the_block_is_as_long_as_the_budget_says_and_never_empty() -> None:
    quick, slow = Scripted(lambda _: 0.01, estimate=0.01), Scripted(lambda _: 50.0, estimate=50.0)
    measure({"quick": quick, "slow": slow}, None, Budget(60, cap_rounds=7, block_ms=5.0))
    assert set(quick.asked) == {500}
    assert set(slow.asked) == {1}


def test_a_ruler_that_raises_drops_out_and_the_others_go_on() -> None:
    def breaks(index: int) -> float:
        if index == 2:
            raise OSError("the worker died")
        return 1.0

    class Broken(Scripted):
        def estimate(self) -> float:
            raise ValueError("no estimate")

    outcomes = measure(
        {"eager": Scripted(lambda _: 1.0), "late": Scripted(breaks), "early": Broken(lambda _: 1.0)}, "eager", BUDGET
    )
    assert str(outcomes["late"].error) == "the worker died"
    assert str(outcomes["early"].error) == "no estimate"
    assert outcomes["late"].timing is outcomes["early"].timing is None
    assert outcomes["eager"].timing is not None


def test_without_a_denominator_there_is_a_time_and_no_ratio() -> None:
    broken = Scripted(lambda _: 1 / 0)
    for rulers, denominator in (
        ({"own": Scripted(lambda _: 1.0)}, None),
        ({"own": Scripted(lambda _: 1.0), "eager": broken}, "eager"),
    ):
        timing = measure(rulers, denominator, BUDGET)["own"].timing
        assert timing is not None
        assert timing.median_ms == 1.0
        assert timing.ratio is timing.ratio_low is timing.ratio_high is None


def test_a_settled_ruler_stops_at_the_floor_and_the_denominator_goes_on_with_the_others() -> None:
    calm, eager = Scripted(lambda _: 1.0), Scripted(lambda _: 2.0)
    wild = Scripted(noisy(1.0, 0.5, seed=1))
    measure({"eager": eager, "calm": calm, "wild": wild}, "eager", Budget(60, floor_rounds=7, cap_rounds=30))
    assert (calm.rounds, wild.rounds, eager.rounds) == (7, 30, 30)


def test_order_changes_from_round_to_round_and_is_the_same_again_with_the_same_seed() -> None:
    def run(seed: int) -> list[str]:
        seen: list[str] = []
        rulers = {name: Scripted(lambda _: 1.0) for name in "abcd"}
        measure(rulers, None, BUDGET, lambda key, _: seen.append(key), seed)
        return seen

    first = run(0)
    rounds = [tuple(first[start : start + 4]) for start in range(0, len(first), 4)]
    assert all(sorted(round_) == ["a", "b", "c", "d"] for round_ in rounds)
    assert len(set(rounds)) > 1
    assert run(0) == first != run(1)


def test_a_past_deadline_measures_nothing_and_raises_nothing() -> None:
    outcomes = measure({"own": Scripted(lambda _: 1.0)}, None, Budget(deadline=0.0))
    assert outcomes["own"].timing is None
    assert outcomes["own"].error is None


def test_a_call_too_slow_for_the_floor_is_marked_unstable() -> None:
    outcomes = measure({"own": Scripted(lambda _: 1.0)}, None, Budget(seconds_per_cell=0, patience=0))
    timing = outcomes["own"].timing
    assert timing is not None
    assert timing.more["rounds"] < 7
    assert timing.more["unstable"]


def test_time_lost_to_other_processes_widens_the_interval_by_its_share() -> None:
    budget = Budget(60, cap_rounds=7, block_ms=4.0)
    rulers = {
        "eager": Scripted(lambda _: 1.0, delay_ms=0.4),  # a tenth of a block of four calls
        "own": Scripted(lambda _: 0.8, delay_ms=0.8),  # a quarter
    }
    timing = measure(rulers, "eager", budget)["own"].timing
    assert timing is not None
    assert timing.more["disturbed"]
    assert timing.ratio == pytest.approx(1.25)
    assert timing.ratio_low == pytest.approx(1.25 * 0.9 / (1 + RESOLUTION))
    assert timing.ratio_high == pytest.approx(1.25 / 0.75 * (1 + RESOLUTION))


def test_marks_of_the_blocks_arrive_beside_the_time() -> None:
    asleep = Scripted(lambda _: 1.0, cpu_ms=0.2, delay_ms=0.0)
    busy = Scripted(lambda _: 1.0, cpu_ms=4.0, delay_ms=0.0, device_ms=2.0, cold_ms=3.0, throttled=True, others=1)
    outcomes = measure({"asleep": asleep, "busy": busy}, None, Budget(60, cap_rounds=7, block_ms=4.0))
    slept, worked = outcomes["asleep"].timing, outcomes["busy"].timing
    assert slept is not None
    assert worked is not None
    assert slept.more["waits"]
    assert not worked.more["waits"]
    assert worked.more["device_ms"] == 0.5  # four calls of a millisecond a block
    assert worked.more["cold_ms"] == 3.0
    assert worked.more["unseen_by_events"]  # two of four milliseconds
    assert worked.more["throttled"] == list(range(7))
    assert worked.more["other_processes"] == 1


def test_what_is_slower_by_a_tenth_is_found_slower_and_the_same_is_a_tie() -> None:
    ties, found = 0, 0
    for seed in range(200):
        rulers = {
            "eager": Scripted(noisy(1.0, 0.05, seed)),
            "same": Scripted(noisy(1.0, 0.05, seed + 1000)),
            "slower": Scripted(noisy(1.1, 0.05, seed + 2000)),
        }
        outcomes = measure(rulers, "eager", BUDGET)
        same, slower = outcomes["same"].timing, outcomes["slower"].timing
        assert same is not None
        assert slower is not None
        ties += is_tie(same.ratio_low, same.ratio_high)
        found += slower.ratio_high is not None and slower.ratio_high < 1
    assert ties >= 198
    assert found >= 190


def test_ties() -> None:
    assert is_tie(0.9, 1.1)
    assert is_tie(1.0, 1.2)
    assert is_tie(None, None)
    assert not is_tie(1.01, 1.2)
    assert not is_tie(0.8, 0.99)


def test_the_sign_test_interval_against_the_published_ranks() -> None:
    # Conover, Practical Nonparametric Statistics: at 95 %, ten values give the second and ninth, seven give all.
    assert median_interval(list(range(1, 11))) == (2, 9)
    assert median_interval([5.0, 1.0, 3.0, 2.0, 4.0, 7.0, 6.0]) == (1.0, 7.0)
    assert median_interval([3.0]) == (3.0, 3.0)


series = st.lists(st.floats(0.01, 100), min_size=1, max_size=40)


@given(series)
def test_intervals_lie_within_the_values_and_hold_the_median(values: list[float]) -> None:
    ordered = sorted(values)
    for low, high in (median_interval(values), bootstrap(values)):
        assert ordered[0] <= low <= high <= ordered[-1]
    low, high = median_interval(values)
    assert low <= ordered[(len(values) - 1) // 2] <= ordered[len(values) // 2] <= high
    assert 0 <= spread(values) <= ordered[-1] - ordered[0]


@given(series, st.floats(0.1, 10))
def test_the_ratio_interval_scales_with_the_ratios(values: list[float], factor: float) -> None:
    low, high = ratio_interval(values)
    assert ratio_interval([value * factor for value in values]) == pytest.approx((low * factor, high * factor))


def test_the_parent_loads_no_torch() -> None:
    modules = "runners.study.rounds, runners.study.clock, runners.study.audit, runners.study.device"
    program = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
