"""Measuring rounds: every live worker is asked for one block of calls in turn, round after round.

The parent runs this and loads no compiler. Whatever the machine does, all rulers of a round live through
the same of it, so a ratio is taken round by round: the denominator's sample over a ruler's own. The order
is shuffled anew each round from a fixed seed, so that no ruler always inherits the caches of the same one.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from runners.study.clock import Block
from runners.study.intervals import LEVEL, RESOLUTION, median_interval, ratio_interval, spread
from runners.study.record import Timing

Key = TypeVar("Key", bound=Hashable)

UNSTABLE = 0.10
"""A median whose interval is wider than this share of it is marked unstable."""

WAITING = 0.2
"""A ruler that neither computed nor queued for a processor during more than this share of its (median) block
is marked as waiting: it slept, or another process worked for it."""

DISTURBED = 0.05
"""A ruler that waited for a processor during more than this share of its (median) block is marked disturbed:
other processes wanted the machine. Intervals are widened by that share, marked or not."""

MOST_LOST = 0.99
"""The largest share of lost time that is reckoned with, so that an interval stays finite."""

FASTEST_CALL_MS = 1e-4
"""No Python call is faster; an estimate below it is a mistake that must not make a block endless."""

FEWEST_SAMPLES = 3
"""With fewer samples than this there is no interval."""


class Ruler(Protocol):
    """A live worker with its callable. Both methods may raise; the ruler then drops out."""

    @property
    def method(self) -> str:
        """How the worker's clock measures; printed beside the number."""
        ...

    def estimate(self) -> float:
        """Milliseconds per call, roughly, after warming up."""
        ...

    def block(self, calls: int) -> Block:
        """One block of `calls` calls."""
        ...


@dataclass(frozen=True)
class Budget:
    """How long to measure. A ruler stops at `cap_rounds`, or, from `floor_rounds` on, when its blocks have
    taken `seconds_per_cell` or its median's interval is narrower than `settled`. Calls so slow that the floor
    would take more than `patience` times `seconds_per_cell` stop early and are marked. `block_ms` is the
    length of a block: on a CPU that others use, shorter than a scheduler's time slice (about 3 ms), because a
    process that has slept is let through for that long. `deadline` (time.monotonic) ends all rounds, floor or
    not."""

    seconds_per_cell: float = 0.8
    floor_rounds: int = 7
    cap_rounds: int = 60
    block_ms: float = 2.0
    settled: float = 0.01
    patience: float = 10.0
    deadline: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one ruler: its timing, or the error with which it dropped out; neither when the
    deadline came before its first block."""

    timing: Timing | None = None
    error: Exception | None = None


@dataclass
class _Seat:
    """A ruler's place in the rounds."""

    ruler: Ruler
    estimate_ms: float = 0.0
    calls: int = 1
    seconds: float = 0.0
    blocks: list[Block] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    error: Exception | None = None


def measure(
    rulers: Mapping[Key, Ruler],
    denominator: Key | None,
    budget: Budget,
    progress: Callable[[Key, int], None] = lambda key, rounds: None,
    seed: int = 0,
) -> dict[Key, Outcome]:
    """Measure all rulers in rounds; nothing a ruler does raises here.

    `denominator` is the ruler by whose samples ratios are taken; it goes on as long as any other does, and
    is 1 to itself. `progress(key, rounds)` is called after each block. The times of `Timing` are milliseconds
    per call, one sample a block; `floor_ms` is left to the caller.
    """
    seats = {key: _Seat(ruler) for key, ruler in rulers.items()}
    for seat in seats.values():
        _estimate(seat, budget)
    shuffle = random.Random(seed).shuffle
    while order := _to_go(seats, denominator, budget):
        shuffle(order)
        for key in order:
            if _expired(budget):
                break
            _take_block(seats[key])
            progress(key, len(seats[key].samples))
    reference = None if denominator is None else seats.get(denominator)
    return {key: _outcome(seat, reference, budget) for key, seat in seats.items()}


def is_tie(low: float | None, high: float | None) -> bool:
    """Whether a ratio with this interval names no winner: it straddles 1, or there is no interval."""
    return low is None or high is None or low <= 1.0 <= high


def _estimate(seat: _Seat, budget: Budget) -> None:
    if _expired(budget):
        return
    try:
        seat.estimate_ms = seat.ruler.estimate()
    except Exception as error:
        seat.error = error
        return
    seat.calls = max(1, round(budget.block_ms / max(seat.estimate_ms, FASTEST_CALL_MS)))


def _take_block(seat: _Seat) -> None:
    began = time.monotonic()
    try:
        block = seat.ruler.block(seat.calls)
    except Exception as error:
        seat.error = error
        return
    seat.seconds += time.monotonic() - began
    seat.blocks.append(block)
    seat.samples.append(block.total_ms / block.calls)


