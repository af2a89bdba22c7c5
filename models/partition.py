"""A balanced sampler with static shapes and without sorting.

The sampler draws K distinct items out of N, half positives and half negatives where both classes are large
enough, uniformly within each class and in uniform order. It uses neither ``nonzero`` nor ``topk`` nor a sort,
no shape depends on the data and nothing waits for the device, so every compiler that captures a graph can
take it. The work is linear in N + K. This file needs nothing but torch; copy it.

Three steps:

1. **Partition.** Running counts give each item its rank within its class, and one scatter lays the positives
   from the front and the negatives from the back of a table. ``table[rank]`` is then a positive and
   ``table[-1 - rank]`` a negative.
2. **Order.** A random bijection of the K slots says for each slot of the result which draw it shows. The
   first draws are the positives, the next ones the negatives.
3. **Draw.** A second random bijection, this time of the ranks of a class, turns the r-th draw into a random
   rank.

Both bijections are the same function, :func:`shuffle`: the n numbers lie in a grid of about √n × √n, the last
row may be short, and rows and columns are rotated in turn, each by an amount of its own. That is a Feistel
network on a ragged grid: each rotation is a bijection, whatever the noise.

The amounts of a rotation are a random polynomial's values (:func:`spread`), so its four coefficients are all the
noise. Any four lines turn independently, and a rank or a slot meets one line a rotation: what is asked of up to four
ranks and slots together, as the inclusion of four items, is distributed as if every line drew a number of its own.

Sources: Håstad, "The square lattice shuffle" (2006); Luby and Rackoff, "How to construct pseudorandom
permutations from pseudorandom functions" (1988); Mitchell et al., "Bandwidth-optimal random shuffling for
GPUs" (2021); Wegman and Carter, "New hash functions and their use in authentication and set equality" (1981).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCK = 1024
"""Items counted together: two counts up to this share a float32 exactly, 1024 + 1024 · 2048 < 2^24."""

PRIME = 2**17 - 1
"""Size of the field that the polynomials are over."""

COEFFICIENTS = 4
"""Of each polynomial; any so many lines of a rotation turn independently."""

VECTOR = 16
"""Most numbers of 4 bytes that a CPU handles at once."""

FILLER = 0
"""The item that an empty slot points at."""


def side(n: int) -> int:
    """Side of the smallest square grid that holds n cells, 1 <= n < 2^31."""
    # math.isqrt takes no symbolic size; a float64 root is exact enough below 2^52.
    return int((n - 1) ** 0.5) + 1


def lines(n: int, k: int) -> int:
    """Most lines, rows or columns, that the grids of two classes of n items in all and of k slots have together.

    Roots of P and of Q, rounded up, are in sum less than √P + √Q + 2 ≤ √2n + 2.
    """
    return side(2 * n) + 1 + side(k)


def rounds(k: int) -> int:
    """Rotations per bijection for a sample of k.

    A pair of neighbours in one row keeps its distance with probability 1 / √n per two rotations, and a class
    is only drawn from if it has more than k / 2 items. Hence small samples need more rotations. At these
    numbers 10^5 draws could not be told from ``torch.randperm``; the README has the figures.
    """
    return 14 if k < 64 else 10 if k < 1024 else 8


def draw_noise(
    batch: int | None,
    k: int,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw the randomness of one call.

    Args:
        batch: number of images, or None for labels without a batch dimension.
        k: number of samples of an image.
        generator: torch's default one if None.
        device: where the result lies; torch's default device if None.

    Returns:
        float32 ``[batch, rounds(k), COEFFICIENTS]``, without ``batch`` if that is None, uniform in [0, 1): the
        coefficients of each rotation's polynomial, as fractions of ``PRIME``.
    """
    shape: tuple[int, ...] = (rounds(k), COEFFICIENTS)
    if batch is not None:
        shape = (batch, *shape)
    if generator is None:
        return torch.rand(shape, device=device)
    return torch.rand(shape, generator=generator, device=device)


