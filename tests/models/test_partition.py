"""Tests of the partition sampler.

Every statistical test has a fixed seed, so it passes or fails for good. Its bound is chosen as if the seed
were free: the
test raises a false alarm with probability at most 1e-6, Bonferroni's correction over its cells included.
"""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from models.partition import (
    BLOCK,
    COEFFICIENTS,
    FILLER,
    PRIME,
    MaskedPartitionSampler,
    PartitionSampler,
    amounts,
    draw_noise,
    grid,
    lines,
    partition,
    rounds,
    shuffle,
    side,
    spread,
    subsample_labels,
    subsample_labels_static,
)

FALSE_ALARM = 1e-6


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def permutations(n: int, draws: int, turns: int, seed: int) -> torch.Tensor:
    """Random permutations by ``shuffle``, int64 ``[draws, n]``."""
    grids = grid(torch.full((draws, 1), n, dtype=torch.int32), side(n))
    cell = torch.arange(n, dtype=torch.int32).expand(draws, n)
    points = torch.arange(side(n), dtype=torch.int32).expand(draws, -1)
    numbers = spread(torch.rand(draws, turns, COEFFICIENTS, generator=generator(seed)), points)
    return shuffle(cell, grids, amounts(numbers.unflatten(1, (turns // 2, 2)), grids)).long()


def reference(n: int, draws: int, seed: int) -> torch.Tensor:
    """Random permutations by ``torch.randperm``, int64 ``[draws, n]``."""
    source = generator(seed)
    return torch.stack([torch.randperm(n, generator=source) for _ in range(draws)])


def bound(cells: int) -> float:
    """Standard deviations that the worst of so many normal cells exceeds with probability FALSE_ALARM."""
    return float(norm.isf(FALSE_ALARM / (2 * cells)))


def worst_inclusion(drawn: torch.Tensor, n: int) -> float:
    """Worst item's frequency, in standard deviations; drawn is ``[draws, k]``, k < n."""
    draws, k = drawn.shape
    counts = torch.bincount(drawn.flatten(), minlength=n).double()
    return float((counts - draws * k / n).abs().max() / math.sqrt(draws * k / n * (1 - k / n)))


def worst_distance(drawn: torch.Tensor, n: int) -> float:
    """Worst frequency of a distance between two drawn ranks, in standard deviations (measured over the
    draws).

    Distances with fewer than 400 expected pairs are left out: there the normal law is not good enough.
    """
    draws, k = drawn.shape
    total, squares = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for part in drawn.split(5000):
        mask = torch.zeros(len(part), n).scatter_(1, part, 1.0)
        spectrum = torch.fft.rfft(mask, 2 * n)
        pairs = torch.fft.irfft(spectrum.abs() ** 2, 2 * n)[:, :n].round().double()
        total += pairs.sum(0)
        squares += (pairs**2).sum(0)
    mean = total / draws
    expected = (n - torch.arange(n, dtype=torch.float64)) * k * (k - 1) / (n * (n - 1))
    enough = expected * draws >= 400
    enough[0] = False
    deviation = ((squares / draws - mean**2).clamp(min=1e-12) / draws).sqrt()
    return float(((mean - expected) / deviation)[enough].abs().max())


def worst_lag(drawn: torch.Tensor, n: int) -> float:
    """Worst frequency of a difference between the ranks in successive slots, in standard deviations."""
    lag = (drawn[:, 1:] - drawn[:, :-1] + n).flatten()
    apart = (torch.arange(2 * n) - n).abs().double()
    expected = (n - apart) / (n * (n - 1)) * lag.numel()
    expected[apart == 0] = 0
    enough = (expected > 400) & (apart > 0)
    found = torch.bincount(lag, minlength=2 * n).double()
    return float(((found - expected)[enough] / expected[enough].sqrt()).abs().max())


def worst_order(flags: torch.Tensor, share: float) -> float:
    """Worst slot's frequency of a flag, in standard deviations; flags is bool ``[draws, k]``."""
    draws = flags.shape[0]
    return float((flags.double().mean(0) - share).abs().max() / math.sqrt(share * (1 - share) / draws))


def expected_takes(positives: int, negatives: int, k: int) -> tuple[int, int]:
    """The article's quotas; an odd k's last slot, which it can leave empty, goes to whoever has an item."""
    take_positive, take_negative = min(positives, k // 2), min(negatives, k // 2)
    if take_negative < k // 2:
        take_positive = min(positives, k - take_negative)
    else:
        take_negative = min(negatives, k - take_positive)
    return min(positives, k - take_negative), take_negative


# The bijection


def test_bijection_for_every_small_n() -> None:
    for start in range(1, 2049, 128):
        sizes = torch.arange(start, start + 128, dtype=torch.int32).unsqueeze(1)
        most = int(sizes.max())
        grids = grid(sizes, side(most))
        cell = torch.arange(most, dtype=torch.int32).expand(128, most)
        inside = cell < sizes
        cell = torch.where(inside, cell, 0)
        numbers = torch.randint(PRIME, (128, 4, 2, side(most)), dtype=torch.int32, generator=generator(start))
        image = shuffle(cell, grids, amounts(numbers, grids))
        ordered = torch.where(inside, image, most).sort(1).values
        assert torch.equal(ordered, torch.where(inside, cell, most))


@settings(max_examples=15, deadline=None)
@given(n=st.integers(2049, 300_000), seed=st.integers(0, 2**31))
def test_bijection_for_large_n(n: int, seed: int) -> None:
    assert torch.equal(permutations(n, 1, 8, seed)[0].sort().values, torch.arange(n))


@pytest.mark.parametrize("n", [9_999_991])
def test_bijection_at_ten_million(n: int) -> None:
    assert bool(torch.bincount(permutations(n, 1, 8, 7)[0], minlength=n).eq(1).all())


@pytest.mark.parametrize("extreme", [0, PRIME - 1])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 1001**2, 4001**2])
def test_bijection_with_extreme_amounts(n: int, extreme: int) -> None:
    grids = grid(torch.tensor([[n]], dtype=torch.int32), side(n))
    cell = torch.arange(n, dtype=torch.int32).unsqueeze(0)
    image = shuffle(cell, grids, amounts(torch.full((1, 4, 2, side(n)), extreme, dtype=torch.int32), grids))
    assert bool(torch.bincount(image[0], minlength=n).eq(1).all())


@pytest.mark.parametrize("length", [1, 2, 3163, 2**14])
def test_amounts_lie_within_the_line(length: int) -> None:
    numbers = torch.tensor([0, 1, PRIME // 2, PRIME - 1], dtype=torch.int32).view(4, 1, 1, 1)
    whole = torch.tensor([length, length, length, 0], dtype=torch.int32).view(1, 4, 1).expand(4, -1, 1)
    turned = amounts(numbers, whole)[:, 0, 0]
    assert turned[0] == -length
    assert bool((turned >= -length).all()) and bool((turned <= 0).all())


@settings(max_examples=40, deadline=None)
@given(
    fractions=st.lists(st.floats(0, 1, width=32), min_size=COEFFICIENTS, max_size=COEFFICIENTS),
    width=st.sampled_from([1, 2, 57, 16_001]),
)
@example(fractions=[0.0, 0.0, 68681.5 / PRIME, 3264.5 / PRIME], width=16_001)  # 8384 PRIME, rounded to below, at 16 000
def test_spread_is_a_polynomial_over_the_field(fractions: list[float], width: int) -> None:
    """In Python's integers; a fraction of 1, which no draw gives, is the field's 0."""
    points = torch.arange(width, dtype=torch.int32).unsqueeze(0)
    found = spread(torch.tensor([[fractions]]), points)[0, 0].tolist()
    third, second, first, constant = (int(torch.tensor(value) * PRIME) for value in fractions)
    assert found == [(third * x**3 + second * x**2 + first * x + constant) % PRIME for x in range(width)]


@pytest.mark.parametrize("width", [2, 57, 16_001])
def test_any_four_lines_can_take_any_numbers(width: int) -> None:
    """So they are independent: PRIME^4 coefficients and PRIME^4 outcomes, and Lagrange's polynomial for each."""
    source = generator(width)
    places = torch.linspace(0, width - 1, min(width, COEFFICIENTS)).long().tolist()
    wanted = torch.randint(PRIME, (len(places),), generator=source).tolist()
    coefficients = [0] * COEFFICIENTS
    for place, value in zip(places, wanted, strict=True):
        basis, scale = [1], 1
        for other in set(places) - {place}:
            basis = [(a * -other + b) % PRIME for a, b in zip([*basis, 0], [0, *basis], strict=True)]
            scale = scale * (place - other) % PRIME
        for power, factor in enumerate(basis):
            coefficients[power] += factor * value * pow(scale, -1, PRIME)
    fractions = [(coefficient % PRIME + 0.5) / PRIME for coefficient in reversed(coefficients)]
    points = torch.tensor([places], dtype=torch.int32)
    assert spread(torch.tensor([[fractions]]), points)[0, 0].tolist() == wanted


def test_amounts_are_even_at_ten_million() -> None:
    """One is uneven by a hundredth, for 3163 does not divide 131 071; the four of a coordinate together are not."""
    grids = grid(torch.tensor([[10_000_000]], dtype=torch.int32), 3163)
    every = torch.arange(PRIME, dtype=torch.int32).view(PRIME, 1, 1, 1)
    turned = amounts(every, grids.expand(PRIME, 4, 1))[:, 0, 0] + 3163
    share = torch.bincount(turned % 3163, minlength=3163).double() / PRIME
    assert 0.01 < float((share * 3163 - 1).abs().max()) < 0.025
    together = torch.fft.ifft(torch.fft.fft(share) ** 4).real
    assert float((together * 3163 - 1).abs().max()) < 1e-8


@pytest.mark.parametrize(("n", "turns"), [(4, 14), (7, 14), (24, 14), (50, 10), (100, 10), (900, 8)])
def test_bijection_looks_like_randperm(n: int, turns: int) -> None:
    draws, k = (20_000, n // 2) if n < 900 else (5_000, 50)
    for drawn in (permutations(n, draws, turns, 1)[:, :k], reference(n, draws, 2)[:, :k]):
        assert worst_inclusion(drawn, n) < bound(n)
        assert worst_distance(drawn, n) < bound(n)


@pytest.mark.parametrize("n", [100, 900])
def test_distance_test_sees_too_few_rotations(n: int) -> None:
    assert worst_distance(permutations(n, 5_000, 4, 1)[:, : n // 2], n) > bound(n)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "turns"), [(12, 6, 14), (50, 25, 10), (100, 50, 10), (1000, 100, 8)])
def test_bijection_looks_like_randperm_at_100_000_draws(n: int, k: int, turns: int) -> None:
    for make in (
        lambda seed: permutations(n, 10_000, turns, seed)[:, :k],
        lambda seed: reference(n, 10_000, seed)[:, :k],
    ):
        drawn = torch.cat([make(seed) for seed in range(10)])
        assert worst_inclusion(drawn, n) < bound(n)
        assert worst_distance(drawn, n) < bound(n)
        assert worst_lag(drawn, n) < bound(2 * n)


# The partition


@settings(max_examples=60, deadline=None)
@given(data=st.data(), batch=st.integers(1, 3), n=st.integers(1, 3 * BLOCK + 1))
def test_partition(data: st.DataObject, batch: int, n: int) -> None:
    seed = data.draw(st.integers(0, 2**31))
    labels = torch.randint(-1, 3, (batch, n), generator=generator(seed))
    table, counts = partition(labels)
    assert torch.equal(table.sort(1).values, torch.arange(table.shape[1], dtype=torch.int32).expand_as(table))
    for row, (positives, negatives), label in zip(table, counts.tolist(), labels, strict=True):
        assert sorted(row[:positives].tolist()) == torch.where(label == 1)[0].tolist()
        assert sorted(row[len(row) - negatives :].tolist()) == torch.where(label == 0)[0].tolist()


# The draw


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(2, 400),
    k=st.integers(2, 120),
    share=st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]),
    left_out=st.sampled_from([0.0, 0.3, 1.0]),
    dtype=st.sampled_from([torch.int64, torch.int32, torch.uint8, torch.bool]),
    feature_dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    seed=st.integers(0, 2**31),
)
def test_contract(
    n: int, k: int, share: float, left_out: float, dtype: torch.dtype, feature_dtype: torch.dtype, seed: int
) -> None:
    source = generator(seed)
    labels = (torch.rand(n, generator=source) < share).long()
    if dtype != torch.bool:
        labels[torch.rand(n, generator=source) < left_out] = 7
    labels = labels.to(dtype)
    features = torch.arange(n, dtype=torch.float32).unsqueeze(1).expand(n, 3).to(feature_dtype)
    rows, row_labels, index, valid = MaskedPartitionSampler(k)(features, labels, draw_noise(None, k, source))
    takes = expected_takes(int((labels == 1).sum()), int((labels == 0).sum()), k)
    assert rows.shape == (k, 3) and rows.dtype == feature_dtype and row_labels.dtype == dtype
    assert len(set(index[valid].tolist())) == int(valid.sum()) == sum(takes)
    assert (int((row_labels[valid] == 1).sum()), int((row_labels[valid] == 0).sum())) == takes
    assert torch.equal(rows, features[index]) and torch.equal(row_labels, labels[index])
    assert bool((index[~valid] == FILLER).all())


@pytest.mark.parametrize("positives", [0, 1, 2, 3, 50, 97, 98, 99, 100])
@pytest.mark.parametrize("k", [2, 3, 10, 99, 100])
def test_counts_at_the_edges(positives: int, k: int) -> None:
    labels = torch.zeros(100, dtype=torch.int64)
    labels[torch.randperm(100, generator=generator(positives))[:positives]] = 1
    rows, row_labels = PartitionSampler(k)(torch.arange(100.0).unsqueeze(1), labels)
    assert len(set(rows[:, 0].tolist())) == k
    takes = expected_takes(positives, 100 - positives, k)
    assert (int((row_labels == 1).sum()), int((row_labels == 0).sum())) == takes


@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-24, 1.0])
@pytest.mark.parametrize("k", [10, 99, 1000])
def test_items_are_distinct_whatever_the_noise(k: int, extreme: float) -> None:
    sampler, labels = MaskedPartitionSampler(k), torch.arange(1000) % 2
    features = torch.zeros(1000, 1)
    _, _, index, valid = sampler(features, labels, torch.full_like(sampler.noise(features, labels), extreme))
    assert bool(valid.all()) and index.unique().numel() == k


@pytest.mark.parametrize("n", [9_999_991])
def test_ten_million_items(n: int) -> None:
    labels = torch.zeros(n, dtype=torch.uint8)
    labels[-3:] = 1
    labels[: n // 2] = 2
    _, row_labels, index, valid = MaskedPartitionSampler(1000)(torch.empty(n, 1, dtype=torch.float16), labels)
    assert bool(valid.all()) and index.unique().numel() == 1000
    assert int((row_labels == 1).sum()) == 3 and int((row_labels == 0).sum()) == 997


def test_k_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        PartitionSampler(1)


def batch_of_draws(draws: int, k: int, labels: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and labels of many draws of one image, each ``[draws, k]``."""
    n = labels.numel()
    features = torch.zeros(1, 1).expand(n, 1).expand(draws, n, 1)
    many = labels.expand(draws, n)
    _, row_labels, index, _ = MaskedPartitionSampler(k)(features, many, draw_noise(draws, k, generator(seed)))
    return index, row_labels


def check_draws(draws: int) -> None:
    n, k = 1000, 100
    labels = (torch.arange(n) % 10 != 0).long()
    parts = [batch_of_draws(2000, k, labels, seed) for seed in range(draws // 2000)]
    index, row_labels = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    positive = row_labels == 1
    rank = torch.where(labels == 1, labels.cumsum(0) - 1, (1 - labels).cumsum(0) - 1)
    for members, flags, count in ((900, positive, 50), (100, ~positive, 50)):
        ranks = rank[index[flags]].view(draws, count)
        assert worst_inclusion(ranks, members) < bound(members)
        assert worst_distance(ranks, members) < bound(members)
    assert worst_order(positive, 0.5) < bound(k)
    slots = positive.nonzero()[:, 1].view(draws, 50)
    assert worst_distance(slots, k) < bound(k)
    assert worst_order(index < n // 2, 0.5) < bound(k)
    # Rows of a batch and successive batches: items two draws have in common, hypergeometric in each class.
    for apart in (1, 2, 1000):
        mask = torch.zeros(draws, n).scatter_(1, index, 1.0)
        common = (mask[apart:] * mask[:-apart]).sum(1).double()
        mean = 50 * 50 / 900 + 50 * 50 / 100
        variance = sum(50 * (50 / m) * (1 - 50 / m) * (m - 50) / (m - 1) for m in (900, 100))
        assert abs(float(common.mean()) - mean) < bound(3) * math.sqrt(variance / len(common))


def test_draws_are_uniform() -> None:
    check_draws(6_000)


@pytest.mark.slow
def test_draws_are_uniform_at_100_000_draws() -> None:
    check_draws(100_000)


def test_successive_draws_differ() -> None:
    sampler, labels = PartitionSampler(50), torch.arange(1000) % 2
    features = torch.arange(1000.0).unsqueeze(1)
    assert not torch.equal(sampler(features, labels)[0], sampler(features, labels)[0])


def test_rows_of_a_batch_are_those_of_single_images() -> None:
    source = generator(5)
    labels = torch.randint(-1, 2, (4, 1500), generator=source)
    features, fractions = torch.randn(4, 1500, 2, generator=source), draw_noise(4, 64, source)
    sampler = MaskedPartitionSampler(64)
    together = sampler(features, labels, fractions)
    for image in range(4):
        alone = sampler(features[image], labels[image], fractions[image])
        assert all(torch.equal(a[image], b) for a, b in zip(together, alone, strict=True))


def test_noise_has_the_stated_shape() -> None:
    assert draw_noise(None, 100).shape == (rounds(100), COEFFICIENTS) == (10, 4)
    assert PartitionSampler(100).noise(torch.zeros(3, 1000, 2), torch.zeros(3, 1000)).shape == (3, 10, 4)


def test_there_is_a_line_for_each_of_the_three_grids() -> None:
    assert lines(1000, 100) == 45 + 1 + 10  # √2000 is 44.7
    for n in (*range(1, 130), 1000, 9_999_991):
        parts = torch.unique(torch.cat([torch.arange(min(n, 200) + 1), torch.linspace(0, n, 501).long()]))
        counts = torch.stack([parts, n - parts, torch.full_like(parts, 9)], 1).int()
        columns, rows, _, start = grid(counts, side(n) + 3).unbind(1)
        assert bool((rows <= columns).all())
        assert torch.equal(start, columns.cumsum(1) - columns)
        assert int(columns.sum(1).max()) <= lines(n, 9)


@pytest.mark.parametrize(("n", "k", "positives"), [(1000, 100, 0), (1000, 100, 1000), (1000, 1000, 500), (7, 7, 3)])
def test_every_line_of_the_three_grids_has_a_point_of_its_own(
    n: int, k: int, positives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def recorded(noise: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        seen.append(points)
        return spread(noise, points)

    monkeypatch.setattr("models.partition.spread", recorded)
    MaskedPartitionSampler(k)(torch.zeros(n, 1), (torch.arange(n) < positives).long())
    (points,) = seen
    assert points.unique().numel() == points.numel() == lines(n, k)
    assert int(points.min()) >= 0 and int(points.max()) < lines(n, k) + side(n)


def test_points_fit_up_to_twenty_million_items() -> None:
    """The positives' columns are what points are shifted by: at most √N."""
    assert lines(20_000_000, 20_000_000) - 1 + side(20_000_000) <= 16_000


def test_captured_graph_is_static_and_equal() -> None:
    labels, features = torch.arange(2500) % 3, torch.randn(2500, 4)
    sampler, fractions = PartitionSampler(64), draw_noise(None, 64)
    program = torch.export.export(sampler, (features, labels, fractions))
    forbidden = (
        "nonzero",
        "topk",
        "sort",
        "searchsorted",
        "item",
        "_local_scalar_dense",
        "masked_select",
        "randperm",
    )
    for node in program.graph.nodes:
        assert not any(str(node.target).startswith(f"aten.{name}.") for name in forbidden), node.target
    for got, want in zip(
        program.module()(features, labels, fractions), sampler(features, labels, fractions), strict=True
    ):
        assert torch.equal(got, want)


# Detectron2's form


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 200),
    num_samples=st.integers(2, 64),
    fraction=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_subsample_labels(n: int, num_samples: int, fraction: float, seed: int) -> None:
    source = generator(seed)
    labels = torch.randint(-1, 5, (n,), generator=source)
    positive, negative = subsample_labels(labels, num_samples, fraction, 4)
    is_positive = (labels != -1) & (labels != 4)
    take = min(int(is_positive.sum()), int(num_samples * fraction))
    assert len(set(positive.tolist())) == positive.numel() == take and bool(is_positive[positive].all())
    take = min(int((labels == 4).sum()), num_samples - take)
    assert len(set(negative.tolist())) == negative.numel() == take and bool((labels[negative] == 4).all())


def test_subsample_labels_static_pads_with_the_filler() -> None:
    labels = torch.tensor([[-1, 0, 4, 4, 2], [-1, -1, -1, -1, -1]])
    positive, positive_valid, negative, negative_valid = subsample_labels_static(labels, 4, 0.5, 4)
    assert positive_valid.tolist() == [[True, True], [False, False]]
    assert negative_valid.tolist() == [[True, True, False, False], [False] * 4]
    assert sorted(positive[0].tolist()) == [1, 4] and sorted(negative[0, :2].tolist()) == [2, 3]
    assert bool((positive[~positive_valid] == FILLER).all()) and bool((negative[~negative_valid] == FILLER).all())
