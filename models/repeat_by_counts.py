"""Repeat each row as often as a count says.

The length regulator of a speech model, and the expansion of per-image values to per-object rows. Its
variable form is `repeat_interleave` by a tensor; both static rewrites give the longest answer there can
be and say which rows are real.

Contract, for every variant:

- rows `[N, D]`, floating, and counts `[N]`, int64 in [0, 4]; N >= 1;
- the variable form gives rows `[sum of counts, D]`: row i counts[i] times, in order;
- a static form gives rows `[4 N, D]` and a mask `[4 N]` bool: where it is set they are those of the variable
  form, in the same order; elsewhere they are 0.

Sources: Ren et al. 2019, FastSpeech (the length regulator); Lightning-AI/lightning-thunder#173 (its size
depends on data).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, padding_faults, parts, share

CASE = {
    "title": "rows repeated by a tensor of counts",
    "source": "Ren et al. 2019, FastSpeech; Lightning-AI/lightning-thunder#173",
    "variants": {
        "repeat_interleave": {"class_name": "RepeatInterleave", "kind": "variable"},
        "slots": {"class_name": "Slots", "kind": "static", "rewrites": "repeat_interleave"},
        "searched": {"class_name": "Searched", "kind": "static", "rewrites": "repeat_interleave"},
    },
    "sizes": {
        "full": [1_000, 10_000, 100_000, 1_000_000],
        "items_per_sample": None,
        "batches": [None],
    },
}

MOST = 4


class RepeatInterleave(nn.Module):
    """The variable form."""

    def forward(self, rows: Tensor, counts: Tensor) -> Tensor:
        return rows.repeat_interleave(counts, dim=0)


class Slots(nn.Module):
    """The static form in place: every row owns as many slots as the highest count, and fills its first ones."""

    def forward(self, rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        valid = torch.arange(MOST, device=rows.device) < counts.unsqueeze(1)
        repeated = torch.where(valid.unsqueeze(2), rows.unsqueeze(1), 0.0)
        return repeated.flatten(0, 1), valid.flatten()


class Searched(nn.Module):
    """The static form with all real rows in front: each output slot looks its source up in the running sum.

    The ONNX exporter has no function for `searchsorted`.
    """

    def forward(self, rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        ends = counts.cumsum(0)
        slot = torch.arange(MOST * rows.shape[0], device=rows.device)
        source = torch.searchsorted(ends, slot, right=True).clamp(max=rows.shape[0] - 1)
        valid = slot < ends[-1]
        return torch.where(valid.unsqueeze(1), rows[source], 0.0), valid


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor]:
    """Rows `[N, D]` and counts `[N]`; the share of positives is the share of rows that are repeated at all."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, MOST + 1, (workload.n,), generator=generator)
    counted = torch.rand(workload.n, generator=generator) < share(workload.positives, seed, generator)
    return _rows(workload, generator), torch.where(counted, counts, 0)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Counts all zero, all one, all the highest, one row alone (first and last), zeros in between."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(1)
    place = torch.arange(workload.n)
    sets = [
        ("all 0", torch.zeros_like(place)),
        ("all 1", torch.ones_like(place)),
        ("all the highest", torch.full_like(place, MOST)),
        ("first row only", torch.where(place == 0, MOST, 0)),
        ("last row only", torch.where(place == workload.n - 1, 1, 0)),
        ("every second 0", torch.where(place % 2 == 0, 0, 3)),
    ]
    for name, counts in sets:
        yield name, (_rows(workload, generator), counts)


def faults(arguments: tuple[Tensor, ...], outputs: Tensor | tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What the repeated rows break of the contract, against the sources as NumPy repeats them."""
    rows, counts = (argument.cpu() for argument in arguments[:2])
    sources = torch.from_numpy(numpy.repeat(numpy.arange(len(rows)), counts.numpy()))
    repeated, *mask = (output.cpu() for output in parts(outputs))
    if mask:
        if len(repeated) != MOST * len(rows):
            return [Fault("SHAPE.mismatch", f"{len(repeated)} rows; the contract wants {MOST * len(rows)}")]
        if found := padding_faults("the rows", repeated, mask[0], len(sources)):
            return found
        repeated = repeated[mask[0]]
    return differences("the rows", repeated, rows[sources])


def floor_bytes(workload: Workload) -> int:
    """Each count read once; the repeated rows read once and written as often as on average they are."""
    assert workload.n is not None and workload.dim is not None
    row = workload.dim * dtype_named(workload.dtype).itemsize
    counted = int(workload.n * share(workload.positives, 0, torch.Generator()))
    return workload.n * torch.int64.itemsize + counted * row + counted * row * (MOST + 1) // 2


def _rows(workload: Workload, generator: torch.Generator) -> Tensor:
    assert workload.n is not None and workload.dim is not None
    return torch.randn(workload.n, workload.dim, generator=generator).to(dtype_named(workload.dtype))
