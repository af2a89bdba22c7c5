"""Masked mean: the mean of those rows whose mask is set.

The pooling of sentence embeddings, and the loss over positive samples only. Its variable form selects rows
by a boolean index; its static rewrite adds zeros in place of the others.

Contract, for every variant:

- features `[N, D]`, floating, and a mask `[N]`, bool, give the mean `[D]` in the dtype of the features;
- with no row selected the mean is 0, not NaN;
- what stands in rows not selected has no influence, NaN and infinity included: multiplying by the mask
  is no rewrite, since 0 times NaN is NaN;
- the selected rows must sum within the range of the dtype: 65504 for float16.

Tolerance: that of a sum of the selected rows (`models.judge.rounding`), relative to the mean of the absolute values.

Sources: pytorch/pytorch#114220 (the boolean index cannot be captured), pytorch/vision#2144 (an image without
objects makes the loss NaN).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, parts, rounding, share

CASE = {
    "title": "mean of the rows under a mask",
    "source": "pytorch/pytorch#114220; pytorch/vision#2144",
    "variants": {
        "boolean_index": {"class_name": "BooleanIndex", "kind": "variable"},
        "where": {"class_name": "Where", "kind": "static", "rewrites": "boolean_index"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "items_per_sample": None,
        "batches": [None],
        "label_dtype": "bool",
    },
}


class BooleanIndex(nn.Module):
    """The variable form: `features[mask]` has as many rows as the data say."""

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        selected = features[mask]
        return selected.sum(0) / max(selected.shape[0], 1)


class Where(nn.Module):
    """The static form: rows not selected become zeros, and the count is a tensor."""

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        selected = torch.where(mask.unsqueeze(1), features, 0.0)
        return selected.sum(0) / mask.sum().clamp(min=1)


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Features `[N, D]` around 1 and a mask `[N]` of the workload's share of positives."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    taken = share(workload.positives, seed, generator)
    return _features(workload, generator), torch.rand(workload.n, generator=generator) < taken


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """None, one and all rows selected, and rows not selected that hold NaN and infinity."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(workload.n, generator=generator)
    for count in sorted({0, 1, workload.n - 1, workload.n}):
        yield f"{count} rows", (_features(workload, generator), order < count)
    for value in (float("nan"), float("inf")):
        poisoned = _features(workload, generator)
        poisoned[order % 2 == 1] = value
        yield f"{value} where not selected", (poisoned, order % 2 == 0)


def faults(arguments: tuple[Tensor, ...], outputs: Tensor | tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What the mean breaks of the contract, against the mean in float64 of the rows that NumPy selects."""
    features, mask = (argument.cpu() for argument in arguments[:2])
    (mean,) = parts(outputs)
    rows = numpy.flatnonzero(mask.numpy())
    selected = features[rows].double()
    truth = selected.sum(0) / max(len(rows), 1)
    tolerance = rounding(features.dtype, len(rows)) * selected.abs().sum(0) / max(len(rows), 1)
    return differences("the mean", mean, truth.to(features.dtype), tolerance)


def floor_bytes(workload: Workload) -> int:
    """The mask read once, the selected rows read, the mean written."""
    assert workload.n is not None and workload.dim is not None
    row = workload.dim * dtype_named(workload.dtype).itemsize
    return workload.n + int(workload.n * share(workload.positives, 0, torch.Generator())) * row + row


def _features(workload: Workload, generator: torch.Generator) -> Tensor:
    assert workload.n is not None and workload.dim is not None
    features = 1 + torch.randn(workload.n, workload.dim, generator=generator)
    return features.to(dtype_named(workload.dtype))
