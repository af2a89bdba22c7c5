"""Non-maximum suppression: of N boxes keep the best that does not overlap a better one kept, up to K.

The last step of a detector. Its variable form is the greedy loop that ends when no box is left; its static
rewrite makes K trips always and marks the slots that found nothing.

Contract, for every variant:

- boxes `[N, 4]`, floating, as (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2; scores `[N]`, floating, finite; N >= 1;
- boxes are visited from the highest score down, equal scores in the order of their index; a box is kept
  unless its intersection with a box kept before is more than half their union; the loop ends at K kept;
- two boxes without area never suppress each other: their union is 0, and no ratio is formed;
- the variable form gives the indices kept `[M]` int64, M <= K, in the order visited; a static form gives
  indices `[K]` int64, 0 where void, and a mask `[K]` bool whose first M places are set.

The static loop is unrolled by every compiler, so graph and compile time grow with K. The number of passes
of a parallel form (all pairs at once, repeated until nothing changes) depends on the data: no fixed number
of them short of N is a rewrite.

Sources: pytorch/pytorch#146152, pytorch/vision#9395 (detector exports stop inside suppression).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, padding_faults, parts, share

CASE = {
    "title": "greedy non-maximum suppression",
    "source": "pytorch/pytorch#146152; pytorch/vision#9395",
    "variants": {
        "greedy": {"class_name": "Greedy", "kind": "variable"},
        "fixed_trips": {"class_name": "FixedTrips", "kind": "static", "rewrites": "greedy"},
    },
    "sizes": {
        "quick": [128, 256, 512],
        "full": [128, 256, 512, 1_024],
        "items_per_sample": 32,
        "batches": [None],
        "dim": 4,
        "label_dtype": None,
    },
}


class Greedy(nn.Module):
    """The variable form: take the best, drop what it suppresses, until nothing is left or K are kept."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, boxes: Tensor, scores: Tensor) -> Tensor:
        left = scores.argsort(descending=True, stable=True)
        kept: list[Tensor] = []
        while left.numel() > 0 and len(kept) < self.k:
            best, left = left[0], left[1:]
            kept.append(best)
            left = left[~suppresses(boxes[best], boxes[left])]
        return torch.stack(kept)


class FixedTrips(nn.Module):
    """The static form: all pairs first, then K trips; each takes the best box alive (`argmax` gives the first
    of equals) and strikes out its row.

    The best stays a vector of one: torch.compile reads a scalar index out into Python, and refuses.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.arange(scores.shape[0], device=scores.device)
        overlap = suppresses(boxes.unsqueeze(1), boxes.unsqueeze(0))
        alive = torch.ones_like(scores, dtype=torch.bool)
        kept, valid = [], []
        for _ in range(self.k):
            best = torch.where(alive, scores, float("-inf")).argmax(0, keepdim=True)
            valid.append(alive.any(0, keepdim=True))
            kept.append(best)
            alive = alive & ~overlap[best].squeeze(0) & (place != best)
        mask = torch.cat(valid)
        return torch.where(mask, torch.cat(kept), 0), mask


def suppresses(box: Tensor, others: Tensor) -> Tensor:
    """Whether the intersection of `box` `[.., 4]` and each of `others` `[.., 4]` is more than half their union."""
    corner = torch.maximum(box[..., :2], others[..., :2])
    side = (torch.minimum(box[..., 2:], others[..., 2:]) - corner).clamp(min=0)
    common = side[..., 0] * side[..., 1]
    union = _area(box) + _area(others) - common
    return common > 0.5 * union


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Boxes with whole corners, of which the share of positives are near copies of others, and distinct scores."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    boxes = _boxes(workload.n, generator)
    copies = int(workload.n * share(workload.positives, seed, generator))
    originals = torch.randint(0, workload.n, (copies,), generator=generator)
    boxes[:copies] = boxes[originals] + torch.randint(0, 5, (copies, 1), generator=generator)
    return _as_asked(workload, boxes, torch.randperm(workload.n, generator=generator) / workload.n)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Boxes alike, apart, in a chain, without area; equal scores, and scores of both signs."""
    assert workload.n is not None
    n = workload.n
    generator = torch.Generator().manual_seed(1)
    step = torch.arange(n).unsqueeze(1)
    unit = torch.tensor([0, 0, 10, 10]).repeat(n, 1)
    points = _boxes(n, generator)
    points[:, 2:] = points[:, :2]
    mixed = torch.where(step % 2 == 0, points, _boxes(n, generator))
    scores = torch.randperm(n, generator=generator) / n
    asked = partial(_as_asked, workload)
    yield "all alike", asked(unit, scores)
    yield "all apart", asked(unit + 20 * step, scores)
    yield "a chain, each overlaps the next", asked(unit + 3 * step, step.squeeze(1) / n)
    yield "without area", asked(points, scores)
    yield "without area, all alike", asked(torch.zeros_like(points), scores)
    yield "every second without area", asked(mixed, scores)
    yield "equal scores", asked(_boxes(n, generator), torch.full((n,), 0.5))
    yield "few distinct scores", asked(_boxes(n, generator), torch.randint(0, 3, (n,), generator=generator) / 4)
    yield "scores of both signs", asked(_boxes(n, generator), scores - 0.5)


def faults(arguments: tuple[Tensor, ...], outputs: Tensor | tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What the kept indices break of the contract, against the greedy loop over Python numbers."""
    assert workload.k is not None
    truth = torch.tensor(_greedy(arguments[0].tolist(), arguments[1].tolist(), workload.k), dtype=torch.int64)
    kept, *mask = (output.cpu() for output in parts(outputs))
    if not mask:
        return differences("the indices", kept, truth)
    slots = torch.arange(workload.k)
    return [
        *padding_faults("the indices", kept, mask[0], len(truth)),
        *differences("the mask", mask[0], slots < len(truth)),
        *differences("the indices", kept, torch.cat([truth, slots.new_zeros(workload.k - len(truth))])),
    ]


def floor_bytes(workload: Workload) -> int:
    """Boxes and scores read once, K indices written."""
    assert workload.n is not None and workload.k is not None
    return workload.n * 5 * dtype_named(workload.dtype).itemsize + workload.k * torch.int64.itemsize


def _greedy(boxes: list[list[float]], scores: list[float], k: int) -> list[int]:
    kept: list[int] = []
    for index in sorted(range(len(scores)), key=lambda index: -scores[index]):
        if len(kept) == k:
            break
        if not any(_overlap(boxes[index], boxes[earlier]) for earlier in kept):
            kept.append(index)
    return kept


def _overlap(a: list[float], b: list[float]) -> bool:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return 3 * width * height > areas


def _area(box: Tensor) -> Tensor:
    return (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])


def _boxes(n: int, generator: torch.Generator) -> Tensor:
    """Whole corners below 1100, so that every area is exact in float32."""
    corner = torch.randint(0, 1000, (n, 2), generator=generator)
    return torch.cat([corner, corner + torch.randint(1, 100, (n, 2), generator=generator)], 1)


def _as_asked(workload: Workload, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    dtype = dtype_named(workload.dtype)
    return boxes.to(dtype), scores.to(dtype)
