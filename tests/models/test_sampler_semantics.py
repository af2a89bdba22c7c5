"""Whom detection samplers take: torchvision's and Detectron2's quotas against ours, in numbers worked out by hand.

Both libraries grant the positives int(K * share) places, then the negatives what is left of K, each cut to
what there is. A shortage of positives is thus filled by negatives, but never the reverse: an image with few
negatives gives fewer than K items. The sampler of `models/balanced_sampler.py` fills both ways.

They differ in what a label means. torchvision's `BalancedPositiveNegativeSampler`: 1 and above is positive, 0 is
negative, -1 is ignored. Detectron2's `subsample_labels`: `bg_label` is negative, -1 is ignored, every other class,
0 included, is positive.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.balanced_sampler import Nonzero, TopK, TopKShuffled, faults, sampled_positions
from models.case import Workload

VARIANTS = [Nonzero, TopK, TopKShuffled]

# positives, negatives, K; positives and negatives taken by the libraries at a share of one half; and by us
HALVES = [
    (50, 50, 10, (5, 5), (5, 5)),
    (5, 5, 10, (5, 5), (5, 5)),
    (3, 50, 10, (3, 7), (3, 7)),
    (0, 50, 10, (0, 10), (0, 10)),
    (50, 3, 10, (5, 3), (7, 3)),
    (50, 0, 10, (5, 0), (10, 0)),
    (6, 4, 10, (5, 4), (6, 4)),
    (4, 6, 10, (4, 6), (4, 6)),
    (50, 50, 7, (3, 4), (3, 4)),
    (50, 2, 7, (3, 2), (5, 2)),
    (2, 50, 7, (2, 5), (2, 5)),
    (1, 1, 1, (0, 1), (0, 1)),
]
ODD = [
    (50, 3, 7, (3, 3), (4, 3)),
    (1, 0, 1, (0, 0), (1, 0)),
]
# positives, negatives, K, share; positives and negatives taken by the libraries
SHARES = [
    (50, 500, 256, 0.5, (50, 206)),
    (500, 500, 256, 0.5, (128, 128)),
    (500, 50, 256, 0.5, (128, 50)),
    (500, 1000, 512, 0.25, (128, 384)),
    (500, 100, 512, 0.25, (128, 100)),
    (3, 2, 512, 0.25, (3, 2)),
    (9, 9, 10, 0.33, (3, 7)),
    (9, 9, 10, 0.0, (0, 9)),
    (9, 9, 10, 1.0, (9, 1)),
]


def library_quotas(positives: int, negatives: int, k: int, share: float = 0.5) -> tuple[int, int]:
    """How many of each class torchvision and Detectron2 take."""
    taken = min(positives, int(k * share))
    return taken, min(negatives, k - taken)


def torchvision_labels(matched: torch.Tensor) -> torch.Tensor:
    """Labels of `BalancedPositiveNegativeSampler` in the words of our sampler: 1, 0, -1 for never."""
    return matched.clamp(-1, 1)


def detectron2_labels(labels: torch.Tensor, bg_label: int) -> torch.Tensor:
    """Labels of `subsample_labels` in the words of our sampler."""
    return torch.where(labels == -1, -1, torch.where(labels == bg_label, 0, 1))


def sample(variant: type[torch.nn.Module], labels: torch.Tensor, k: int) -> tuple[list[int], list[int]]:
    """The sorted positions of the positives and of the negatives that a variant takes; its contract is checked."""
    features = torch.zeros(len(labels), 4)
    features[:, 0] = torch.arange(len(labels))
    rows, taken = variant(k)(features, labels)
    assert faults((features, labels), (rows, taken), Workload(n=len(labels), k=k)) == []
    index = sampled_positions(rows)
    return sorted(index[taken == 1].tolist()), sorted(index[taken == 0].tolist())


def labels_of(positives: int, negatives: int) -> torch.Tensor:
    return torch.cat([torch.ones(positives), torch.zeros(negatives)]).to(torch.int64)


@pytest.mark.parametrize(("positives", "negatives", "k", "library", "ours"), HALVES + ODD)
def test_library_quotas_at_one_half(
    positives: int, negatives: int, k: int, library: tuple[int, int], ours: tuple[int, int]
) -> None:
    """Ours are those of the libraries, and what is short of K is filled by positives."""
    assert library_quotas(positives, negatives, k) == library
    assert ours == (k - library[1], library[1])


@pytest.mark.parametrize(("positives", "negatives", "k", "share", "library"), SHARES)
def test_library_quotas(positives: int, negatives: int, k: int, share: float, library: tuple[int, int]) -> None:
    assert library_quotas(positives, negatives, k, share) == library


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("positives", "negatives", "k", "library", "ours"), [*HALVES, *ODD])
def test_our_quotas(
    variant: type[torch.nn.Module],
    positives: int,
    negatives: int,
    k: int,
    library: tuple[int, int],
    ours: tuple[int, int],
) -> None:
    found = sample(variant, labels_of(positives, negatives), k)
    assert (len(found[0]), len(found[1])) == ours


@pytest.mark.parametrize("variant", VARIANTS)
def test_torchvision_labels(variant: type[torch.nn.Module]) -> None:
    """Matches 1, 2 and 3 are positive, 0 negative, -1 never: 3 of 3 positives and 3 of 3 negatives make K = 6."""
    matched = torch.tensor([2, 0, -1, 1, 0, 3, -1, 0])
    assert torchvision_labels(matched).tolist() == [1, 0, -1, 1, 0, 1, -1, 0]
    assert sample(variant, torchvision_labels(matched), 6) == ([0, 3, 5], [1, 4, 7])


@pytest.mark.parametrize("variant", VARIANTS)
def test_detectron2_labels(variant: type[torch.nn.Module]) -> None:
    """Class 0 is an object here; the background is the number of classes, 3."""
    labels = torch.tensor([0, 3, -1, 1, 3, 2, -1, 3])
    assert detectron2_labels(labels, bg_label=3).tolist() == [1, 0, -1, 1, 0, 1, -1, 0]
    assert sample(variant, detectron2_labels(labels, bg_label=3), 6) == ([0, 3, 5], [1, 4, 7])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_region_proposal_has_background_0(variant: type[torch.nn.Module]) -> None:
    """Detectron2's proposal network asks with bg_label 0: 1 object of 1, and 3 of 3 others, make K = 4."""
    labels = torch.tensor([0, -1, 1, 0, 0])
    assert sample(variant, detectron2_labels(labels, bg_label=0), 4) == ([2], [0, 3, 4])


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 8).map(lambda half: 2 * half))
def test_ours_are_the_libraries_where_those_fill_k(positives: int, negatives: int, k: int) -> None:
    library = library_quotas(positives, negatives, k)
    assert sum(library) <= min(k, positives + negatives)
    if positives + negatives < k:
        with pytest.raises(RuntimeError, match="fewer than K"):
            sample(Nonzero, labels_of(positives, negatives), k)
        return
    for variant in VARIANTS:
        found = sample(variant, labels_of(positives, negatives), k)
        assert (len(found[0]), len(found[1])) == (k - library[1], library[1])


