"""Score threshold: of N candidates keep those that score above 0.5, and of these the best K.

The step of a detection head before suppression. Its variable form looks the candidates up with `nonzero`
and asks for the best min(K, how many there are); its static rewrite ranks all, with the others at minus
infinity.

Contract, for every variant:

- scores `[N]` and boxes `[N, D]`, floating; K <= N; a score that is NaN is not above the threshold;
- the variable form gives scores `[M]` from the highest down and their boxes `[M, D]`, M <= K; a static form gives
  scores `[K]`, boxes `[K, D]`, 0 where void, and a mask `[K]` bool whose first M places are set;
- candidates of equal score come in any order, as `topk` leaves it open. So that every order is the same answer,
  the inputs give equal boxes to candidates of equal score above the threshold.

TensorRT limits K to 3840.

Sources: torchvision, `torchvision/models/detection/retinanet.py`, `postprocess_detections`; pytorch/vision#5310
(the minimum of K and a count, frozen by tracing).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, padding_faults, parts, share

CASE = {
    "title": "keep above a threshold, then the best K",
    "source": "torchvision RetinaNet postprocess_detections; pytorch/vision#5310",
    "variants": {
        "nonzero": {"class_name": "Nonzero", "kind": "variable"},
        "masked_topk": {"class_name": "MaskedTopK", "kind": "static", "rewrites": "nonzero"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "batches": [None],
        "dim": 4,
        "label_dtype": None,
    },
}

THRESHOLD = 0.5


class Nonzero(nn.Module):
    """The variable form: both the candidates and the number asked of `topk` depend on the data."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        kept = torch.nonzero(scores > THRESHOLD).squeeze(1)
        best, order = scores[kept].topk(min(self.k, kept.shape[0]))
        return best, boxes[kept[order]]


class MaskedTopK(nn.Module):
    """The static form: `topk` of K among all, where what is not above the threshold cannot win."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best, index = torch.where(scores > THRESHOLD, scores, float("-inf")).topk(self.k)
        valid = best > THRESHOLD
        return torch.where(valid, best, 0.0), torch.where(valid.unsqueeze(1), boxes[index], 0.0), valid


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Distinct scores `[N]` of which the workload's share of positives is above the threshold, and boxes `[N, D]`."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    above = int(workload.n * share(workload.positives, seed, generator))
    return _with_boxes(workload, _scores(workload.n, above, generator))


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Counts around none, K and all; scores at the threshold, equal, NaN and infinite; each made when asked
    for."""
    assert workload.n is not None and workload.k is not None
    n, k = workload.n, workload.k
    generator = torch.Generator().manual_seed(1)
    for above in sorted({0, 1, k - 1, k, k + 1, n - 1, n} & set(range(n + 1))):
        yield f"{above} above", _with_boxes(workload, _scores(n, above, generator))
    place = torch.randperm(n, generator=generator)
    yield "all at the threshold", _with_boxes(workload, torch.full((n,), THRESHOLD))
    yield "all equal", _with_boxes(workload, torch.full((n,), 0.75))
    yield "few distinct scores", _with_boxes(workload, 0.25 * (place % 4) + 0.125)
    third = place % 3 == 0
    yield "nan among them", _with_boxes(workload, torch.where(third, float("nan"), _scores(n, n // 2, generator)))
    infinite = torch.where(third, float("-inf"), torch.where(place == 1, float("inf"), 0.625))
    yield "infinities", _with_boxes(workload, infinite)


def faults(arguments: tuple[Tensor, ...], outputs: tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What scores and boxes break of the contract, against what NumPy selects and sorts stably."""
    assert workload.k is not None
    scores, boxes = (argument.cpu() for argument in arguments[:2])
    known = scores.double().numpy()
    above = numpy.flatnonzero(known > THRESHOLD)
    index = torch.from_numpy(above[numpy.argsort(-known[above], kind="stable")[: workload.k]])
    best, taken, *mask = (output.cpu() for output in parts(outputs))
    found = []
    if mask:
        found += padding_faults("the scores", best, mask[0], len(index))
        found += padding_faults("the boxes", taken, mask[0], len(index))
        found += differences("the mask", mask[0], torch.arange(workload.k) < len(index))
        best, taken = best[: len(index)], taken[: len(index)]
    return [
        *found,
        *differences("the scores", best, scores[index]),
        *differences("the boxes", taken, boxes[index]),
    ]


def floor_bytes(workload: Workload) -> int:
    """Each score read once; the scores and boxes taken read, and written."""
    assert workload.n is not None and workload.k is not None and workload.dim is not None
    width = dtype_named(workload.dtype).itemsize
    above = int(workload.n * share(workload.positives, 0, torch.Generator()))
    return workload.n * width + 2 * min(workload.k, above) * (1 + workload.dim) * width


def _scores(n: int, above: int, generator: torch.Generator) -> Tensor:
    """Distinct in float32 up to N of 2^22: `above` of them in (0.5, 1), the others in (0, 0.5)."""
    step = torch.arange(n, dtype=torch.float64)
    high = THRESHOLD + (step[:above] + 1) / (2 * above + 2)
    low = THRESHOLD * (step[: n - above] + 1) / (n - above + 1)
    return torch.cat([high, low]).float()[torch.randperm(n, generator=generator)]


def _with_boxes(workload: Workload, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes `[N, D]` that are multiples of their score, so that they tie as the scores do."""
    assert workload.dim is not None
    scores = scores.to(dtype_named(workload.dtype))
    return scores, scores.nan_to_num(nan=0.0).unsqueeze(1) * torch.arange(1, workload.dim + 1)
