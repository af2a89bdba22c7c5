"""Balanced sampler: of N items with binary labels take K, half of each class, in random order.

The sampler of detection heads (Detectron2's `subsample_labels`, torchvision's
`BalancedPositiveNegativeSampler`), in the form that returns rows and labels. Its variable form looks the
classes up with `nonzero`; the article's static rewrite ranks random keys with `topk`; `models/partition.py` holds a
static form without sorting.

Contract, for every variant:

- features `[N, D]` or `[B, N, D]`, floating; labels `[N]` or `[B, N]`, integer or bool; outputs are rows
  `[K, D]` or `[B, K, D]` in the dtype of the features and their labels `[K]` or `[B, K]` in the dtype of
  the labels;
- positives get min(their count, K // 2) slots and negatives min(theirs, the rest of K); what is then short comes
  from the other class;
- K distinct items, each member of a class equally likely, in uniformly random order;
- labels outside {0, 1} are never sampled;
- at least K items must be eligible. With fewer, eager raises a RuntimeError; a compiled static graph
  cannot raise and returns ineligible items instead: check on the host where that can happen.

Sources: Detectron2, `detectron2/modeling/sampling.py`; torchvision,
`torchvision/models/detection/_utils.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from models import draw_statistics
from models.case import Fault, Workload
from models.judge import dtype_named, share
from models.partition import PartitionSampler  # noqa: F401  (a variant)

CASE = {
    "title": "Detectron2-style balanced sampler",
    "source": "Detectron2 subsample_labels; torchvision BalancedPositiveNegativeSampler",
    "variants": {
        "nonzero": {"class_name": "Nonzero", "kind": "variable"},
        "topk": {"class_name": "TopK", "kind": "static", "rewrites": "nonzero"},
        "topk_shuffled": {"class_name": "TopKShuffled", "kind": "static", "rewrites": "nonzero"},
        "partition": {"class_name": "PartitionSampler", "kind": "static", "rewrites": "nonzero"},
    },
    "sizes": {"items_per_sample": 10, "batches": [None, 32], "dim": 16, "draws": True},
    "random": True,
    "distinct": True,
}

_LEAST_DRAWS, _MOST_DRAWS = 12, 2_000

_TOO_FEW = "fewer than K items have a label in {0, 1}: nothing to fill the sample with"


class Nonzero(nn.Module):
    """The variable form: positions by `nonzero`, one random permutation a class, joined and shuffled.

    A batch is a Python loop over its rows.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def noise(self, features: Tensor, labels: Tensor) -> Tensor:
        """Distinct keys `[N + K]` or `[B, N + K]` float32: one an item, one an output slot."""
        return distinct_keys(labels, labels.shape[-1] + self.k)

    def forward(self, features: Tensor, labels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if labels.dim() == 1:
            return self._sample(features, labels, noise)
        samples = [
            self._sample(features[row], labels[row], None if noise is None else noise[row])
            for row in range(labels.shape[0])
        ]
        return torch.stack([rows for rows, _ in samples]), torch.stack([label for _, label in samples])

    def _sample(self, features: Tensor, labels: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        positives = torch.nonzero(labels == 1).squeeze(1)
        negatives = torch.nonzero(labels == 0).squeeze(1)
        positive_quota = min(positives.numel(), self.k // 2)
        negative_quota = min(negatives.numel(), self.k - self.k // 2)
        if negative_quota < self.k - self.k // 2:
            positive_quota = self.k - negative_quota
        else:
            negative_quota = self.k - positive_quota
        positives = positives[self._order(positives, noise)[:positive_quota]]
        negatives = negatives[self._order(negatives, noise)[:negative_quota]]
        index = torch.cat([positives, negatives])
        if not torch.jit.is_tracing():  # type: ignore[attr-defined]
            torch._check(index.shape[0] == self.k, lambda: _TOO_FEW)
        slots = torch.randperm(self.k, device=labels.device) if noise is None else noise[-self.k :].argsort()
        index = index[slots]
        return features[index], labels[index]

    @staticmethod
    def _order(members: Tensor, noise: Tensor | None) -> Tensor:
        if noise is None:
            return torch.randperm(members.numel(), device=members.device)
        return noise[members].argsort()


class TopK(nn.Module):
    """The article's static form, exactly as it ranks: random keys by `topk` per class, what lies beyond a
    quota voided, both lists joined and ranked by the same keys.

    That last ranking is by keys which are larger in the larger class, so its order is not random when the
    classes differ in size. TensorRT limits K to 3840.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def noise(self, features: Tensor, labels: Tensor) -> Tensor:
        """Distinct keys `[N]` or `[B, N]` float32, one an item."""
        return distinct_keys(labels, labels.shape[-1])

    def forward(self, features: Tensor, labels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        keys = torch.rand(labels.shape, device=labels.device) if noise is None else noise
        best, index = self._candidates(labels, keys)
        return self._take(features, labels, best, index)

    def _candidates(self, labels: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and positions `[.., 2K]` of the best of each class; a key is -1 where a slot is void."""
        positive, negative = labels == 1, labels == 0
        positive_count = positive.sum(-1, keepdim=True)
        negative_count = negative.sum(-1, keepdim=True)
        half = self.k // 2
        positive_quota = torch.where(
            negative_count < self.k - half, self.k - negative_count, positive_count.clamp(max=half)
        )
        negative_quota = self.k - positive_quota
        slot = torch.arange(self.k, device=labels.device)
        best, index = [], []
        for member, quota in ((positive, positive_quota), (negative, negative_quota)):
            values, positions = torch.where(member, keys, -1.0).topk(self.k, dim=-1)
            best.append(torch.where(slot < quota, values, -1.0))
            index.append(positions)
        return torch.cat(best, -1), torch.cat(index, -1)

    def _take(self, features: Tensor, labels: Tensor, order: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The K candidates of the highest `order`; void ones have -1."""
        best, slot = order.topk(self.k, dim=-1)
        if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):  # type: ignore[attr-defined]
            torch._assert_async((best >= 0).all(), _TOO_FEW)
        index = index.gather(-1, slot)
        rows = features.gather(-2, index.unsqueeze(-1).expand(*index.shape, features.shape[-1]))
        return rows, labels.gather(-1, index)


class TopKShuffled(TopK):
    """`TopK` with its order mended: the last ranking is by fresh keys."""

    def noise(self, features: Tensor, labels: Tensor) -> Tensor:
        """Distinct keys `[N + 2K]` or `[B, N + 2K]` float32: one an item, one a candidate."""
        return distinct_keys(labels, labels.shape[-1] + 2 * self.k)

    def forward(self, features: Tensor, labels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        n = labels.shape[-1]
        if noise is None:
            keys = torch.rand(labels.shape, device=labels.device)
            fresh = torch.rand((*labels.shape[:-1], 2 * self.k), device=labels.device)
        else:
            keys, fresh = noise[..., :n], noise[..., n:]
        best, index = self._candidates(labels, keys)
        return self._take(features, labels, torch.where(best < 0, -1.0, fresh), index)


def distinct_keys(like: Tensor, count: int) -> Tensor:
    """Keys `[count]` or `[B, count]` float32 in (0, 1), no two of a row alike, so that ranking them has one
    answer. Exact for count up to 2^23."""
    rows = [torch.randperm(count) for _ in range(like.shape[0] if like.dim() == 2 else 1)]
    keys = (torch.stack(rows).double() + 0.5) / count
    return keys.float().reshape(*like.shape[:-1], count).to(like.device)


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Features `[B, N, D]` that carry their own position, and binary labels `[B, N]`.

    Seed 0 has the workload's share of positives; other seeds vary it by up to a fifth of all items.
    """
    assert workload.n is not None and workload.positives is not None
    generator = torch.Generator().manual_seed(seed)
    positives = share(workload.positives, seed, generator)
    labels = torch.rand(workload.batch or 1, workload.n, generator=generator) < positives
    return _features(workload, generator), _labels(workload, labels)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """The density sweep around the quotas, and labels that belong to neither class; each made when asked for."""
    assert workload.n is not None and workload.k is not None
    generator = torch.Generator().manual_seed(1)
    n, half = workload.n, workload.k // 2
    for count in sorted({0, 1, half - 1, half, half + 1, n - half, n - 1, n} & set(range(n + 1))):
        labels = torch.rand(workload.batch or 1, n, generator=generator).argsort(-1) < count
        yield f"{count} positives", (_features(workload, generator), _labels(workload, labels))
    if workload.label_dtype in ("int32", "int64"):
        ignored = torch.randint(-1, 3, (workload.batch or 1, n), generator=generator)
        yield "labels -1 to 2", (_features(workload, generator), _labels(workload, ignored))


def faults(arguments: tuple[Tensor, ...], outputs: tuple[Tensor, Tensor], workload: Workload) -> list[Fault]:
    """What one call's outputs break of the contract; shapes and dtypes first, then rows, labels, quotas."""
    features, labels = arguments[:2]
    rows, taken = outputs
    assert workload.k is not None
    shape = (*labels.shape[:-1], workload.k)
    if rows.shape != (*shape, features.shape[-1]) or taken.shape != shape:
        return [
            Fault(
                "SHAPE.mismatch",
                f"rows {tuple(rows.shape)} and labels {tuple(taken.shape)}; the "
                f"contract wants {(*shape, features.shape[-1])} and {shape}",
            )
        ]
    if rows.dtype != features.dtype or taken.dtype != labels.dtype:
        return [
            Fault(
                "DTYPE.mismatch",
                f"rows {rows.dtype} and labels {taken.dtype}; the inputs have {features.dtype} and {labels.dtype}",
            )
        ]
    index = sampled_positions(rows)
    known = (index >= 0) & (index < labels.shape[-1])
    safe = index.clamp(0, labels.shape[-1] - 1)
    original = features.gather(-2, safe.unsqueeze(-1).expand_as(rows))
    known &= (original == rows).all(-1)
    if not known.all():
        return [
            Fault(
                "VALUE.not_in_input", f"{int((~known).sum())} of {known.numel()} sampled rows are no rows of the input"
            )
        ]
    found = []
    ordered = index.sort(-1).values
    if (repeats := int((ordered[..., 1:] == ordered[..., :-1]).sum())) > 0:
        found.append(Fault("RNG.repeats", f"{repeats} items were sampled twice"))
    if (wrong := int((labels.gather(-1, safe) != taken).sum())) > 0:
        found.append(Fault("VALUE.label", f"{wrong} sampled labels are not those of their rows"))
    if (foreign := int(((taken != 0) & (taken != 1)).sum())) > 0:
        found.append(Fault("VALUE.ineligible", f"{foreign} items with a label outside {{0, 1}} were sampled"))
    half = workload.k // 2
    positives, negatives = (labels == 1).sum(-1), (labels == 0).sum(-1)
    quota = torch.where(negatives < workload.k - half, workload.k - negatives, positives.clamp(max=half))
    if not torch.equal((taken == 1).sum(-1), quota):
        found.append(
            Fault(
                "VALUE.quota",
                f"{(taken == 1).sum(-1).tolist()} positives were sampled where the quota is {quota.tolist()}",
            )
        )
    return found


def statistics(
    call: Callable[..., Any], reference: Callable[..., Any] | None, workload: Workload, device: str, seconds: float
) -> tuple[list[Fault], dict[str, Any]]:
    """Whether many draws of `call` (noise inside) keep the contract: every member of a class as likely, order
    uniform, draws independent; at 50 % and at 90 % positives, in about `seconds` of calls each.

    With a `reference`, the same variant in eager, the draws are held against its draws instead. The rows of
    a batch have the same labels, so that each is a draw of the same kind and none may repeat another.
    """
    faults: list[Fault] = []
    facts: dict[str, Any] = {"false_alarm": draw_statistics.FALSE_ALARM}
    for positives in (0.5, 0.9):
        features, labels = inputs(msgspec.structs.replace(workload, positives=positives), 0)
        if workload.batch:
            labels = labels[:1].expand_as(labels).contiguous()
        arguments = (features.to(device), labels.to(device))
        broken, draws = _draw(call, arguments, workload, seconds)
        layout = _layout(labels.reshape(-1, labels.shape[-1])[0], workload)
        found = broken
        seen: dict[str, Any] = {}
        if not broken:
            others = None if reference is None else _draw(reference, arguments, workload, seconds)[1]
            found, seen = draw_statistics.sampling_faults(draws, layout, others)
        name = f"{positives:.0%} positives".replace("%", " %")
        facts[name] = seen
        faults += [Fault(fault.code, f"at {name}: {fault.text}") for fault in found]
    return faults, facts


def _draw(
    call: Callable[..., Any], arguments: tuple[Tensor, Tensor], workload: Workload, seconds: float
) -> tuple[list[Fault], Any]:
    """Drawn positions `[draws, K]` int64 of as many calls as fit into `seconds`, at least `_LEAST_DRAWS` draws
    unless that takes twenty times as long; and the faults of the first call, instead."""
    drawn: list[Tensor] = []
    began = time.perf_counter()
    rows_a_call = workload.batch or 1
    while (elapsed := time.perf_counter() - began) < seconds or (
        len(drawn) * rows_a_call < _LEAST_DRAWS and elapsed < 20 * seconds
    ):
        rows, taken = call(*arguments)
        if not drawn and (broken := faults(arguments, (rows, taken), workload)):
            return broken, None
        drawn.append(sampled_positions(rows).cpu())
        if len(drawn) * rows_a_call >= _MOST_DRAWS:
            break
    return [], torch.stack(drawn).reshape(-1, drawn[0].shape[-1]).numpy()


def _layout(labels: Tensor, workload: Workload) -> draw_statistics.Layout:
    """Labels `[N]` as classes, and the quota of positives."""
    assert workload.k is not None
    positives, negatives, half = int((labels == 1).sum()), int((labels == 0).sum()), workload.k // 2
    ones = workload.k - negatives if negatives < workload.k - half else min(positives, half)
    return draw_statistics.Layout(labels.long().cpu().numpy(), workload.k, ones, workload.batch or 1)


def floor_bytes(workload: Workload) -> int:
    """Each label read once; K rows and labels read, and written."""
    assert workload.n is not None and workload.k is not None and workload.dim is not None
    label = dtype_named(workload.label_dtype).itemsize
    row = workload.dim * dtype_named(workload.dtype).itemsize + label
    return (workload.batch or 1) * (workload.n * label + 2 * workload.k * row)


def sampled_positions(rows: Tensor) -> Tensor:
    """The positions `[.., K]` int64 that rows `[.., K, D]` carry in their first three features."""
    digits = rows[..., :3].nan_to_num(-1.0).to(torch.int64)
    return digits[..., 0] + 256 * digits[..., 1] + 65536 * digits[..., 2]


def _features(workload: Workload, generator: torch.Generator) -> Tensor:
    """`[B, N, D]`: the position in three base-256 digits, exact in every floating dtype, and the batch row;
    the rest is random."""
    assert workload.n is not None and workload.dim is not None
    batch = workload.batch or 1
    features = torch.rand(batch, workload.n, workload.dim, generator=generator)
    position = torch.arange(workload.n)
    for digit in range(3):
        features[..., digit] = (position >> (8 * digit)) & 255
    features[..., 3] = torch.arange(batch).unsqueeze(-1)
    features = features.to(dtype_named(workload.dtype))
    return features if workload.batch else features[0]


def _labels(workload: Workload, labels: Tensor) -> Tensor:
    labels = labels.to(dtype_named(workload.label_dtype))
    return labels if workload.batch else labels[0]
