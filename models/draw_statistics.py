"""Statistics of samples drawn without replacement: is every member as likely, is the order uniform?

Each test compares the mean of a vector of counts per draw (items per bin, positives per slot, …) with what
the contract gives, or with a reference's draws, by Hotelling's T². Draws are independent, so the mean of many
is close to normal whatever the counts' own distribution, and the covariance is estimated from the draws
themselves; a variance of 1/draws is added to each bin, which only makes the test more careful. A test alarms
at p < `NOMINAL`, a tenth of the stated `FALSE_ALARM`, which leaves room for the approximation.

`sees_bias_of` of a test is the bias that it would have noticed 99 times in 100, where a bias of 20 % means
that half of the bins get 20 % too much and the other half as much too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from models.case import Fault

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Counts = NDArray[numpy.float64]
    Positions = NDArray[numpy.int64]

FALSE_ALARM = 1e-6
NOMINAL = 1e-7
ASKED_BIAS = 0.2

_MOST_BINS = 32
_DRAWS_A_BIN = 5
_COUNT_A_BIN = 200
_DISTANCES = 8
_LARGE_CLASS = 100
"""In a smaller class the numbers of pairs at several distances hang together too closely to be near normal."""


@dataclass(frozen=True)
class Outcome:
    """p-value of a test and the relative bias that it would have noticed; infinite if none."""

    p: float
    sees_bias_of: float

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"p": float(f"{self.p:.2g}"), "sees_bias_of": round(min(self.sees_bias_of, 9.0), 4)}
        if self.sees_bias_of > ASKED_BIAS:
            facts["note"] = "could not have seen a bias of 20 %"
        return facts


@dataclass(frozen=True)
class Layout:
    """What all draws have in common: the class of each item (0, 1, anything else is never drawn), how many of
    class 1 are among the K drawn, and how many draws a call gives."""

    classes: NDArray[numpy.int64]
    drawn: int
    ones: int
    batch: int = 1

    def members(self, which: int) -> Positions:
        import numpy

        return numpy.flatnonzero(self.classes == which)

    def quota(self, which: int) -> int:
        return self.ones if which else self.drawn - self.ones

    def outcomes(self) -> float:
        """The natural logarithm of the number of equally likely draws."""
        log = math.lgamma(self.drawn + 1)
        for which in (0, 1):
            size, quota = len(self.members(which)), self.quota(which)
            log += math.lgamma(size + 1) - math.lgamma(quota + 1) - math.lgamma(size - quota + 1)
        return log


@dataclass(frozen=True)
class Test:
    """One statistic: the code of its fault, the counts `[draws, bins]` of draws, what one draw should count
    `[bins]`, and the change of those counts that a bias of `ASKED_BIAS` is."""

    code: str
    count: Callable[[Positions], Counts]
    expected: Counts
    bias: Counts


def mean_test(draws: Counts, expected: Counts, bias: Counts, reference: Counts | None = None) -> Outcome:
    """Hotelling's test of counts per draw `[draws, bins]` against their `expected` mean `[bins]`, or against
    the mean of a `reference` `[its draws, bins]`; its power against a shift of the mean by `bias`."""
    import numpy
    from scipy.stats import f

    count, bins = draws.shape
    if reference is None:
        difference = draws.mean(0) - expected
        covariance, weight, freedom, total = numpy.cov(draws, rowvar=False), float(count), count - bins, count - 1
    else:
        others = reference.shape[0]
        difference = draws.mean(0) - reference.mean(0)
        total = count + others - 2
        covariance = (
            (count - 1) * numpy.cov(draws, rowvar=False) + (others - 1) * numpy.cov(reference, rowvar=False)
        ) / total
        weight, freedom = count * others / (count + others), total + 1 - bins
    covariance = numpy.atleast_2d(covariance) + numpy.eye(bins) / count

    def statistic(shift: Counts) -> float:
        return float(weight * shift @ numpy.linalg.solve(covariance, shift))

    p = float(f.sf(statistic(difference) * freedom / (total * bins), bins, freedom))
    needed = _noncentrality(bins, freedom)
    strength = statistic(bias)
    return Outcome(p, ASKED_BIAS * math.sqrt(needed / strength) if strength > 0 else math.inf)


def sampling_faults(
    draws: Positions, layout: Layout, reference: Positions | None = None
) -> tuple[list[Fault], dict[str, Any]]:
    """Faults of draws `[draws, K]` (positions in the order drawn), and what each test saw.

    Without a `reference` they are held against the contract; with one, `[its draws, K]`, a statistic is wrong
    only where it differs from the reference's.
    """
    faults = _broken_rules(draws, layout)
    facts: dict[str, Any] = {"draws": len(draws)}
    if faults:
        return faults, facts
    fewest = len(draws) if reference is None else min(len(draws), len(reference))
    for name, test in _tests(layout, fewest).items():
        others = None if reference is None else test.count(reference)
        outcome = mean_test(test.count(draws), test.expected, test.bias, others)
        facts[name] = outcome.facts
        if outcome.p < NOMINAL:
            against = "uniform" if reference is None else "eager's"
            faults.append(Fault(test.code, f"{name} is not {against}: p = {outcome.p:.1g} in {len(draws)} draws"))
    if len(facts) == 1:
        facts["note"] = "too few draws for any test: could not have seen a bias of 20 %"
    return faults, facts


def _broken_rules(draws: Positions, layout: Layout) -> list[Fault]:
    """What no draw may do, and what independent draws never do."""
    import numpy

    faults = []
    ordered = numpy.sort(draws, 1)
    twice = int((ordered[:, 1:] == ordered[:, :-1]).any(1).sum())
    if twice:
        faults.append(Fault("RNG.repeats", f"{twice} of {len(draws)} draws hold an item twice"))
    elif layout.outcomes() > 2 * math.log(len(draws)) - math.log(NOMINAL):
        faults += _dependent(draws, ordered, layout)
    ones = (layout.classes[draws] == 1).sum(1)
    zeros = (layout.classes[draws] == 0).sum(1)
    if (ones + zeros != layout.drawn).any():
        faults.append(Fault("VALUE.ineligible", "an item that belongs to neither class was drawn"))
    elif (ones != layout.ones).any():
        faults.append(Fault("VALUE.quota", f"{ones.min()} to {ones.max()} positives were drawn, not {layout.ones}"))
    return faults


def _dependent(draws: Positions, ordered: Positions, layout: Layout) -> list[Fault]:
    """Draws that repeat one another, though there are far too many possible ones for that."""
    calls = len(draws) // layout.batch
    one_way = all(layout.quota(which) in (0, len(layout.members(which))) for which in (0, 1))
    if calls > 1 and _different(draws.reshape(calls, -1)) == 1:
        return [Fault("RNG.frozen", f"{calls} calls drew the same")]
    if calls > 1 and not one_way and _different(ordered.reshape(calls, -1)) == 1:
        return [Fault("RNG.frozen", f"{calls} calls drew the same items; only their order changes")]
    if (different := _different(draws)) < len(draws):
        return [
            Fault(
                "RNG.repeats",
                f"only {different} of {len(draws)} draws differ: calls, or rows of a batch, repeat one another",
            )
        ]
    return []


def _different(rows: Positions) -> int:
    return len({row.tobytes() for row in rows})


def _tests(layout: Layout, draws: int) -> dict[str, Test]:
    """The tests that so many draws allow, by name: at most one bin for five draws, and bins that hold 200
    counts together. A test that comes to fewer than two bins is left out."""
    tests: dict[str, Test] = {}
    for which, name in ((1, "positives"), (0, "negatives")):
        tests |= _inclusion_tests(layout, which, name, draws)
    return tests | _order_tests(layout, draws)


def _inclusion_tests(layout: Layout, which: int, name: str, draws: int) -> dict[str, Test]:
    """Is each member of a class as likely (in blocks, in stripes), and each pair of them?"""
    import numpy

    members, quota, items = layout.members(which), layout.quota(which), len(layout.classes)
    size = len(members)
    bins = min(_MOST_BINS, draws // _DRAWS_A_BIN, draws * quota // _COUNT_A_BIN, size)
    if bins < 2 or quota == size:
        return {}
    tests = {}
    ranks = numpy.arange(size)
    for how, bin_of_rank in (("", ranks * bins // size), (" in stripes", ranks % bins)):
        bin_of = numpy.full(items, -1)
        bin_of[members] = bin_of_rank
        expected = quota * numpy.bincount(bin_of_rank, minlength=bins) / size
        tests[f"inclusion of {name}{how}"] = Test(
            "INCLUSION.biased", _binned(bin_of, bins), expected, ASKED_BIAS * _tilt(expected)
        )
    if size >= _LARGE_CLASS and draws * quota * quota // size > _COUNT_A_BIN:
        distances = numpy.arange(1, min(_DISTANCES, bins) + 1)
        expected = (size - distances) * quota * (quota - 1) / (size * (size - 1))
        tests[f"pairs of {name} drawn together"] = Test(
            "INCLUSION.biased", _pairs(members, items, distances), expected, ASKED_BIAS * _tilt(expected)
        )
    return tests


def _order_tests(layout: Layout, draws: int) -> dict[str, Test]:
    """Is each slot as likely to hold a positive, and as likely to hold each part of the items?"""
    import numpy

    tests = {}
    items, slots = len(layout.classes), layout.drawn
    rarer = min(layout.ones, slots - layout.ones)
    bins = min(_MOST_BINS, draws // _DRAWS_A_BIN, draws * rarer // _COUNT_A_BIN, slots)
    if bins >= 2:
        slot_bin = numpy.arange(slots) * bins // slots
        expected = layout.ones * numpy.bincount(slot_bin, minlength=bins) / slots
        tests["order of the classes"] = Test(
            "ORDER.biased", _ones_in(slot_bin, bins, layout.classes), expected, ASKED_BIAS * _tilt(expected)
        )
    side = min(math.isqrt(min(_MOST_BINS, draws // _DRAWS_A_BIN)), math.isqrt(draws * slots // _COUNT_A_BIN), slots)
    if side >= 2:
        slot_bin, item_bin = numpy.arange(slots) * side // slots, numpy.arange(items) * side // items
        share = numpy.bincount(slot_bin, minlength=side) / slots
        chance = numpy.zeros(items)
        for which in (0, 1):
            members = layout.members(which)
            chance[members] = layout.quota(which) / max(len(members), 1)
        counts = numpy.bincount(item_bin, chance, minlength=side).astype(float)
        tests["order of the items"] = Test(
            "ORDER.biased",
            _table(slot_bin, item_bin, side),
            numpy.outer(share, counts).reshape(-1),
            ASKED_BIAS * numpy.outer(_tilt(share), _tilt(counts)).reshape(-1),
        )
    return tests


def _tilt(expected: Counts) -> Counts:
    """A change of `expected`, of the same size in its two halves, that leaves the total as it is."""
    import numpy

    first = numpy.arange(len(expected)) < len(expected) / 2
    one, other = expected[first].sum(), expected[~first].sum()
    tilted: Counts = expected * numpy.where(first, 1 / max(one, 1e-300), -1 / max(other, 1e-300)) * min(one, other)
    return tilted


def _binned(bin_of: NDArray[numpy.int64], bins: int) -> Callable[[Positions], Counts]:
    """Drawn items per bin; items in bin -1 are not counted."""

    def count(draws: Positions) -> Counts:
        return _histogram(bin_of[draws], bins)

    return count


def _ones_in(slot_bin: NDArray[numpy.int64], bins: int, classes: NDArray[numpy.int64]) -> Callable[[Positions], Counts]:
    """Items of class 1 per bin of output slots."""
    import numpy

    def count(draws: Positions) -> Counts:
        return _histogram(numpy.where(classes[draws] == 1, slot_bin, -1), bins)

    return count


def _table(slot_bin: NDArray[numpy.int64], item_bin: NDArray[numpy.int64], side: int) -> Callable[[Positions], Counts]:
    """Items per bin of slots and bin of positions, as one row of `side` times `side`."""

    def count(draws: Positions) -> Counts:
        return _histogram(slot_bin * side + item_bin[draws], side * side)

    return count


def _pairs(members: Positions, items: int, distances: NDArray[numpy.int64]) -> Callable[[Positions], Counts]:
    """Pairs of drawn members whose ranks in their class lie `distances` apart."""
    import numpy

    def count(draws: Positions) -> Counts:
        mask = numpy.zeros((len(draws), items), dtype=bool)
        numpy.put_along_axis(mask, draws, True, 1)
        mask = mask[:, members]
        together = [(mask[:, distance:] & mask[:, :-distance]).sum(1) for distance in distances]
        return numpy.stack(together, 1).astype(float)

    return count


def _histogram(bin_of: NDArray[numpy.int64], bins: int) -> Counts:
    """Rows of bin numbers `[draws, K]` (-1: none) as counts `[draws, bins]`."""
    import numpy

    draws = len(bin_of)
    flat = (numpy.arange(draws)[:, None] * bins + bin_of)[bin_of >= 0]
    return numpy.bincount(flat, minlength=draws * bins).reshape(draws, bins).astype(float)


def _noncentrality(bins: int, freedom: int) -> float:
    """How far from the null an F test at `NOMINAL` notices 99 times in 100."""
    from scipy.optimize import brentq
    from scipy.stats import f, ncf

    limit = float(f.isf(NOMINAL, bins, freedom))
    high = 64.0
    while ncf.sf(limit, bins, freedom, high) < 0.99 and high < 1e9:
        high *= 2
    return float(brentq(lambda strength: ncf.sf(limit, bins, freedom, strength) - 0.99, 1e-3, high, rtol=1e-2))
