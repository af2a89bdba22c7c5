"""What a case file states that eager must give: EXPECTED, EXPECTED_SHAPES, EXPECTED_DTYPES."""

from __future__ import annotations

import math
from typing import Any

from models.case import CaseModule, Fault, Variant
from runners.study import compare


def expectation_fault(case: CaseModule, variant: Variant, outputs: Any) -> Fault | None:
    """Where eager's outputs for the variant's inputs differ from what the file states."""
    stated = case.expected(variant)
    if stated is not None and not _agrees(stated, _listed(outputs), _slack(outputs)):
        return Fault("VALUE.expected", f"{_listed(outputs)}, the file states {stated}")
    tensors = [leaf for leaf in compare.leaves(outputs) if hasattr(leaf, "dtype")]
    shapes = case.expected(variant, "_SHAPES")
    if shapes is not None and [list(leaf.shape) for leaf in tensors] != [list(shape) for shape in shapes]:
        return Fault("VALUE.expected", f"shapes {[tuple(leaf.shape) for leaf in tensors]}, the file states {shapes}")
    dtypes = case.expected(variant, "_DTYPES")
    if dtypes is not None and [_short(leaf.dtype) for leaf in tensors] != [_short(dtype) for dtype in dtypes]:
        return Fault("VALUE.expected", f"dtypes {[_short(leaf.dtype) for leaf in tensors]}, the file states {dtypes}")
    return None


def _listed(outputs: Any) -> Any:
    """Outputs as a list of nested lists and numbers; a single output is a list of one."""
    if isinstance(outputs, (list, tuple)):
        return [_plain(output) for output in outputs]
    return _plain(outputs) if isinstance(outputs, dict) else [_plain(outputs)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _slack(outputs: Any) -> tuple[float, float]:
    """The widest (relative, absolute) tolerance of the outputs' dtypes."""
    floats = [compare.tolerance(leaf.dtype) for leaf in compare.leaves(outputs) if hasattr(leaf, "dtype")]
    return max(floats, default=compare.TOLERANCES["float32"])


def _agrees(stated: Any, given: Any, slack: tuple[float, float]) -> bool:
    if isinstance(stated, dict) and isinstance(given, dict):
        return stated.keys() == given.keys() and all(_agrees(part, given[key], slack) for key, part in stated.items())
    if isinstance(stated, (list, tuple)) and isinstance(given, (list, tuple)):
        return len(stated) == len(given) and all(_agrees(a, b, slack) for a, b in zip(stated, given, strict=True))
    if isinstance(given, float) and isinstance(stated, (int, float)):
        both_nan = math.isnan(given) and math.isnan(stated)
        return both_nan or math.isclose(stated, given, rel_tol=slack[0], abs_tol=slack[1])
    return bool(stated == given)


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