def _to_go(seats: Mapping[Key, _Seat], denominator: Key | None, budget: Budget) -> list[Key]:
    """The rulers of the next round. The denominator is among them whenever another is."""
    if _expired(budget):
        return []
    alive = {key: seat for key, seat in seats.items() if seat.error is None}
    if all(_done(seat, budget) for seat in alive.values()):
        return []
    return [key for key, seat in alive.items() if key == denominator or not _done(seat, budget)]


def _done(seat: _Seat, budget: Budget) -> bool:
    rounds = len(seat.samples)
    if rounds >= budget.cap_rounds:
        return True
    if rounds < budget.floor_rounds:
        return rounds > 0 and seat.seconds > budget.patience * budget.seconds_per_cell
    return seat.seconds >= budget.seconds_per_cell or _width(seat.samples) <= budget.settled


def _expired(budget: Budget) -> bool:
    return budget.deadline is not None and time.monotonic() >= budget.deadline


def _width(samples: Sequence[float]) -> float:
    """The width of the median's interval as a share of the median."""
    low, high = median_interval(samples)
    middle = statistics.median(samples)
    return (high - low) / middle if middle else 0.0


def _outcome(seat: _Seat, reference: _Seat | None, budget: Budget) -> Outcome:
    if seat.error is not None or not seat.samples:
        return Outcome(error=seat.error)
    ratio, low, high = _ratio(reference, seat)
    return Outcome(
        Timing(
            median_ms=statistics.median(seat.samples),
            iqr_ms=spread(seat.samples),
            samples_ms=seat.samples,
            method=f"{seat.ruler.method}; {seat.calls} calls a block, one block a round, order shuffled",
            ratio=ratio,
            ratio_low=low,
            ratio_high=high,
            more=_more(seat, budget),
        )
    )


def _ratio(reference: _Seat | None, own: _Seat) -> tuple[float | None, float | None, float | None]:
    """The ratio with its interval, over the rounds in which both were measured."""
    if reference is own:
        return 1.0, 1.0, 1.0
    if reference is None:
        return None, None, None
    # Every ruler starts in the first round and misses none until it stops, so positions are rounds.
    ratios = [theirs / ours for theirs, ours in zip(reference.samples, own.samples, strict=False) if ours > 0]
    if not ratios:
        return None, None, None
    middle = statistics.median(ratios)
    if len(ratios) < FEWEST_SAMPLES:
        return middle, None, None
    return (middle, *ratio_interval(ratios, _delay_share(reference), _delay_share(own)))


def _delay_share(seat: _Seat) -> float:
    """The share of a block that other processes took. The median, as of the times: a few bad blocks move neither."""
    shares = [block.delay_ms and block.delay_ms / block.total_ms for block in seat.blocks]
    return min(_median(shares) or 0.0, MOST_LOST)


def _more(seat: _Seat, budget: Budget) -> dict[str, Any]:
    """What stands beside the times: how they came about and what disturbed them. Only what is known."""
    blocks = seat.blocks
    per_call = [None if block.device_ms is None else block.device_ms / block.calls for block in blocks]
    waiting = _median([_waiting_share(block) for block in blocks])
    # Work on a stream that is not torch's current one.
    unseen = _median([block.device_ms and 1 - block.device_ms / block.total_ms for block in blocks])
    found = {
        "device_ms": _median(per_call),
        "device_samples_ms": [value for value in per_call if value is not None] or None,
        "hot_ms": _median([block.hot_ms for block in blocks]),
        "cold_ms": _median([block.cold_ms for block in blocks]),
        "sm_mhz": _median([block.sm_mhz for block in blocks]),
        "peak_bytes": _largest([block.peak_bytes for block in blocks]),
        "other_processes": _largest([block.others for block in blocks]),
        "waiting_share": waiting,
        "waits": None if waiting is None else waiting > WAITING,
        "unseen_by_events": None if unseen is None else unseen > WAITING,
    }
    return {
        "rounds": len(seat.samples),
        "calls_per_block": seat.calls,
        "estimate_ms": seat.estimate_ms,
        "unstable": len(seat.samples) < budget.floor_rounds or _width(seat.samples) > UNSTABLE,
        "disturbed": _delay_share(seat) > DISTURBED,
        "lost_share": round(_delay_share(seat), 4),
        "throttled": [index for index, block in enumerate(blocks) if block.throttled],
        "interval": {"level": LEVEL, "resolution": RESOLUTION},
        **{name: value for name, value in found.items() if value is not None},
    }


def _waiting_share(block: Block) -> float | None:
    if block.cpu_ms is None or block.delay_ms is None:
        return None
    return max(0.0, 1.0 - (block.cpu_ms + block.delay_ms) / block.total_ms)


def _largest(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
