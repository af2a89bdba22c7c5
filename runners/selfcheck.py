"""The ruler, measured: `python -m runners.selfcheck` prints figures and exits with 0 when all hold.

Same callable, two processes: a tie. A tenth slower on purpose: found slower. A callable that sleeps, one that
works where events do not look, one that keeps its result: marked. Takes about a minute.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from runners.study.audit import answers_repeat, fingerprints
from runners.study.clock import Block, CpuClock, clock_for
from runners.study.device import gpu_facts
from runners.study.record import Timing
from runners.study.rounds import Budget, is_tie, measure

TWINS = 5
REPEATS = 5
"""A/A: every one of the twins is once the denominator of the others, this often: 5 × 4 × 5 = 100 pairs."""

SLOWED = 10
"""How often a twin is held against the callable that is slower by a tenth."""

TRIES = 4
"""A pair is measured again, this often in all, when the machine was disturbed, whatever came out."""

A_A = Budget(seconds_per_cell=0.15, cap_rounds=40)
CAREFUL = Budget(seconds_per_cell=1.0, cap_rounds=200)


@dataclass(frozen=True)
class Finding:
    """One proof: what was found, in words and figures, and whether it is as it must be."""

    text: str
    holds: bool


def plain(values: Any) -> Any:
    """The callable under test: over a hundred microseconds of sorting and summing, so that what `slower` needs to
    read the time is little beside a tenth of it."""
    import numpy as np

    return np.cumsum(np.sort(values))


def slower(values: Any) -> Any:
    """`plain`, and a tenth of its time more."""
    began = time.perf_counter_ns()
    result = plain(values)
    now = time.perf_counter_ns()
    until = now + (now - began) // 10
    while time.perf_counter_ns() < until:
        pass
    return result


def sleepy(values: Any) -> Any:
    """`plain`, and a millisecond of sleep."""
    result = plain(values)
    time.sleep(0.001)
    return result


class Keeper:
    """`plain` once; then always the first answer."""

    def __init__(self) -> None:
        self.kept: Any = None

    def __call__(self, values: Any) -> Any:
        if self.kept is None:
            self.kept = plain(values)
        return self.kept


class Process:
    """A ruler that is a process of its own, as the study's workers are. To be closed."""

    method = CpuClock.method

    def __init__(self, call: Callable[..., Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, call), daemon=True)
        self._process.start()
        far.close()

    def estimate(self) -> float:
        self._pipe.send(0)
        return float(self._pipe.recv())

    def block(self, calls: int) -> Block:
        self._pipe.send(calls)
        block: Block = self._pipe.recv()
        return block

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


def pool() -> list[tuple[Any, ...]]:
    """Inputs that differ from call to call and are the same in every process."""
    import numpy as np

    return [(np.random.default_rng(seed).random(20_000, dtype=np.float32),) for seed in range(4)]


def _serve(pipe: Connection, call: Callable[..., Any]) -> None:
    clock, inputs, done = clock_for("cpu"), pool(), 0
    try:
        while True:
            calls = pipe.recv()
            pipe.send(clock.block(call, inputs, calls, done) if calls else clock.estimate(call, inputs))
            done += calls
    except EOFError:
        return


def same_is_a_tie(twins: Sequence[Process]) -> Finding:
    """A/A between processes: at least 99 of 100 pairs must tie."""
    rulers = dict(enumerate(twins))
    timings = [
        outcome.timing
        for seed in range(REPEATS)
        for denominator in rulers
        for key, outcome in measure(rulers, denominator, A_A, seed=seed).items()
        if key != denominator and outcome.timing is not None
    ]
    ties = sum(_tied(timing) for timing in timings)
    off = sorted(abs((timing.ratio or 0) - 1) for timing in timings)
    pairs = TWINS * (TWINS - 1) * REPEATS
    return Finding(
        f"the same callable in two processes: {ties} of {pairs} pairs tie; the ratio is off by "
        f"{off[len(off) // 2]:.1%} in the median, {off[-1]:.1%} at most; {_disturbed(timings)}",
        ties >= 0.99 * pairs,
    )


def slower_is_found(twin: Process, slowed: Process) -> Finding:
    """A tenth slower: found in nine of ten at least."""
    rulers = {"plain": twin, "slower": slowed}
    timings = [_undisturbed(rulers, "slower", seed) for seed in range(SLOWED)]
    found = sum(timing.ratio_high is not None and timing.ratio_high < 1 for timing in timings)
    ratios = sorted(timing.ratio or 0 for timing in timings)
    return Finding(
        f"a callable slower by a tenth: found slower in {found} of {SLOWED}; ratios {ratios[0]:.3f} to "
        f"{ratios[-1]:.3f}, 0.909 is right; {_disturbed(timings)}",
        found >= 0.9 * SLOWED,
    )


