"""Intervals for medians and for ratios of times that drift and have outliers.

The ratio's interval is a circular block bootstrap of the median over rounds (Politis and Romano 1992):
neighbouring rounds are drawn together, because what disturbs a machine outlasts a round. A bootstrap knows
only the processes that were measured. Two processes that run the same code differ by a little, always (where
their memory lies), so each end is moved outward by `RESOLUTION`: smaller differences are no finding. Where
other processes took the processors away, the ends move by the share of time that they took.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LEVEL = 0.99
RESOLUTION = 0.02
RESAMPLES = 2000


def ratio_interval(
    ratios: Sequence[float], lost_by_reference: float = 0.0, lost_by_own: float = 0.0
) -> tuple[float, float]:
    """Low and high end for the median of round-by-round ratios, reference over own; the same numbers give the
    same interval. `lost_by_…` is the share of either's time that other processes took: undisturbed, a time
    would lie anywhere between what is left without that share and what was measured."""
    low, high = bootstrap(ratios)
    return low * (1 - lost_by_reference) / (1 + RESOLUTION), high / (1 - lost_by_own) * (1 + RESOLUTION)


def bootstrap(values: Sequence[float], level: float = LEVEL, seed: int = 0) -> tuple[float, float]:
    """The circular block bootstrap's interval for the median, before any widening."""
    import numpy as np

    series = np.asarray(values, dtype=float)
    count = len(series)
    length = max(1, round(count ** (1 / 3)))
    starts = np.random.default_rng(seed).integers(0, count, size=(RESAMPLES, math.ceil(count / length)))
    picks = (starts[:, :, None] + np.arange(length)).reshape(RESAMPLES, -1)[:, :count] % count
    medians = np.median(series[picks], axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """A sign-test interval for the median: the order statistics outside of which it lies with probability at
    most 1 - level, if draws are independent. With too few values it is their whole range."""
    ordered = sorted(values)
    count = len(ordered)
    rank, tail = 0, 0.5**count
    while rank + 1 < (count + 1) // 2:
        following = tail + math.comb(count, rank + 1) * 0.5**count
        if 2 * following > 1 - level:
            break
        rank, tail = rank + 1, following
    return ordered[rank], ordered[count - 1 - rank]


def spread(values: Sequence[float]) -> float:
    """The interquartile range, quartiles interpolated linearly; 0 for a single value."""
    ordered = sorted(values)
    return _quantile(ordered, 0.75) - _quantile(ordered, 0.25)


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
