"""Prints how far draws by few rotations can be told from sorted random keys.

    python -m tests.benchmarks.rotations [--draws 100000]

Each cell has the worst statistic over the given number of draws, in standard deviations: pairs drawn together by the
distance of their ranks, and ranks in successive slots by their difference. Rows are the size of a class and how many of
it are drawn; columns are the rotations. The statistics are those of the sampler's tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

from tests.models.test_partition import generator, permutations, worst_distance, worst_lag

ROWS: dict[tuple[int, int], list[int]] = {
    (1000, 100): [6, 8],
    (100, 50): [6, 8, 10],
    (50, 25): [8, 10, 12, 14],
    (24, 12): [8, 10, 12, 14],
    (12, 6): [8, 10, 12, 14],
}
"""n and how many are drawn: the numbers of rotations."""

AT_ONCE = 10_000


def keys(n: int, draws: int, seed: int) -> torch.Tensor:
    """Random permutations by sorted keys, int64 ``[draws, n]``."""
    return torch.rand(draws, n, dtype=torch.float64, generator=generator(seed)).argsort(1)


def cell(make: Callable[[int], torch.Tensor], n: int, k: int, draws: int) -> str:
    drawn = torch.cat([make(seed)[:, :k] for seed in range(draws // AT_ONCE)])
    return f"{worst_distance(drawn, n):.1f} / {worst_lag(drawn, n):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000, help="a multiple of 10 000")
    draws = parser.parse_args().draws
    if draws < AT_ONCE or draws % AT_ONCE:
        parser.error(f"--draws must be a multiple of {AT_ONCE}, but is {draws}")
    for (n, k), numbers in ROWS.items():
        cells = {"sorted keys": cell(lambda seed, n=n: keys(n, AT_ONCE, seed), n, k, draws)}
        for turns in numbers:
            cells[f"R = {turns}"] = cell(
                lambda seed, n=n, turns=turns: permutations(n, AT_ONCE, turns, seed), n, k, draws
            )
        print(f"| {n}, {k} | " + " | ".join(f"{name}: {value}" for name, value in cells.items()) + " |", flush=True)


if __name__ == "__main__":
    main()