def sleep_is_marked(twin: Process, asleep: Process) -> Finding:
    """A callable that sleeps is marked as waiting; one that works is not."""
    outcomes = measure({"plain": twin, "sleepy": asleep}, "plain", A_A)
    works, sleeps = outcomes["plain"].timing, outcomes["sleepy"].timing
    assert works is not None
    assert sleeps is not None
    shares = [timing.more.get("waiting_share") for timing in (works, sleeps)]
    if None in shares:
        return Finding("a callable that sleeps: not told apart here, the kernel gives no scheduling times", True)
    return Finding(
        f"a callable that sleeps: it waits for {shares[1]:.0%} of its time, one that works for {shares[0]:.0%}; "
        f"marked {sleeps.more['waits']} and {works.more['waits']}",
        sleeps.more["waits"] and not works.more["waits"],
    )


def kept_result_is_exposed() -> Finding:
    """A callable that answers changed inputs with its first answer is exposed; one that computes is not."""
    inputs = pool()
    reference = fingerprints(plain, inputs)
    keeper, honest = (answers_repeat(fingerprints(call, inputs), reference) for call in (Keeper(), plain))
    return Finding(
        f"a callable that keeps its result: exposed {keeper}, one that computes {honest}", keeper and not honest
    )


def other_stream_is_marked() -> Finding:
    """On CUDA, work on a stream of its own escapes events but not the host's clock, and is marked."""
    if gpu_facts() is None:
        return Finding("a callable that works on another stream: not checked, no GPU is here", True)
    import torch

    matrix, side = torch.rand(4096, 4096, device="cuda"), torch.cuda.Stream()

    def call(values: Any) -> Any:
        with torch.cuda.stream(side):
            return values @ values

    class Here:
        method = clock_for("cuda").method

        def estimate(self) -> float:
            return clock_for("cuda").estimate(call, [(matrix,)])

        def block(self, calls: int) -> Block:
            return clock_for("cuda").block(call, [(matrix,)], calls)

    timing = measure({"side": Here()}, None, A_A)["side"].timing
    assert timing is not None
    marked = bool(timing.more["unseen_by_events"])
    return Finding(
        f"a callable that works on another stream: {timing.median_ms:.3f} ms by the host's clock, "
        f"{timing.more['device_ms']:.3f} ms by events; marked {marked}",
        marked,
    )


def main() -> int:
    """Run all proofs, print them, and return 0 when all hold, else 1."""
    began = time.monotonic()
    twins = [Process(plain) for _ in range(TWINS)]
    slowed, asleep = Process(slower), Process(sleepy)
    proofs = (
        lambda: same_is_a_tie(twins),
        lambda: slower_is_found(twins[0], slowed),
        lambda: sleep_is_marked(twins[0], asleep),
        kept_result_is_exposed,
        other_stream_is_marked,
    )
    holds = True
    try:
        for proof in proofs:
            finding = proof()
            holds &= finding.holds
            print(f"{'ok  ' if finding.holds else 'FAIL'} {finding.text}", flush=True)
    finally:
        for process in (*twins, slowed, asleep):
            process.close()
    print(f"{'all hold' if holds else 'the ruler cannot be trusted here'}; {time.monotonic() - began:.0f} s")
    return 0 if holds else 1


def _undisturbed(rulers: dict[str, Process], key: str, seed: int, tries: int = TRIES) -> Timing:
    outcome = measure(rulers, "plain", CAREFUL, seed=seed)[key]
    if outcome.timing is None:
        raise outcome.error or RuntimeError(f"{key} was not measured")
    if outcome.timing.more["disturbed"] and tries > 1:
        return _undisturbed(rulers, key, seed + SLOWED, tries - 1)
    return outcome.timing


def _tied(timing: Timing) -> bool:
    return is_tie(timing.ratio_low, timing.ratio_high)


def _disturbed(timings: Sequence[Timing]) -> str:
    count = sum(bool(timing.more["disturbed"]) for timing in timings)
    return f"the machine was disturbed in {count} of {len(timings)}"


if __name__ == "__main__":
    argparse.ArgumentParser("python -m runners.selfcheck", description=__doc__).parse_args()
    sys.exit(main())