def partition(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sort items by class without sorting.

    Args:
        labels: ``[B, N]``, integers or booleans. 1 is positive, 0 negative, anything else is left out.

    Returns:
        The table, int32 ``[B, M]``, M being N rounded up to a multiple of ``BLOCK``: a permutation of the
        numbers below M that has the P positives at 0 … P - 1 and the Q negatives at M - 1, M - 2 … M - Q.
        The counts P and Q, int32 ``[B, 2]``.
    """
    place, counts = places(labels)
    item = torch.arange(place.shape[1], dtype=torch.int32, device=labels.device).expand_as(place)
    return torch.zeros_like(item).scatter(1, place, item), counts


def places(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Where :func:`partition` puts each item, int64 ``[B, M]``, and the counts int32 ``[B, 2]``."""
    batch, n = labels.shape
    blocks = (n + BLOCK - 1) // BLOCK
    size = blocks * BLOCK
    unit = 2 * BLOCK
    weight = (labels == 1).to(torch.float32) + (labels == 0).to(torch.float32) * unit
    # Padding instead of a short last block: every later loop runs over whole blocks.
    weight = nn.functional.pad(weight, (0, size - n)).view(batch, blocks, BLOCK)
    both = weight.cumsum(-1)
    # Scaling by a power of two is exact, and the conversion to an integer drops the fraction.
    negative = (both * (1 / unit)).to(torch.int32)
    both = both.to(torch.int32)  # a name taken anew frees what it held: in eager mode each holds 4 N bytes
    positive = both - negative * unit
    del both
    is_negative = torch.arange(2, dtype=torch.int32, device=labels.device).view(2, 1) == 1
    total = torch.where(is_negative, negative[:, None, :, -1], positive[:, None, :, -1])
    upto = total.cumsum(-1, dtype=torch.int32)
    before = (upto - total).unsqueeze(-1)
    positive, negative = positive + before[:, 0], negative + before[:, 1]
    # Items left out fill the middle, so that each place is written exactly once.
    place = torch.arange(size, dtype=torch.int32, device=labels.device).view(blocks, BLOCK)
    place = upto[:, 0, -1].view(batch, 1, 1) + place - positive - negative
    negative = size - negative
    place = torch.where(weight == unit, negative, place)
    del negative
    place = torch.where(weight == 1, positive - 1, place)
    del weight, positive
    return place.flatten(1).long(), upto[:, :, -1]


def grid(n: Tensor, longest: int) -> Tensor:
    """The grids of n cells each.

    Args:
        n: int32 ``[B, C]``.
        longest: at least the ``side`` of every n.

    Returns:
        int32 ``[B, 4, C]``: columns, rows, length of the last row, and how many lines the grids before it have.
    """
    squares = torch.arange(longest, dtype=torch.int32, device=n.device) ** 2
    columns = (squares < n.unsqueeze(-1)).sum(-1, dtype=torch.int32).clamp(min=1)
    rows = (n + columns - 1) // columns
    number = torch.arange(n.shape[1], device=n.device)
    start = torch.where(number < number.unsqueeze(1), columns.unsqueeze(1), 0).sum(-1, dtype=torch.int32)
    # In one tensor, because compilers write that out; else they work it all out anew for every cell.
    return torch.stack([columns, rows, n - (rows - 1) * columns, start], 1)


def spread(noise: Tensor, points: Tensor) -> Tensor:
    """A number for each line, out of few: a random polynomial's value at the line's point.

    Uniform below ``PRIME``, as far as 2^24 floats can be, and any ``COEFFICIENTS`` of a rotation are independent, since
    a polynomial over a field takes given values at so many points with exactly one choice of as many coefficients.

    Args:
        noise: float32 ``[B, rounds, COEFFICIENTS]``, of :func:`draw_noise`.
        points: int32 ``[B, width]``, distinct in a row, from 0 to 16 000, which suffices for N = 20 M and any K up to
            N. Beyond, a product wraps around: what follows is still a permutation, but independence is not proven.

    Returns:
        int32 ``[B, rounds, width]``.
    """
    points = points.unsqueeze(1)
    coefficient = (noise * PRIME).to(torch.int32).unsqueeze(-1)
    value = coefficient[:, :, 0]
    for power in range(1, COEFFICIENTS):
        value = value * points + coefficient[:, :, power]
        # Compilers do not divide integers side by side. The quotient of rounded floats is cut towards zero and may be
        # off by one near a multiple; values stay from -PRIME to PRIME, and the last lines bring them back.
        value = value - (value.to(torch.float32) * (1 / PRIME)).to(torch.int32) * PRIME
    value = torch.where(value < 0, value + PRIME, value)
    return torch.where(value < PRIME, value, value - PRIME)


def amounts(numbers: Tensor, grids: Tensor) -> Tensor:
    """How far each line of a grid turns in each rotation, less the line's length.

    Args:
        numbers: int32 ``[B, rounds / 2, 2, width]``, of :func:`spread`, to multiply lengths up to 2^14, √(268 M).
        grids: the ``grid`` of each line, int32, expandable to ``[B, 4, width]``.

    Returns:
        int32 ``[B, rounds, width]``, from minus the length to 0.
    """
    columns, rows, last, start = grids.unbind(1)
    line = torch.arange(numbers.shape[-1], dtype=torch.int32, device=numbers.device) - start
    is_row = torch.arange(2, dtype=torch.int32, device=numbers.device).view(2, 1) == 0
    row, column = torch.where(line < rows - 1, columns, last), torch.where(line < last, rows, rows - 1)
    length = torch.where(is_row, row.unsqueeze(1), column.unsqueeze(1)).unsqueeze(1)
    # Rounded twice and cut: the same in every engine. Rounding up to the length is harmless, since the whole line
    # gets the same amount and a full turn is none.
    return (((numbers * length).to(torch.float32) * (1 / PRIME)).to(torch.int32) - length).flatten(1, 2)


def shuffle(cell: Tensor, grids: Tensor, amounts: Tensor) -> Tensor:
    """Where a random bijection of the grid's cells sends the given cells.

    A cell's image depends on the cell, the grid and the amounts alone, and no two cells have the same image.

    Args:
        cell: int32 ``[B, C]``, the cells to follow, counted row by row.
        grids: the ``grid`` of each, int32, expandable to ``[B, 4, C]``.
        amounts: int32 ``[B, rounds, width]``, of :func:`amounts`.

    Returns:
        int32 ``[B, C]``.
    """
    columns, rows, last, start = grids.unbind(1)
    fixed = cell // columns
    moving = cell - fixed * columns
    for turn in range(amounts.shape[1]):
        if turn % 2 == 0:
            length = torch.where(fixed < rows - 1, columns, last)
        else:
            length = torch.where(fixed < last, rows, rows - 1)
        moved = moving + amounts[:, turn].gather(1, (fixed + start).long())
        fixed, moving = torch.where(moved < 0, moved + length, moved), fixed
    return fixed * columns + moving


def images(
    rank: Tensor, is_positive: Tensor, is_negative: Tensor, counts: Tensor, n: int, k: int, noise: Tensor
) -> Tensor:
    """Images of ranks within a class and of slots, each under the bijection of its kind.

    Args:
        rank: int32 ``[B, C]``, below the count of the class or, for a slot, below k.
        is_positive, is_negative: bool ``[B, C]``, what the rank is one of; a slot if neither.
        counts: of :func:`partition`.
        n: number of items.
        k: number of slots.
        noise: of :func:`draw_noise`.

    Returns:
        int32 ``[B, C]``.
    """
    # The slots are a third class of known size.
    width = lines(n, k)
    kinds = grid(nn.functional.pad(counts, (0, 1), value=k), width)

    def pick(is_positive: Tensor, is_negative: Tensor) -> Tensor:
        others = torch.where(is_negative.unsqueeze(1), kinds[:, :, 1:2], kinds[:, :, 2:])
        return torch.where(is_positive.unsqueeze(1), kinds[:, :, :1], others)

    line = torch.arange(width, dtype=torch.int32, device=noise.device).unsqueeze(0)
    first_negative, first_slot = kinds[:, 3, 1:2], kinds[:, 3, 2:]
    # Shifted by what only the data knows. Where drawn numbers meet constants alone, OpenVINO 2026.4 works a part of
    # spread out at compile time, from a draw of its own (tests/cases/drawn_remainder.py).
    numbers = spread(noise, line + first_negative).unflatten(1, (rounds(k) // 2, 2))
    turned = amounts(numbers, pick(line < first_negative, line < first_slot))
    return shuffle(rank, pick(is_positive, is_negative), turned)


class MaskedPartitionSampler(nn.Module):
    """Balanced sampler for images that may have fewer than K eligible items.

    Args:
        k: number of slots, at least 2.

    Raises:
        ValueError: if ``k`` is below 2.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        if k < 2:
            raise ValueError(f"k must be at least 2, to hold an item of each class, but is {k}")
        self.k = k

    def noise(self, features: Tensor, labels: Tensor) -> Tensor:
        """The noise of one call on these inputs, as :func:`draw_noise` draws it."""
        batch = labels.shape[0] if labels.dim() == 2 else None
        return draw_noise(batch, self.k, device=labels.device)

    def choose(self, labels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Choose items; ``labels`` ``[B, N]``, returns index int64 and valid bool, both ``[B, K]``."""
        k, (batch, n) = self.k, labels.shape
        if noise is None:
            noise = draw_noise(batch, k, device=labels.device)
        table, counts = partition(labels)
        positives, negatives = counts[:, :1], counts[:, 1:]
        # Half each; a short class is filled up from the other, and so is the odd slot of an odd k.
        take_negative = torch.minimum(negatives, k - positives.clamp(max=k // 2))
        take_positive = torch.minimum(positives, k - take_negative)
        taken = take_positive + take_negative
        # The k slots, then k draws, all in one go: so the rotations are written, and compiled, once. Their
        # number is rounded up because a compiler writes a loop twice if a part of a vector is left over.
        cell = torch.arange(2 * k + -2 * k % VECTOR, dtype=torch.int32, device=labels.device).expand(batch, -1)
        draw = cell - k
        is_positive, is_negative = (draw >= 0) & (draw < take_positive), (draw >= take_positive) & (draw < taken)
        rank = torch.where(is_negative, draw - take_positive, cell.clamp(max=k - 1))
        rank = torch.where(is_positive, draw, rank)
        image = images(rank, is_positive, is_negative, counts, n, k, noise)
        order, rank = image[:, :k], image[:, k : 2 * k]
        place = torch.where(is_positive[:, k : 2 * k], rank, table.shape[1] - 1 - rank)
        index = table.gather(1, place.gather(1, order.long()).long()).long()
        valid = order < taken
        return torch.where(valid, index, FILLER), valid

    def forward(
        self, features: Tensor, labels: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sample.

        Args:
            features: ``[N, D]`` or ``[B, N, D]``, any dtype.
            labels: ``[N]`` or ``[B, N]``, integers or booleans; 1 is positive, 0 negative, anything else
                never sampled.
            noise: what ``self.noise(features, labels)`` returns; drawn here if None.

        Returns:
            rows ``[.., K, D]``, their labels ``[.., K]``, their indices int64 ``[.., K]``, and valid, bool
            ``[.., K]``. With fewer than K eligible items all of them are drawn and K minus their number
            slots, anywhere, are not valid; those show item ``FILLER``, whatever its label.
        """
        if labels.dim() == 1:
            index, valid = self.choose(labels.unsqueeze(0), None if noise is None else noise.unsqueeze(0))
            index, valid = index.squeeze(0), valid.squeeze(0)
            return features[index], labels[index], index, valid
        index, valid = self.choose(labels, noise)
        first = torch.arange(labels.shape[0], device=labels.device).unsqueeze(1) * labels.shape[1]
        return features.flatten(0, 1)[index + first], labels.flatten()[index + first], index, valid


class PartitionSampler(MaskedPartitionSampler):
    """Balanced sampler for images that have at least K eligible items.

    A static graph cannot raise an error: an image that has fewer shows item ``FILLER`` in the slots left
    over. Use :class:`MaskedPartitionSampler` where that can happen.
    """

    def forward(  # type: ignore[override]
        self, features: Tensor, labels: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample; arguments and the two results as :class:`MaskedPartitionSampler`'s first two."""
        rows, row_labels, _, _ = super().forward(features, labels, noise)
        return rows, row_labels


def subsample_labels_static(
    labels: Tensor, num_samples: int, positive_fraction: float, bg_label: int, noise: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Detectron2's ``subsample_labels`` with static shapes.

    Args:
        labels: integers, ``[N]`` or ``[B, N]``: -1 is ignored, ``bg_label`` is background, anything else is
            positive.
        num_samples: samples wanted.
        positive_fraction: at most ``int(num_samples * positive_fraction)`` of them are positives. Background
            fills up, as far as there is any.
        bg_label: see ``labels``.
        noise: what ``draw_noise(B or None, num_samples)`` returns; drawn here if None.

    Returns:
        positives int64 and their validity bool, ``[.., int(num_samples * positive_fraction)]``;
        negatives int64 and their validity bool, ``[.., num_samples]``.
        Valid slots come first, in random order; the others hold ``FILLER``.
    """
    single = labels.dim() == 1
    if single:
        labels, noise = labels.unsqueeze(0), None if noise is None else noise.unsqueeze(0)
    batch, n = labels.shape
    if noise is None:
        noise = draw_noise(batch, num_samples, device=labels.device)
    most = int(num_samples * positive_fraction)
    kind = torch.where(labels == bg_label, 0, torch.where(labels == -1, 2, 1))
    table, counts = partition(kind)
    take_positive = counts[:, :1].clamp(max=most)
    take_negative = torch.minimum(counts[:, 1:], num_samples - take_positive)
    slot = torch.arange(most + num_samples, dtype=torch.int32, device=labels.device).expand(batch, -1)
    is_positive, is_negative = slot < most, slot >= most
    rank = torch.where(is_positive, slot, slot - most)
    valid = rank < torch.where(is_positive, take_positive, take_negative)
    rank = images(torch.where(valid, rank, 0), is_positive, is_negative, counts, n, num_samples, noise)
    index = table.gather(1, torch.where(is_positive, rank, table.shape[1] - 1 - rank).long()).long()
    index = torch.where(valid, index, FILLER)
    if single:
        index, valid = index.squeeze(0), valid.squeeze(0)
    return index[..., :most], valid[..., :most], index[..., most:], valid[..., most:]


def subsample_labels(
    labels: Tensor, num_samples: int, positive_fraction: float, bg_label: int, noise: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Detectron2's ``subsample_labels``: the valid slots of :func:`subsample_labels_static`.

    Its results have a length that depends on the data; inside a graph use the static form. ``labels`` is
    ``[N]``.

    Returns:
        positives and negatives, int64, at most ``int(num_samples * positive_fraction)`` and at
        most ``num_samples`` of them.
    """
    positive, positive_valid, negative, negative_valid = subsample_labels_static(
        labels, num_samples, positive_fraction, bg_label, noise
    )
    return positive[positive_valid], negative[negative_valid]
