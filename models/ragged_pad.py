"""Ragged to padded: a flat run of N rows, cut into B sequences by their lengths, padded to one rectangle.

The collation of texts or of point clouds before a batched layer. Its variable form splits by a list of
lengths and pads to the longest; its static rewrite pads to a limit K.

Contract, for every variant:

- rows `[N, D]`, floating, and lengths `[B]`, int64, not negative, with sum N; N >= 1;
- sequence i holds the next lengths[i] rows, cut to its first K;
- the variable form gives `[B, longest, D]`, longest being the longest sequence after the cut; a static form gives
  `[B, K, D]` and a mask `[B, K]` bool; what lies beyond a sequence is 0;
- lengths that do not sum to N make the variable form raise a RuntimeError; a static graph cannot, so check on
  the host where that can happen.

Sources: `torch.nn.utils.rnn.pad_sequence`; pytorch/pytorch#127153 (it does not export).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, padding_faults, parts, share

CASE = {
    "title": "ragged sequences padded to a rectangle",
    "source": "torch.nn.utils.rnn.pad_sequence; pytorch/pytorch#127153",
    "variants": {
        "split": {"class_name": "Split", "kind": "variable"},
        "gathered": {"class_name": "Gathered", "kind": "static", "rewrites": "split"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "items_per_sample": 8,
        "batches": [32],
    },
}


class Split(nn.Module):
    """The variable form: the lengths become Python numbers."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        sequences = torch.split(rows, lengths.tolist())
        return nn.utils.rnn.pad_sequence([sequence[: self.k] for sequence in sequences], batch_first=True)


class Gathered(nn.Module):
    """The static form: each place of the rectangle computes which row it holds, and whether it holds one."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        start = (lengths.cumsum(0) - lengths).unsqueeze(1)
        column = torch.arange(self.k, device=rows.device)
        valid = column < lengths.unsqueeze(1)
        source = (start + column).clamp(max=rows.shape[0] - 1)
        return torch.where(valid.unsqueeze(2), rows[source], 0.0), valid


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Rows `[N, D]` and lengths `[B]`; the share of positives is the share of sequences that are not empty."""
    generator = torch.Generator().manual_seed(seed)
    count = _sequences(workload)
    filled = max(1, round(count * share(workload.positives, seed, generator)))
    weight = torch.rand(count, generator=generator) + 0.1
    weight[torch.randperm(count, generator=generator)[filled:]] = 0
    return _rows(workload, generator), _lengths(workload, weight)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """All rows in one sequence (first, last), all of one length, all but one of length 1, empty ones in between."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(1)
    place = torch.arange(_sequences(workload))
    sets = [
        ("all in the first", _lengths(workload, (place == 0).float())),
        ("all in the last", _lengths(workload, (place == place[-1]).float())),
        ("of one length", _lengths(workload, torch.ones(len(place)))),
        ("every second empty", _lengths(workload, (place % 2).float())),
    ]
    if workload.n >= len(place):
        sets.append(("one long", torch.where(place == len(place) // 2, workload.n - len(place) + 1, 1)))
    for name, lengths in sets:
        yield name, (_rows(workload, generator), lengths)


def faults(arguments: tuple[Tensor, ...], outputs: Tensor | tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What the rectangle breaks of the contract, against one filled sequence by sequence."""
    assert workload.k is not None
    rows, lengths = (argument.cpu() for argument in arguments[:2])
    padded, *mask = (output.cpu() for output in parts(outputs))
    cut = [min(length, workload.k) for length in lengths.tolist()]
    columns = workload.k if mask else max(cut)
    truth = torch.zeros(len(cut), columns, rows.shape[1], dtype=rows.dtype)
    held = torch.zeros(len(cut), columns, dtype=torch.bool)
    for sequence, (length, end) in enumerate(zip(cut, accumulate(lengths.tolist()), strict=True)):
        start = end - int(lengths[sequence])
        truth[sequence, :length] = rows[start : start + length]
        held[sequence, :length] = True
    found = differences("the rectangle", padded, truth)
    if mask:
        found += padding_faults("the rectangle", padded, mask[0], sum(cut)) or differences("the mask", mask[0], held)
    return found


def floor_bytes(workload: Workload) -> int:
    """Lengths and rows read once, as many rows written: no padding."""
    assert workload.n is not None and workload.dim is not None
    row = workload.dim * dtype_named(workload.dtype).itemsize
    return _sequences(workload) * torch.int64.itemsize + 2 * workload.n * row


def _sequences(workload: Workload) -> int:
    """B, or 8 for a workload that has none."""
    return workload.batch or 8


def _lengths(workload: Workload, weight: Tensor) -> Tensor:
    """Lengths in proportion to `weight`, with sum N."""
    assert workload.n is not None
    ends = (weight.double().cumsum(0) / weight.double().sum() * workload.n).round().to(torch.int64)
    return ends.diff(prepend=ends.new_zeros(1))


def _rows(workload: Workload, generator: torch.Generator) -> Tensor:
    assert workload.n is not None and workload.dim is not None
    return torch.randn(workload.n, workload.dim, generator=generator).to(dtype_named(workload.dtype))
