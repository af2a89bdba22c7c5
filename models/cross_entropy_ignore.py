"""Cross entropy with ignored labels, forward and backward.

The loss of a detection or language head: rows labelled -100 do not count. Its variable form looks the kept
rows up with `nonzero`; its static rewrites compute every row and mask.

Exports take no autograd inside a module, so each variant returns the gradient of its loss beside the loss, by the
closed formula (softmax - one-hot) / count. What is studied is thus the whole step, in a form that every
compiler can be given.

Contract, for every variant:

- logits `[N, C]`, floating, and labels `[N]`, int64 in [0, C) or -100, give the loss, a scalar, and its
  gradient `[N, C]`, both in the dtype of the logits;
- the loss is the mean over kept rows; with none kept, loss and gradient are 0, not NaN as in
  `torch.nn.functional.cross_entropy`;
- the gradient of an ignored row is 0 whatever its logits are, NaN included;
- the losses must sum within the range of the dtype: 65504 for float16.

Tolerance: that of a sum over the kept rows (`models.judge.rounding`), relative to 1 + loss, and that of one term,
relative to 1 / count, for the gradient.

Source: pytorch/pytorch#70348 (NaN when every label is ignored).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.case import Fault, Workload
from models.judge import differences, dtype_named, rounding, share

CASE = {
    "title": "cross entropy with ignored labels, loss and gradient",
    "source": "pytorch/pytorch#70348",
    "variants": {
        "nonzero": {"class_name": "Nonzero", "kind": "variable"},
        "masked": {"class_name": "Masked", "kind": "static", "rewrites": "nonzero"},
        "ignore_index": {"class_name": "IgnoreIndex", "kind": "static", "rewrites": "nonzero"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "items_per_sample": None,
        "batches": [None],
    },
}

IGNORED = -100


class Nonzero(nn.Module):
    """The variable form: kept rows by `nonzero`, their gradient copied back to its places."""

    def forward(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        kept = torch.nonzero(labels != IGNORED).squeeze(1)
        targets = labels[kept].unsqueeze(1)
        count = max(kept.shape[0], 1)
        logs = logits[kept].log_softmax(1)
        loss = -logs.gather(1, targets).sum() / count
        one_hot = torch.zeros_like(logs).scatter(1, targets, 1.0)
        return loss, torch.zeros_like(logits).index_copy(0, kept, (logs.exp() - one_hot) / count)


class Masked(nn.Module):
    """The static form: every row is computed; an ignored label equals no class, so it selects nothing."""

    def forward(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        kept = labels != IGNORED
        count = kept.sum().clamp(min=1)
        logs = logits.log_softmax(1)
        target = labels.unsqueeze(1) == torch.arange(logits.shape[1], device=labels.device)
        loss = -torch.where(target, logs, 0.0).sum() / count
        gradient = (logs.exp() - target.to(logits.dtype)) / count
        return loss, torch.where(kept.unsqueeze(1), gradient, 0.0)


class IgnoreIndex(nn.Module):
    """The static form by torch's own `ignore_index`, summed and divided by hand: its mean over no row is NaN."""

    def forward(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        kept = (labels != IGNORED).unsqueeze(1)
        count = kept.sum().clamp(min=1)
        loss = functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum") / count
        one_hot = torch.zeros_like(logits).scatter(1, labels.clamp(min=0).unsqueeze(1), 1.0)
        return loss, torch.where(kept, (logits.softmax(1) - one_hot) / count, 0.0)


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Logits `[N, C]`, C the feature width, and labels `[N]`; the share of positives is the share kept."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(workload.n, generator=generator) < share(workload.positives, seed, generator)
    return _logits(workload, generator), _labels(workload, kept, generator)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """None, one and all labels kept, logits that saturate the softmax, and NaN logits under ignored labels."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(workload.n, generator=generator)
    for count in sorted({0, 1, workload.n - 1, workload.n}):
        yield f"{count} kept", (_logits(workload, generator), _labels(workload, order < count, generator))
    half = order % 2 == 0
    saturated = (20 * _logits(workload, generator)).clamp(-80, 80)
    yield "saturated", (saturated, _labels(workload, half, generator))
    poisoned = _logits(workload, generator)
    poisoned[~half] = float("nan")
    yield "nan where ignored", (poisoned, _labels(workload, half, generator))


def faults(arguments: tuple[Tensor, ...], outputs: tuple[Tensor, Tensor], workload: Workload) -> list[Fault]:
    """What loss and gradient break of the contract, against exponentials written out in float64."""
    logits, labels = (argument.cpu() for argument in arguments[:2])
    loss, gradient = outputs
    rows = numpy.flatnonzero(labels.numpy() != IGNORED)
    targets = labels[rows]
    count = max(len(rows), 1)
    shifted = logits[rows].double()
    shifted = shifted - shifted.amax(1, keepdim=True)
    total = shifted.exp().sum(1, keepdim=True)
    each = torch.arange(len(rows))
    true_loss = (total.log().squeeze(1) - shifted[each, targets]).sum() / count
    change = shifted.exp() / total
    change[each, targets] -= 1
    true_gradient = torch.zeros(logits.shape, dtype=torch.float64)
    true_gradient[rows] = change / count
    allowed = rounding(logits.dtype, count) * (1 + float(true_loss))
    return [
        *differences("the loss", loss, true_loss.to(logits.dtype), allowed),
        *differences("the gradient", gradient, true_gradient.to(logits.dtype), rounding(logits.dtype) / count),
    ]


def floor_bytes(workload: Workload) -> int:
    """Each label and the logits of the kept rows read once, the whole gradient and the loss written."""
    assert workload.n is not None and workload.dim is not None
    width = dtype_named(workload.dtype).itemsize
    row = workload.dim * width
    kept = int(workload.n * share(workload.positives, 0, torch.Generator()))
    return workload.n * torch.int64.itemsize + kept * row + workload.n * row + width


def _logits(workload: Workload, generator: torch.Generator) -> Tensor:
    assert workload.n is not None and workload.dim is not None
    return (3 * torch.randn(workload.n, workload.dim, generator=generator)).to(dtype_named(workload.dtype))


def _labels(workload: Workload, kept: Tensor, generator: torch.Generator) -> Tensor:
    assert workload.dim is not None
    return torch.where(kept, torch.randint(0, workload.dim, kept.shape, generator=generator), IGNORED)
