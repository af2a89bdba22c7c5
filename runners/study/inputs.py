"""Large inputs, made once for all lanes: the lane that needs them first keeps them in a file, and every lane maps
it. Mapped pages are shared until someone writes, and then the writer has its own copy."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from models.case import CaseModule, Variant, Workload

LARGE = 64 << 20
"""Bytes from which inputs are kept: making them anew, and holding them once a lane, costs more than a file."""


def inputs_of(
    case: CaseModule, variant: Variant, workload: Workload, seed: int, folder: Path | None
) -> tuple[Any, ...]:
    """The case's inputs on the CPU, mapped from `folder` if the case is sized and they are large."""
    import torch

    if folder is None or case.case.sizes is None:
        return case.inputs(variant, workload, seed)
    whose = variant.name if workload.noise == "input" else ""  # only noise is the variant's own
    key = msgspec.json.encode([case.case.path, whose, workload, seed])
    path = folder / f"{hashlib.sha256(key).hexdigest()[:16]}.pt"
    if not path.exists():
        arguments = case.inputs(variant, workload, seed)
        if size_of(arguments) < LARGE:
            return arguments
        try:
            _keep(arguments, path)
        except (OSError, RuntimeError):  # no room, in torch's words too: then every lane has its own
            return arguments
    kept: tuple[Any, ...] = torch.load(path, mmap=True, weights_only=False)
    return kept


def size_of(arguments: Any) -> int:
    """Bytes of the tensors in nested arguments."""
    import torch
    from torch.utils._pytree import tree_leaves

    return sum(leaf.nbytes for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor))


def to_device(arguments: tuple[Any, ...], device: str) -> tuple[Any, ...]:
    """The arguments on a torch device; a tensor that is there already is not copied."""
    import torch
    from torch.utils._pytree import tree_map

    moved: tuple[Any, ...] = tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, arguments
    )
    return moved


def _keep(arguments: tuple[Any, ...], path: Path) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(arguments, file)
        Path(aside).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()