@pytest.mark.parametrize(("positives", "negatives", "k", "share", "library"), SHARES)
def test_subsample_labels(positives: int, negatives: int, k: int, share: float, library: tuple[int, int]) -> None:
    """Our own `subsample_labels`, called as Detectron2's: distinct indices of each class, as many as its quotas."""
    partition = pytest.importorskip("models.partition")
    background = 7
    labels = torch.cat(
        [torch.arange(positives) % background, torch.full((negatives,), background), torch.full((20,), -1)]
    )
    labels = labels[torch.randperm(len(labels))]
    taken = partition.subsample_labels(labels, k, share, background)
    for indices, count, eligible in (
        (taken[0], library[0], (labels != background) & (labels != -1)),
        (taken[1], library[1], labels == background),
    ):
        assert indices.dtype == torch.int64
        assert len(set(indices.tolist())) == len(indices) == count
        assert bool(eligible[indices].all())


# one image's matches, K = 4, share one half; torchvision's masks of the positives and of the negatives
MASKS = [
    ([1, 0, -1, 0, 3, -1], [1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]),
    ([0, 0, -1, 0, -1, -1], [0, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0]),
    ([2, 0, 0, 0, -1, -1], [1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 0, 0]),
    ([1, 2, -1, -1, -1, -1], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]),
    ([-1, -1, -1, -1, -1, -1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize(("matched", "positives", "negatives"), MASKS)
def test_torchvision_masks(matched: list[int], positives: list[int], negatives: list[int]) -> None:
    """Where nothing is left to chance the two masks of an image are known: of the index lists, in eager and static."""
    partition = pytest.importorskip("models.partition")
    labels = torchvision_labels(torch.tensor(matched))
    positive, is_positive, negative, is_negative = partition.subsample_labels_static(labels, 4, 0.5, 0)
    for taken in (
        partition.subsample_labels(labels, 4, 0.5, 0),
        (positive[is_positive], negative[is_negative]),
    ):
        masks = torch.zeros(2, len(labels), dtype=torch.uint8)
        for mask, indices in zip(masks, taken, strict=True):
            mask[indices] = 1
        assert masks.tolist() == [positives, negatives]
