"""What a case's `faults` share: an output against the truth, and padded outputs brought to one form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.case import Fault


def differences(name: str, found: Tensor, wanted: Tensor, tolerance: Tensor | float = 0.0) -> list[Fault]:
    """What keeps `found` from being `wanted`: shape, dtype, then values that differ by more than `tolerance`
    (absolute; it broadcasts). Equal infinities agree; a NaN agrees with nothing."""
    found, wanted = found.detach().cpu(), wanted.detach().cpu()
    if found.shape != wanted.shape:
        return [Fault("SHAPE.mismatch", f"{name} {tuple(found.shape)}; the contract wants {tuple(wanted.shape)}")]
    if found.dtype != wanted.dtype:
        return [Fault("DTYPE.mismatch", f"{name} {found.dtype}; the contract wants {wanted.dtype}")]
    agree = found == wanted
    if not agree.all() and found.is_floating_point():
        agree |= (found.double() - wanted.double()).abs() <= tolerance
    if agree.all():
        return []
    place = tuple((~agree).nonzero()[0].tolist())
    return [
        Fault(
            "VALUE.mismatch",
            f"{name}: {int((~agree).sum())} of {agree.numel()} values differ; the first "
            f"at {list(place)} is {found[place].item()}, not {wanted[place].item()}",
        )
    ]


def rounding(dtype: torch.dtype, terms: int = 1) -> float:
    """The relative error that a contract allows a sum of `terms` values, added up one by one in the dtype: the
    larger of 64 and the square root of `terms`, in rounding units.

    Roundings are as good as random, so the error of a plain sum grows as the square root: Higham and Mary, "A New
    Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41 (2019), theorem 3.1.
    """
    return max(64.0, math.sqrt(terms)) * torch.finfo(dtype).eps


def parts(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The outputs as a tuple, also when there is one."""
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def padding_faults(name: str, padded: Tensor, valid: Tensor, count: int) -> list[Fault]:
    """What is wrong with a padded output's mask: `count` of its places must be valid, and all others zero."""
    if valid.dtype != torch.bool:
        return [Fault("DTYPE.mismatch", f"the mask of {name} is {valid.dtype}, not torch.bool")]
    if padded.shape[: valid.dim()] != valid.shape:
        return [Fault("SHAPE.mismatch", f"{name} {tuple(padded.shape)} with a mask {tuple(valid.shape)}")]
    if int(valid.sum()) != count:
        return [Fault("SHAPE.mismatch", f"{int(valid.sum())} places of {name} are valid; the contract wants {count}")]
    if bool((padded[~valid] != 0).any()):
        return [Fault("VALUE.mismatch", f"the padding of {name} is not zero")]
    return []


def share(positives: float | None, seed: int, generator: torch.Generator) -> float:
    """The share of items selected: the workload's for seed 0, moved by up to a fifth of all items else."""
    wanted = 0.5 if positives is None else positives
    if seed == 0:
        return wanted
    return min(max(wanted + 0.4 * (float(torch.rand((), generator=generator)) - 0.5), 0.0), 1.0)


def dtype_named(name: str | None) -> torch.dtype:
    """The torch dtype that a workload names."""
    dtype: torch.dtype = getattr(torch, name or "")
    return dtype
