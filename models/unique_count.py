"""Unique values and how often each occurs.

The histogram of labels, of hit experts, of token ids. Its variable form is `torch.unique`; one static
rewrite sorts and counts runs, the other has a counter for every class there can be.

Contract, for every variant:

- labels `[N]`, int64 in [0, 1000), N >= 1;
- the variable form gives the U distinct values `[U]` in ascending order and their counts `[U]`, both int64;
- a static form gives values `[L]`, counts `[L]`, int64, and a mask `[L]` bool: where it is set they are those
  of the variable form, in the same order; elsewhere values and counts are 0. L is N or the number of classes.

Sources: pytorch/pytorch#113118 (`unique` refused by a full graph), pytorch/pytorch#151722 (a `unique` of
fixed size, asked for).
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, padding_faults, parts, share

CASE = {
    "title": "unique values and their counts",
    "source": "pytorch/pytorch#113118; pytorch/pytorch#151722",
    "variants": {
        "unique": {"class_name": "Unique", "kind": "variable"},
        "sorted_runs": {"class_name": "SortedRuns", "kind": "static", "rewrites": "unique"},
        "counters": {"class_name": "Counters", "kind": "static", "rewrites": "unique"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "items_per_sample": None,
        "batches": [None],
        "dim": None,
        "dtype": None,
    },
}

CLASSES = 1000


class Unique(nn.Module):
    """The variable form."""

    def forward(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        values, counts = torch.unique(labels, return_counts=True)
        return values, counts


class SortedRuns(nn.Module):
    """The static form for values of any range: sort, number the runs of equals, count each. L is N."""

    def forward(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ordered = labels.sort().values
        first = torch.cat([torch.ones_like(ordered[:1], dtype=torch.bool), ordered[1:] != ordered[:-1]])
        run = first.to(torch.int64).cumsum(0) - 1
        empty = torch.zeros_like(labels)
        values = empty.scatter_add(0, run, torch.where(first, ordered, 0))
        counts = empty.scatter_add(0, run, torch.ones_like(labels))
        return values, counts, counts > 0


class Counters(nn.Module):
    """The static form for values of a known range: one counter each. L is the number of classes."""

    def forward(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        counts = labels.new_zeros(CLASSES).scatter_add(0, labels, torch.ones_like(labels))
        present = counts > 0
        return torch.where(present, torch.arange(CLASSES, device=labels.device), 0), counts, present


def inputs(workload: Workload, seed: int) -> tuple[Tensor]:
    """Labels `[N]` drawn from the workload's share of positives of all classes."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    present = max(1, int(CLASSES * share(workload.positives, seed, generator)))
    classes = torch.randperm(CLASSES, generator=generator)[:present]
    return (classes[torch.randint(0, present, (workload.n,), generator=generator)],)


def more_inputs(workload: Workload) -> list[tuple[str, tuple[Tensor]]]:
    """One value only, the two ends of the range, as many values as there can be, both orders."""
    assert workload.n is not None
    rising = torch.arange(workload.n) % CLASSES
    return [
        ("all 0", (torch.zeros_like(rising),)),
        ("all the highest", (torch.full_like(rising, CLASSES - 1),)),
        ("both ends", (torch.where(rising % 2 == 0, 0, CLASSES - 1),)),
        ("one stranger", (torch.where(rising == 0, 7, 3),)),
        ("rising", (rising,)),
        ("falling", (CLASSES - 1 - rising,)),
    ]


def faults(arguments: tuple[Tensor, ...], outputs: tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What values and counts break of the contract, against a counter over Python numbers."""
    counter = sorted(Counter(arguments[0].tolist()).items())
    values, counts, *mask = (output.cpu() for output in parts(outputs))
    found = []
    if mask:
        for name, padded in (("the values", values), ("the counts", counts)):
            found += padding_faults(name, padded, mask[0], len(counter))
        if found:
            return found
        values, counts = values[mask[0]], counts[mask[0]]
    return [
        *differences("the values", values, torch.tensor([value for value, _ in counter])),
        *differences("the counts", counts, torch.tensor([count for _, count in counter])),
    ]


def floor_bytes(workload: Workload) -> int:
    """Each label read once; the values there are, and their counts, written."""
    assert workload.n is not None
    present = max(1, int(CLASSES * share(workload.positives, 0, torch.Generator())))
    return (workload.n + 2 * min(workload.n, present)) * torch.int64.itemsize
