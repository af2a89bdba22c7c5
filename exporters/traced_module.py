"""Capture by `torch.jit.trace`: module in, `ScriptModule` out.

A trace follows one run. A Python decision on a size or a value is taken once, and what it decided becomes
part of the graph: the tracer's warnings say where, and are kept as the fact `trace_warnings`.

https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from exporters.exporter import Request

if TYPE_CHECKING:
    import torch
    from torch import nn

STAGE = "capture"


def export(source: nn.Module, request: Request) -> torch.jit.ScriptModule:
    """Trace one call with the example inputs, tensors or nestings of tensors; a Python number is refused."""
    import torch
    from torch.jit._trace import TracerWarning
    from torch.utils._pytree import tree_map_only

    # The trace runs the module, which may write into its inputs.
    inputs = tree_map_only(torch.Tensor, torch.clone, request.inputs)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always", TracerWarning)
        # The check of a trace compares a second run with the first: it would refuse every random draw.
        traced = torch.jit.trace(source, inputs, check_trace=False)
    frozen = [str(warning.message) for warning in caught if issubclass(warning.category, TracerWarning)]
    if frozen:
        request.facts["trace_warnings"] = frozen
    return traced  # type: ignore[no-any-return]
